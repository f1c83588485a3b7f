//! How runs end.

use crate::support::{Bench, lives, marked, sh, until};
use leasehold_worker::exec::{CommandSpec, Exit, RunState, Stream, start};
use std::time::{Duration, Instant};

pub(crate) fn codes_and_signals() {
    let bench = Bench::new();
    for code in [0, 3, 137, 255] {
        assert_eq!(bench.run(sh(&format!("exit {code}"))), Exit::Code(code));
    }
    for (signal, number, name) in [("KILL", 9, "SIGKILL"), ("TERM", 15, "SIGTERM"), ("PIPE", 13, "SIGPIPE")] {
        let exit = bench.run(sh(&format!("kill -{signal} $$; sleep 100")));
        assert_eq!(exit, Exit::Signal { number, name: name.into(), core_dumped: false });
    }
    // A shell whose child was killed returns a code.
    assert_eq!(bench.run(sh("sh -c 'kill -9 $$'; exit $?")), Exit::Code(137));
}

pub(crate) fn standard_input() {
    let bench = Bench::new();
    let input: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    let spec = CommandSpec { stdin: Some(input.clone()), ..CommandSpec::new(["cat"]) };
    assert_eq!(bench.run(spec), Exit::Code(0));
    assert_eq!(bench.of(Stream::Stdout), input);
    // Not read at all.
    assert_eq!(bench.run(CommandSpec { stdin: Some(input), ..CommandSpec::new(["true"]) }), Exit::Code(0));
    assert_eq!(bench.run(sh("cat; readlink /proc/self/fd/0")), Exit::Code(0));
    assert_eq!(bench.text(), "/dev/null\n");
    let spec = CommandSpec { stdin: Some(b"again".to_vec()), ..sh("cat /dev/stdin") };
    assert_eq!(bench.run(spec), Exit::Code(0));
    assert_eq!(bench.text(), "again");
}

pub(crate) fn output_is_passed_on() {
    let bench = Bench::new();
    let exit = bench.run(sh("printf 'a\\000\\377'; printf oops >&2; sleep 0.05; printf 'no newline'"));
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(bench.output.total(), 17);
    let chunks = bench.output.take(usize::MAX);
    let of = |stream| -> Vec<u8> {
        chunks.iter().filter(|chunk| chunk.stream == stream).flat_map(|chunk| chunk.bytes.clone()).collect()
    };
    assert_eq!(of(Stream::Stdout), b"a\0\xffno newline");
    assert_eq!(of(Stream::Stderr), b"oops");
}

pub(crate) fn term_then_kill() {
    let bench = Bench::new();
    let mut run = bench.sh("trap 'echo not yet' TERM; echo ready; while :; do sleep 0.1; done");
    bench.until_printed("ready");
    run.terminate();
    bench.until_printed("not yet");
    assert_eq!(run.control().state(), RunState::Running);
    let began = Instant::now();
    assert!(bench.runtime.block_on(run.kill()).is_empty());
    assert!(matches!(bench.wait(&mut run), Exit::Signal { number: 9, .. }));
    assert!(began.elapsed() < Duration::from_secs(3));
    assert!(run.control().survivors().is_empty());
    // Handles of a run that is over do nothing.
    assert!(run.control().kill(Duration::from_secs(1)).is_empty() && run.control().pids().is_empty());
    run.terminate();
}

pub(crate) fn dropping_kills() {
    let bench = Bench::new();
    let run = bench.sh("setsid sleep 1000 & echo ready; sleep 1000");
    bench.until_printed("ready");
    let control = run.control();
    drop(run);
    until("the run is over", || matches!(control.state(), RunState::Over(Exit::Signal { number: 9, .. })));
    assert!(marked(&bench.mark).is_empty());
    // Reaped, too.
    assert!(!std::path::Path::new(&format!("/proc/{}", control.pid())).exists());
}

pub(crate) fn dropped_start_leaves_nothing() {
    let bench = Bench::new();
    for pause in [0, 1, 2, 4, 8, 16] {
        let starting = start(&bench.guard, bench.launch(sh("sleep 1000")));
        let short = Duration::from_millis(pause);
        let _ = bench.runtime.block_on(async { tokio::time::timeout(short, starting).await });
        bench.assert_nothing_left();
    }
}

pub(crate) fn control_without_a_runtime() {
    let bench = Bench::new();
    let mut run = bench.sh("echo ready; sleep 1000");
    bench.until_printed("ready");
    // Nobody polls the runtime now.
    let control = run.control();
    let pid = control.pid();
    let left = std::thread::spawn(move || (control.freeze(), control.kill(Duration::from_secs(5))));
    assert_eq!(left.join().unwrap(), (vec![], vec![]));
    until("it is dead", || !lives(pid));
    assert!(matches!(bench.wait(&mut run), Exit::Signal { number: 9, .. }));
}
