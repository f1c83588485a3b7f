//! Memory and time stay within bounds.

use crate::support::{Bench, marked, resident_kib, sh};
use leasehold_worker::exec::Exit;
use leasehold_worker::guard::GuardStatus;
use std::time::{Duration, Instant};

pub(crate) fn flood_stays_flat() {
    let bench = Bench::new();
    bench.run(sh("yes | head -c 8M"));
    let before = resident_kib(std::process::id());
    let mut run = bench.sh("yes | head -c 200M; yes error | head -c 50M >&2; printf end >&2");
    let mut most = 0;
    while !matches!(run.control().state(), leasehold_worker::exec::RunState::Over(_)) {
        most = most.max(resident_kib(std::process::id()));
        std::thread::yield_now();
    }
    assert_eq!(bench.wait(&mut run), Exit::Code(0));
    assert_eq!(bench.output.total(), (258 << 20) + 3);
    assert!(bench.output.len() <= leasehold_worker::exec::DEFAULT_CAP);
    // Other tests run beside this one, and some take 10 MiB; the flood is 250 MiB.
    assert!(most < before + 96 * 1024, "{before} KiB before, {most} KiB at most");
    assert!(bench.text().ends_with("end"));
}

pub(crate) fn pipe_held_open() {
    let bench = Bench::new();
    let began = Instant::now();
    assert_eq!(bench.run(sh("setsid sleep 1000 & printf 'last words'")), Exit::Code(0));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(bench.text(), "last words");
    assert!(marked(&bench.mark).is_empty());
    // One that goes on talking has its time, too.
    let began = Instant::now();
    assert_eq!(bench.run(sh("setsid yes & sleep 0.1")), Exit::Code(0));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

pub(crate) fn guard_is_small() {
    let bench = Bench::new();
    let mut run = bench.sh("sleep 1000");
    let GuardStatus::Up { pid } = *bench.guard.status().borrow() else {
        panic!("the guard is down");
    };
    let resident = resident_kib(pid);
    assert!(resident < 8 * 1024, "{resident} KiB");
    // In a session of its own: a terminal's Ctrl-C does not reach it.
    let fields = crate::support::stat(i32::try_from(pid).unwrap()).unwrap();
    assert_eq!(fields[3], pid.to_string());
    run.control().kill(Duration::from_secs(5));
    bench.wait(&mut run);
}

pub(crate) fn many_short_runs() {
    let bench = Bench::new();
    for _ in 0..40 {
        assert_eq!(bench.run(sh("echo x")), Exit::Code(0));
    }
    assert_eq!(bench.text(), "x\n".repeat(40));
    // None is left as a zombie, and no thread of theirs.
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        tasks.filter(|name| name.trim() == "leasehold-run").count()
    };
    crate::support::until("few threads are left", || threads() < 10);
}
