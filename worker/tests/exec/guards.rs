//! The guard does what the worker cannot, and is itself looked after.

use crate::host::{Host, SPREAD_COUNT};
use crate::support::{Bench, lives, marked, new_mark, sh, state, until, within};
use leasehold_worker::exec::{Exit, StartError};
use leasehold_worker::guard::{BootInstant, GuardStatus};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn all_in_state(mark: &str, wanted: char) -> bool {
    let states = marked(mark);
    states.len() == SPREAD_COUNT && states.iter().all(|(_, state)| *state == wanted)
}

pub(crate) fn killed_worker() {
    let mark = new_mark();
    let mut host = Host::spawn(&mark, Duration::from_secs(60));
    let guard = host.guard_pid();
    until("the command runs", || marked(&mark).len() == SPREAD_COUNT);
    host.signal(Signal::SIGKILL);
    assert!(within(Duration::from_secs(1), || marked(&mark).is_empty()), "{:?}", marked(&mark));
    until("the guard ends, too", || !lives(guard));
}

pub(crate) fn stopped_worker() {
    let mark = new_mark();
    let lease = Duration::from_secs(1);
    let mut host = Host::spawn(&mark, lease);
    host.guard_pid();
    until("the command runs", || all_in_state(&mark, 'S'));
    for _ in 0..2 {
        host.signal(Signal::SIGSTOP);
        let began = Instant::now();
        assert!(within(lease * 2, || all_in_state(&mark, 'T')), "{:?}", marked(&mark));
        assert!(began.elapsed() < lease + Duration::from_millis(500), "{:?}", began.elapsed());
        host.signal(Signal::SIGCONT);
        until("the command goes on", || all_in_state(&mark, 'S'));
    }
    // Stopped, then killed.
    host.signal(Signal::SIGSTOP);
    until("the command is stopped", || all_in_state(&mark, 'T'));
    host.signal(Signal::SIGKILL);
    assert!(within(Duration::from_secs(1), || marked(&mark).is_empty()), "{:?}", marked(&mark));
}

pub(crate) fn killed_guard() {
    let mark = new_mark();
    let mut host = Host::spawn(&mark, Duration::from_secs(2));
    let first = host.guard_pid();
    until("the command runs", || marked(&mark).len() == SPREAD_COUNT);
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    let mut line = host.line();
    if line == "down" {
        line = host.line();
    }
    let second: i32 = line.strip_prefix("up ").unwrap().parse().unwrap();
    assert_ne!(first, second);
    assert!(state(first).is_none(), "reaped");
    assert_eq!(marked(&mark).len(), SPREAD_COUNT, "the command was not touched");
    // The new guard knows the run: it is killed with the worker.
    host.signal(Signal::SIGKILL);
    assert!(within(Duration::from_secs(1), || marked(&mark).is_empty()), "{:?}", marked(&mark));
    until("the guard ends, too", || !lives(second));
}

/// The guard stopped the command and was killed: the next one continues it.
pub(crate) fn killed_guard_of_a_stopped_worker() {
    let mark = new_mark();
    let mut host = Host::spawn(&mark, Duration::from_secs(1));
    let guard = host.guard_pid();
    until("the command runs", || all_in_state(&mark, 'S'));
    host.signal(Signal::SIGSTOP);
    until("the command is stopped", || all_in_state(&mark, 'T'));
    kill(Pid::from_raw(guard), Signal::SIGKILL).unwrap();
    host.signal(Signal::SIGCONT);
    until("the command goes on", || all_in_state(&mark, 'S'));
    host.signal(Signal::SIGKILL);
    assert!(within(Duration::from_secs(1), || marked(&mark).is_empty()), "{:?}", marked(&mark));
}

pub(crate) fn single_run_lapses() {
    let bench = Bench::new();
    let mut kept = bench.sh("sleep 1000");
    let mut launch = bench.launch(sh("sleep 1000"));
    launch.lease_until = BootInstant::now().plus(Duration::from_millis(300));
    let mut lapsing = bench.runtime.block_on(leasehold_worker::exec::start(&bench.guard, launch)).unwrap();
    let is = |pid, letter| move || state(pid) == Some(letter);
    until("it is stopped", is(lapsing.control().pid(), 'T'));
    assert_eq!(state(kept.control().pid()), Some('S'));
    // An older renewal changes nothing; a newer one that lapsed already, neither.
    bench.guard.renew(&[(lapsing.control().key(), BootInstant::from_nanos(1))]);
    bench.guard.renew(&[(lapsing.control().key(), BootInstant::now())]);
    assert!(!within(Duration::from_millis(100), is(lapsing.control().pid(), 'S')));
    let until_then = BootInstant::now().plus(Duration::from_millis(700));
    bench.guard.renew(&[(lapsing.control().key(), until_then), (kept.control().key(), until_then)]);
    until("it goes on", is(lapsing.control().pid(), 'S'));
    // What somebody else continues is stopped again.
    until("it is stopped again", is(lapsing.control().pid(), 'T'));
    lapsing.control().thaw();
    until("and again", is(lapsing.control().pid(), 'T'));
    for run in [&mut lapsing, &mut kept] {
        assert!(run.control().kill(Duration::from_secs(5)).is_empty());
        assert!(matches!(bench.wait(run), Exit::Signal { number: 9, .. }));
    }
}

pub(crate) fn stuck_guard_is_replaced() {
    let bench = Bench::new();
    let mut run = bench.sh("sleep 1000");
    let pid_of = |status: GuardStatus| match status {
        GuardStatus::Up { pid } => Some(pid),
        GuardStatus::Down { .. } => None,
    };
    let status = bench.guard.status();
    let first = pid_of(*status.borrow()).unwrap();
    kill(Pid::from_raw(i32::try_from(first).unwrap()), Signal::SIGSTOP).unwrap();
    // It cannot note anything: nothing starts.
    let refused = bench.start(sh("true")).map(|run| run.control().pid()).unwrap_err();
    assert_eq!(refused, StartError::GuardDown);
    assert!(!refused.is_permanent());
    until("another takes its place", || pid_of(*status.borrow()).is_some_and(|pid| pid != first));
    assert_eq!(state(run.control().pid()), Some('S'), "the run was not touched");
    assert_eq!(bench.run(sh("true")), Exit::Code(0));
    run.control().kill(Duration::from_secs(5));
    bench.wait(&mut run);
}

/// A worker that dies before the go leaves no command.
pub(crate) fn orphaned_trampoline() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("__leasehold-trampoline")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = [0];
    ours.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"R");
    drop(ours);
    assert!(child.wait().unwrap().success());
}

pub(crate) fn last_handle_ends_it() {
    let bench = Bench::new();
    let guard = bench.guard.clone();
    let GuardStatus::Up { pid } = *guard.status().borrow() else {
        panic!("the guard is down");
    };
    let pid = i32::try_from(pid).unwrap();
    drop(bench);
    assert!(lives(pid));
    drop(guard);
    until("the guard is gone and reaped", || state(pid).is_none());
}
