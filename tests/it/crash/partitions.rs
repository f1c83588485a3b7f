//! Connections that drop, stand still or are half open.

use std::time::{Duration, Instant};

use leasehold_common::script;
use leasehold_common::state::TaskState;
use leasehold_tests::scale::span;
use leasehold_tests::{
    Direction, Effects, Fault, Leasehold, Matcher, Proxy, eventually, let_time_pass, procfs,
};

use super::dead_workers::TWO_PROCESSES;
use super::kit::{LEASE, LIMIT, LONG_SILENCE, Rig, ids};
use super::watch::Watch;

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

/// What of the commands is not stopped.
fn moving(pids: &[i32]) -> Vec<i32> {
    let moves = |pid: &i32| procfs::state(*pid).is_some_and(|state| !matches!(state, 'T' | 'Z' | 'X'));
    pids.iter().copied().filter(moves).collect()
}

/// A worker behind a link that goes silent in one direction or both: another one gets its task.
fn partitioned(direction: Direction) {
    let rig = Rig::start();
    let watch = Watch::start(rig.effects.env());
    let proxy = Proxy::before(&rig.redis);
    let reaper = rig.reaper();
    let mut cut_off = rig.worker_with(&proxy, "cut-off", 1, &[]);
    rig.exec("task", TWO_PROCESSES);
    rig.starts("task", 1, LIMIT);
    let pids = rig.commands();
    let other = rig.worker("other", 1);
    proxy.freeze(direction);
    let silent = Instant::now();
    rig.starts("task", 2, LIMIT);
    assert_eq!(moving(&pids), [0; 0], "of the first attempt nothing moves while the second runs");
    if direction != Direction::ToClient {
        // Else the first beats still arrive.
        rig.assert_reclaimed_in_time(silent);
    }
    proxy.heal();
    cut_off.wait_for_output("lease lost", LIMIT);
    eventually("what is left of the lost run is killed", LIMIT, || {
        if pids.iter().any(|pid| procfs::is_running(*pid)) { Err(procfs::describe(&pids)) } else { Ok(()) }
    });
    assert_eq!((rig.record("task").attempt, rig.total("reclaimed")), (2, 1));
    rig.cli(&["task", "abort", "task", "--queue", "q", "--grace", "0s"]).success();
    rig.reaches("task", TaskState::Aborted, LIMIT);
    watch.end();
    rig.end([cut_off, other, reaper]);
}

#[test]
fn r96_a_partitioned_worker_stands_still_while_another_has_its_task() {
    partitioned(Direction::Both);
}

#[test]
fn r96_a_worker_whose_calls_do_not_arrive_stands_still_while_another_has_its_task() {
    partitioned(Direction::ToServer);
}

#[test]
fn r96_a_worker_that_is_not_answered_stands_still_while_another_has_its_task() {
    partitioned(Direction::ToClient);
}

#[test]
fn r96_workers_and_reapers_cut_off_together_go_on_as_if_nothing_had_been() {
    let rig = Rig::start();
    let proxy = Proxy::before(&rig.redis);
    let reaper = rig.reaper_with(Leasehold::new(&proxy));
    let worker = rig.worker_with(&proxy, "worker", 4, &[]);
    let tasks = ids("task", 4);
    rig.exec_all(&tasks, &Effects::body(LEASE), Rig::policy());
    for id in &tasks {
        rig.starts(id, 1, LIMIT);
    }
    proxy.cut();
    let_time_pass("three leases without connections", LONG_SILENCE);
    proxy.heal();
    rig.completes(4, LIMIT);
    assert_eq!(rig.total("reclaimed"), 0);
    rig.effects.assert_each_ran_once(&tasks);
    rig.end([worker, reaper]);
}

#[test]
fn r96_connections_that_drop_all_the_time_lose_and_double_nothing() {
    let rig = Rig::start();
    let proxy = Proxy::before(&rig.redis);
    let processes =
        [rig.worker_with(&proxy, "a", 4, &[]), rig.worker_with(&proxy, "b", 4, &[]), rig.reaper()];
    let began = Instant::now();
    let mut tasks = Vec::new();
    while began.elapsed() < span(Duration::from_secs(60)) {
        let batch = ids(&format!("task-{}", tasks.len()), 3);
        rig.exec_all(&batch, &Effects::body(Duration::from_millis(100)), Rig::policy());
        tasks.extend(batch);
        proxy.kick();
        let_time_pass("between two drops", Duration::from_millis(150));
    }
    rig.completes(tasks.len(), LIMIT);
    rig.effects.assert_each_ran_once(&tasks);
    assert_eq!((rig.total("reclaimed"), rig.total("failed")), (0, 0));
    rig.end(processes);
}

/// Connections on which such requests were sent never answer again; new ones do.
fn half_open(matcher: Matcher, busy: Duration) {
    let rig = Rig::start();
    let proxy = Proxy::before(&rig.redis);
    let processes = [rig.worker_with(&proxy, "worker", 2, &[]), rig.reaper()];
    rig.exec("before", &Effects::body(Duration::ZERO));
    rig.completes(1, LIMIT);
    let armed = proxy.fault_every(matcher, 1, Fault::HoldReply(NEVER));
    let work = Effects::body(busy);
    if !busy.is_zero() {
        rig.exec("running", &work);
        rig.starts("running", 1, LIMIT);
    }
    armed.wait(LIMIT);
    proxy.heal();
    let asked = Instant::now();
    rig.exec("fresh", &Effects::body(Duration::ZERO));
    rig.starts("fresh", 1, Duration::from_secs(10));
    assert!(asked.elapsed() < Duration::from_secs(10));
    rig.completes(if busy.is_zero() { 2 } else { 3 }, LIMIT);
    assert_eq!(rig.total("reclaimed"), 0);
    assert!(rig.effects.intervals().iter().all(|run| run.attempt == 1 && run.end.is_some()));
    rig.end(processes);
}

#[test]
fn r96_a_half_open_wake_connection_delays_nothing_for_long() {
    half_open(Matcher::command("BZPOPMIN"), Duration::ZERO);
}

#[test]
fn r96_a_half_open_claim_connection_is_given_up() {
    half_open(Matcher::script(script::CLAIM.sha()), Duration::ZERO);
}

#[test]
fn r96_a_half_open_heartbeat_connection_is_given_up_within_the_lease() {
    half_open(Matcher::script(script::HEARTBEAT.sha()), LEASE * 2);
}
