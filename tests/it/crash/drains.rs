//! Workers that are told to stop: runs finish or go back to the front, at no cost.

use std::time::{Duration, Instant};

use leasehold_common::policy::{OnLeaseExpired, Policy};
use leasehold_common::state::TaskState;
use leasehold_tests::Effects;
use nix::sys::signal::Signal;

use super::kit::{LIMIT, Rig, ids};
use super::watch::Watch;

#[test]
fn case_13_deploys_do_not_spend_the_budget() {
    const DEPLOYS: u32 = 6;
    let rig = Rig::start();
    let watch = Watch::start(rig.effects.env());
    let reaper = rig.reaper();
    rig.exec_with(
        "task",
        &Effects::body(Duration::from_secs(4)),
        Policy { max_attempts: 2, ..Rig::policy() },
    );
    for deploy in 1..=DEPLOYS {
        let worker = rig.worker_with(&rig.redis, "deployed", 1, &["--drain-grace", "1s"]);
        rig.starts("task", deploy, LIMIT);
        rig.stop(worker);
        let record = rig.record("task");
        assert_eq!(record.state, TaskState::Queued, "handed back when the worker is gone: {record:?}");
    }
    let worker = rig.worker("stays", 1);
    let record = rig.reaches("task", TaskState::Completed, LIMIT);
    assert_eq!((record.attempt, record.failures, record.reclaims), (u64::from(DEPLOYS) + 1, 0, 0));
    assert_eq!(rig.total("released"), i64::from(DEPLOYS), "the history shows the interruptions");
    watch.end();
    rig.end([worker, reaper]);
}

#[test]
fn r94_a_stopping_worker_lets_runs_finish_and_hands_the_others_back_at_the_front() {
    let rig = Rig::start();
    let reaper = rig.reaper();
    let worker = rig.worker_with(&rig.redis, "stops", 3, &["--drain-grace", "3s"]);
    rig.exec("short", &Effects::body(Duration::from_secs(1)));
    rig.exec("long", &Effects::body_around(r#"[ "$LEASEHOLD_ATTEMPT" -gt 1 ] || sleep 600"#));
    let fail = Policy { on_lease_expired: OnLeaseExpired::Fail, ..Rig::policy() };
    rig.exec_with("once", &Effects::body(Duration::from_secs(600)), fail);
    for id in ["short", "long", "once"] {
        rig.starts(id, 1, LIMIT);
    }
    let behind = ids("behind", 3);
    rig.exec_all(&behind, &Effects::body(Duration::ZERO), Rig::policy());
    rig.stop(worker);
    assert_eq!(rig.record("short").state, TaskState::Completed);
    let record = rig.record("long");
    assert_eq!((record.state, record.failures, record.reclaims), (TaskState::Queued, 0, 0));
    assert_eq!(rig.record("once").state, TaskState::Aborted, "it must not start twice");
    assert!(behind.iter().all(|id| rig.record(id).attempt == 0), "a stopping worker claims nothing");

    let next = rig.worker("next", 1);
    rig.completes(5, LIMIT);
    let long = rig.effects.of("long");
    let second = long.last().expect("a second run");
    let first_behind = behind.iter().map(|id| rig.effects.of(id)[0].start).min().expect("they ran");
    assert!(second.attempt == 2 && second.start < first_behind, "what came back goes first: {long:?}");
    assert_eq!(rig.effects.of("once").len(), 1);
    rig.end([next, reaper]);
}

#[test]
fn r94_a_second_signal_ends_a_stopping_worker_at_once() {
    let rig = Rig::start();
    let reaper = rig.reaper();
    let mut worker = rig.worker_with(&rig.redis, "stops", 1, &["--drain-grace", "10m"]);
    rig.exec_with(
        "deaf",
        &format!("trap '' TERM; {}; sleep 600", Effects::body(Duration::from_secs(600))),
        Policy { stop_grace: Duration::from_secs(600), ..Rig::policy() },
    );
    rig.starts("deaf", 1, LIMIT);
    rig.note(&worker);
    worker.signal(Signal::SIGTERM);
    worker.wait_for_output("stopping", LIMIT);
    assert!(worker.is_running() && !rig.commands().is_empty(), "one signal lets it go on");
    let signalled = Instant::now();
    worker.signal(Signal::SIGTERM);
    worker.wait(LIMIT);
    assert!(signalled.elapsed() < Duration::from_secs(5), "{:?}", signalled.elapsed());
    let record = rig.reaches("deaf", TaskState::Queued, LIMIT);
    assert_eq!((record.failures, record.reclaims), (0, 0), "handed back, not reclaimed");
    rig.end([reaper]);
}
