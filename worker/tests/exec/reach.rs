//! What belongs to a run is found, wherever it went.

use crate::host::{SPREAD, SPREAD_COUNT};
use crate::support::{Bench, marked, sh, until, within};
use leasehold_worker::exec::{Exit, Stream};
use std::time::Duration;

fn spread(bench: &Bench) -> leasehold_worker::exec::RunningCommand {
    let run = bench.sh(SPREAD);
    until("all have started", || marked(&bench.mark).len() == SPREAD_COUNT);
    run
}

pub(crate) fn grandchildren_are_killed() {
    let bench = Bench::new();
    let mut run = spread(&bench);
    assert_eq!(run.control().pids().len(), SPREAD_COUNT);
    assert!(bench.runtime.block_on(run.kill()).is_empty());
    assert!(marked(&bench.mark).is_empty());
    bench.wait(&mut run);
    bench.text();
    // A clean environment in an own session, as long as its parent lives.
    let mut run = bench.sh("env -i setsid sh -c 'echo $$; exec sleep 1000' & wait");
    let mut text = String::new();
    until("its pid is told", || {
        text.push_str(&bench.text());
        text.ends_with('\n')
    });
    assert!(run.control().kill(Duration::from_secs(5)).is_empty());
    assert!(!crate::support::lives(text.trim().parse().unwrap()));
    bench.wait(&mut run);
}

/// Processes that are born faster than they are looked at.
pub(crate) fn a_storm_of_processes() {
    let bench = Bench::new();
    let script = "breed() { while :; do setsid sh -c 'sleep 1000' & done; }; breed & breed";
    let mut run = bench.sh(script);
    until("many are there", || marked(&bench.mark).len() > 150);
    let alive = run.control().kill(Duration::from_secs(15));
    assert!(alive.is_empty(), "{alive:?}");
    assert!(marked(&bench.mark).is_empty());
    bench.wait(&mut run);
}

pub(crate) fn leftovers_of_an_ended_command() {
    let bench = Bench::new();
    let script = format!("{} exit 5", SPREAD.trim_end_matches("sleep 1000"));
    assert_eq!(bench.run(sh(&script)), Exit::Code(5));
    assert!(marked(&bench.mark).is_empty());
}

pub(crate) fn freeze_and_thaw() {
    let bench = Bench::new();
    let mut run = spread(&bench);
    let control = run.control();
    for _ in 0..3 {
        // One that is in the kernel just now, or has not had its turn, stops on its way back: it is named.
        let late = control.freeze();
        assert!(late.iter().all(|pid| marked(&bench.mark).iter().any(|(of_it, _)| of_it == pid)), "{late:?}");
        until("all stand still", || marked(&bench.mark).iter().all(|(_, state)| *state == 'T'));
        assert_eq!(marked(&bench.mark).len(), SPREAD_COUNT);
        control.thaw();
        until("all go on", || marked(&bench.mark).iter().all(|(_, state)| *state == 'S'));
    }
    run.control().kill(Duration::from_secs(5));
    bench.wait(&mut run);
}

pub(crate) fn term_waits_for_the_thaw() {
    let bench = Bench::new();
    let mut run = bench.sh("trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.05; done");
    bench.until_printed("ready");
    run.control().freeze();
    run.terminate();
    assert!(!within(Duration::from_millis(200), || bench.text().contains("bye")));
    run.control().thaw();
    assert_eq!(bench.wait(&mut run), Exit::Code(9));
    // Its output alone, and exactly: on the other stream a shell may tell of its sleep.
    assert_eq!(String::from_utf8_lossy(&bench.of(Stream::Stdout)), "bye\n");
}

pub(crate) fn kill_reaches_the_frozen() {
    let bench = Bench::new();
    let mut run = spread(&bench);
    run.control().freeze();
    assert!(run.control().kill(Duration::from_secs(5)).is_empty());
    assert!(matches!(bench.wait(&mut run), Exit::Signal { number: 9, .. }));
    assert!(marked(&bench.mark).is_empty());
}

/// A command that is a worker itself: its runs belong to the outer run.
pub(crate) fn nested_runs_are_found() {
    let bench = Bench::new();
    let exe = std::env::current_exe().unwrap();
    let inner = crate::support::new_mark();
    let mut run = bench.sh(&format!("exec {} host {inner} 60000 < /dev/zero", exe.display()));
    until("the inner command runs", || marked(&inner).len() == SPREAD_COUNT);
    assert!(run.control().kill(Duration::from_secs(5)).is_empty());
    assert!(marked(&inner).is_empty());
    bench.wait(&mut run);
}
