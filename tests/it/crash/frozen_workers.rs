//! Workers that stand still (SIGSTOP) for longer than a lease, and go on: their commands stand still meanwhile, and
//! what they say afterwards changes nothing.

use std::time::{Duration, Instant};

use leasehold_common::state::TaskState;
use leasehold_tests::{Effects, Proc, eventually, let_time_pass, procfs};

use super::dead_workers::{FLEEING, TWO_PROCESSES};
use super::kit::{LIMIT, LONG_SILENCE, Rig};
use super::watch::Watch;

/// What of these, of one run, still moves. A shell that was stopped between vfork and exec of a child waits in `D` for
/// that child, which is stopped: it stands still as well.
fn moving(pids: &[i32]) -> Vec<i32> {
    let states: Vec<(i32, Option<char>)> = pids.iter().map(|pid| (*pid, procfs::state(*pid))).collect();
    let any_stopped = states.iter().any(|(_, state)| *state == Some('T'));
    let stands = |state: char| matches!(state, 'T' | 'Z' | 'X') || any_stopped && state == 'D';
    states.into_iter().filter(|(_, state)| !state.is_none_or(stands)).map(|(pid, _)| pid).collect()
}

/// Everything that is told of a task, to be compared.
fn told(rig: &Rig, id: &str) -> String {
    let shown = rig.cli(&["task", "show", id, "--queue", "q", "--json"]).success().stdout;
    format!("{shown}\n{:?}\n{}", rig.detail(id).output, rig.log(id))
}

/// The stopped worker goes on: it says why its run ended, and kills what is left of it.
#[track_caller]
fn assert_gives_way(rig: &Rig, worker: &mut Proc, pids: &[i32]) {
    worker.cont();
    worker.wait_for_output("lease lost", LIMIT);
    eventually("what is left of the lost run is killed", Duration::from_secs(5), || {
        let left: Vec<i32> = pids.iter().copied().filter(|pid| procfs::is_running(*pid)).collect();
        if left.is_empty() { Ok(()) } else { Err(procfs::describe(&left)) }
    });
    assert!(worker.is_running(), "{}", worker.stderr());
    assert_eq!(rig.total("reclaimed"), 1);
}

#[test]
fn case_03_a_worker_that_stood_still_changes_nothing_and_takes_new_work() {
    let rig = Rig::start();
    let watch = Watch::start(rig.effects.env());
    let reaper = rig.reaper();
    let mut first = rig.worker("first", 1);
    rig.exec("task", &Effects::body_around(r#"sleep 3; echo "done by attempt $LEASEHOLD_ATTEMPT""#));
    rig.starts("task", 1, LIMIT);
    let pids = rig.commands();
    rig.note(&first);
    first.stop();
    let stopped = Instant::now();
    let second = rig.worker("second", 1);
    rig.reaches("task", TaskState::Completed, LIMIT);
    let_time_pass("three leases of standing still", LONG_SILENCE.saturating_sub(stopped.elapsed()));
    assert_eq!(moving(&pids), [0; 0], "of the first attempt nothing moves");
    let before = told(&rig, "task");
    assert!(before.contains("done by attempt 2"), "{before}");

    assert_gives_way(&rig, &mut first, &pids);
    assert_eq!(told(&rig, "task"), before);
    assert!(rig.effects.of("task").iter().all(|run| run.attempt != 1 || run.end.is_none()));

    rig.stop(second);
    rig.exec("next", &Effects::body(Duration::ZERO));
    let record = rig.reaches("next", TaskState::Completed, LIMIT);
    assert_eq!(record.worker.map(|w| w.to_string()).as_deref(), Some("first"));
    assert_eq!(told(&rig, "task"), before);
    watch.end();
    rig.end([first, reaper]);
}

/// A worker stopped for good: of its command nothing runs once another may have it.
fn stopped_worker(body: &str, processes: usize) {
    let rig = Rig::start();
    let watch = Watch::start(rig.effects.env());
    let reaper = rig.reaper();
    let mut first = rig.worker("first", 1);
    rig.exec("task", body);
    rig.starts("task", 1, LIMIT);
    eventually("all processes of the command are there", LIMIT, || {
        let found = rig.commands();
        if found.len() >= processes { Ok(()) } else { Err(procfs::describe(&found)) }
    });
    let second = rig.worker("second", 1);
    let pids = rig.commands();
    rig.note(&first);
    first.stop();
    let stopped = Instant::now();
    rig.starts("task", 2, LIMIT);
    assert_eq!(moving(&pids), [0; 0], "of the first attempt nothing moves while the second runs");
    rig.assert_reclaimed_in_time(stopped);
    assert_gives_way(&rig, &mut first, &pids);
    let record = rig.record("task");
    assert_eq!((record.state, record.attempt, record.reclaims), (TaskState::Running, 2, 1));
    rig.check();
    rig.cli(&["task", "abort", "task", "--queue", "q", "--grace", "0s"]).success();
    rig.reaches("task", TaskState::Aborted, LIMIT);
    watch.end();
    rig.end([first, second, reaper]);
}

#[test]
fn r05_of_a_stopped_worker_nothing_runs_while_another_has_its_task() {
    stopped_worker(TWO_PROCESSES, 2);
}

#[test]
fn r05_grandchildren_of_a_stopped_worker_stand_still_as_well() {
    stopped_worker(FLEEING, 6);
}
