//! Workers that are killed: their commands die with them, and their tasks go on elsewhere or end.

use std::time::{Duration, Instant};

use leasehold_common::policy::{OnLeaseExpired, Policy};
use leasehold_common::record::FailureKind;
use leasehold_common::state::TaskState;
use leasehold_common::store::QueueSettings;
use leasehold_tests::{Effects, RedisServer, eventually, procfs, stays};

use super::kit::{LEASE, LIMIT, RECLAIM, Rig, ids};
use super::watch::Watch;

/// A command with a child, as `sh -c 'sleep 600 & wait'`.
pub(super) const TWO_PROCESSES: &str =
    r#"echo "$LEASEHOLD_TASK_ID $LEASEHOLD_ATTEMPT start $(date +%s%N)" >>"$EFF"; sleep 600 & wait"#;
/// One with grandchildren that left the session, one of them orphaned too.
pub(super) const FLEEING: &str = r#"setsid sleep 600 & (setsid sh -c 'sleep 600 & wait' &) ; sh -c 'sleep 600 & wait' &
echo "$LEASEHOLD_TASK_ID $LEASEHOLD_ATTEMPT start $(date +%s%N)" >>"$EFF"; wait; sleep 600"#;

/// The commands are gone within a second of `killed`.
#[track_caller]
fn assert_gone_within_a_second(rig: &Rig, pids: &[i32], killed: Instant) {
    eventually("the command dies with its worker", Duration::from_secs(1), || {
        let left: Vec<i32> = pids.iter().copied().filter(|pid| procfs::is_running(*pid)).collect();
        if left.is_empty() { Ok(()) } else { Err(procfs::describe(&left)) }
    });
    assert!(killed.elapsed() < Duration::from_secs(2), "looked too late to tell");
    assert!(rig.commands().iter().all(|pid| !pids.contains(pid)));
}

/// Kills the worker of a command, and sees the command gone and its second attempt elsewhere.
fn killed_worker(body: &str, processes: usize) {
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
    let killed = rig.kill(&mut first);
    assert_gone_within_a_second(&rig, &pids, killed);
    rig.starts("task", 2, LIMIT);
    rig.assert_reclaimed_in_time(killed);
    let record = rig.record("task");
    assert_eq!((record.attempt, record.failures, record.reclaims), (2, 0, 1));
    assert_eq!(record.worker.map(|w| w.to_string()).as_deref(), Some("second"));
    rig.check();
    rig.cli(&["task", "abort", "task", "--queue", "q", "--grace", "0s"]).success();
    rig.reaches("task", TaskState::Aborted, LIMIT);
    watch.end();
    rig.end([second, reaper]);
}

#[test]
fn r05_a_killed_worker_leaves_nothing_running_and_another_takes_over() {
    killed_worker(TWO_PROCESSES, 2);
}

#[test]
fn r05_grandchildren_that_left_the_session_die_with_a_killed_worker() {
    killed_worker(FLEEING, 6);
}

/// With the settings that nobody has chosen, a lease of 15 s: killed and stopped workers at once.
#[test]
fn r05_heavy_with_default_settings_second_attempts_start_within_21_s() {
    const BOUND: Duration = Duration::from_secs(21);
    let rig = Rig::with(RedisServer::start(), QueueSettings::default());
    let watch = Watch::start(rig.effects.env());
    let reaper = rig.reaper();
    let mut killed = rig.worker("killed", 1);
    rig.exec("of-killed", TWO_PROCESSES);
    rig.starts("of-killed", 1, LIMIT);
    let mut stopped = rig.worker("stopped", 1);
    rig.exec("of-stopped", TWO_PROCESSES);
    rig.starts("of-stopped", 1, LIMIT);
    let other = rig.worker("other", 2);
    let pids = rig.commands();
    rig.note(&stopped);
    stopped.stop();
    let at = rig.kill(&mut killed);
    rig.starts("of-killed", 2, LIMIT);
    rig.starts("of-stopped", 2, LIMIT);
    rig.assert_within(BOUND, at);
    let running: Vec<i32> =
        pids.into_iter().filter(|pid| procfs::state(*pid).is_some_and(|s| s != 'T')).collect();
    assert!(running.is_empty(), "of the first attempts this still runs:\n{}", procfs::describe(&running));
    rig.check();
    stopped.cont();
    stopped.wait_for_output("lease lost", LIMIT);
    for id in ["of-killed", "of-stopped"] {
        rig.cli(&["task", "abort", id, "--queue", "q", "--grace", "0s"]).success();
        let record = rig.reaches(id, TaskState::Aborted, LIMIT);
        assert_eq!((record.attempt, record.failures, record.reclaims), (2, 0, 1));
    }
    watch.end();
    rig.end([stopped, other, reaper]);
}

#[test]
fn r10_every_run_of_a_dead_worker_is_reclaimed_by_its_own_policy() {
    let rig = Rig::start();
    let reaper = rig.reaper();
    let mut worker = rig.worker("dies", 8);
    let fail = Policy { on_lease_expired: OnLeaseExpired::Fail, ..Rig::policy() };
    rig.exec_all(&ids("again", 3), TWO_PROCESSES, Rig::policy());
    rig.exec_all(&ids("once", 2), TWO_PROCESSES, fail);
    rig.exec_with("spent", TWO_PROCESSES, Policy { max_reclaims: 0, ..Rig::policy() });
    rig.exec_with("aborting", &format!("trap '' TERM; {TWO_PROCESSES}; sleep 600"), Rig::policy());
    for id in ["again-0", "again-1", "again-2", "once-0", "once-1", "spent", "aborting"] {
        rig.starts(id, 1, LIMIT);
    }
    rig.cli(&["task", "abort", "aborting", "--queue", "q", "--grace", "10m"]).success();
    let killed = rig.kill(&mut worker);
    eventually("nothing of the dead worker is left running", LIMIT, || {
        let facts = rig.facts();
        if facts.number("running") == 0 { Ok(()) } else { Err(format!("{facts:?}")) }
    });
    rig.assert_reclaimed_in_time(killed);
    for id in ids("again", 3) {
        let record = rig.record(&id);
        assert_eq!((record.state, record.reclaims, record.failures), (TaskState::Queued, 1, 0), "{id}");
    }
    for id in ["once-0", "once-1", "spent"] {
        let record = rig.record(id);
        let end = (record.state, record.failure_kind, record.failures);
        assert_eq!(end, (TaskState::Failed, Some(FailureKind::LeaseExpired), 0), "{id}");
    }
    assert_eq!(rig.record("aborting").state, TaskState::Aborted);
    rig.end([reaper]);
}

#[test]
fn r13_what_must_not_start_twice_fails_when_its_lease_expires() {
    let rig = Rig::start();
    let reaper = rig.reaper();
    let fail = Policy { on_lease_expired: OnLeaseExpired::Fail, ..Rig::policy() };
    let mut killed = rig.worker("killed", 1);
    rig.exec_with("of-killed", TWO_PROCESSES, fail);
    rig.starts("of-killed", 1, LIMIT);
    let mut stopped = rig.worker("stopped", 1);
    rig.exec_with("of-stopped", TWO_PROCESSES, fail);
    rig.starts("of-stopped", 1, LIMIT);
    let idle = rig.worker("idle", 2);
    rig.note(&stopped);
    stopped.stop();
    rig.kill(&mut killed);
    for id in ["of-killed", "of-stopped"] {
        let record = rig.reaches(id, TaskState::Failed, LIMIT);
        assert_eq!(record.failure_kind, Some(FailureKind::LeaseExpired));
        let message = rig.detail(id).last_failure().map(|f| f.message.clone()).unwrap_or_default();
        assert!(message.contains("must not be started twice"), "{message}");
    }
    stopped.cont();
    stopped.wait_for_output("lease lost", LIMIT);
    stays("no second start", RECLAIM, || {
        let starts = rig.effects.starts();
        if starts == 2 { Ok(()) } else { Err(format!("{starts} starts")) }
    });
    assert_eq!(rig.record("of-stopped").attempt, 1);
    rig.end([stopped, idle, reaper]);
}

#[test]
fn case_02_a_dead_workers_task_is_found_without_its_lease() {
    let rig = Rig::start();
    let reaper = rig.reaper();
    let mut worker = rig.worker("dies", 1);
    rig.exec("task", TWO_PROCESSES);
    rig.starts("task", 1, LIMIT);
    let killed = rig.kill(&mut worker);
    forget_leases(&rig);
    rig.reaches("task", TaskState::Queued, LIMIT);
    rig.assert_reclaimed_in_time(killed);
    let other = rig.worker("other", 1);
    rig.starts("task", 2, LIMIT);
    rig.cli(&["task", "abort", "task", "--queue", "q"]).success();
    rig.reaches("task", TaskState::Aborted, LIMIT);
    rig.end([other, reaper]);
}

#[test]
fn case_02_a_living_worker_takes_its_lease_up_again() {
    let rig = Rig::start();
    let processes = [rig.worker("lives", 1), rig.worker("other", 1), rig.reaper()];
    rig.exec("task", &Effects::body(LEASE * 4));
    rig.starts("task", 1, LIMIT);
    for _ in 0..3 {
        forget_leases(&rig);
        let lease = format!("{}lease:task", rig.store().keys(&rig.queue).prefix());
        eventually("the lease is there again", LEASE, || {
            let held: bool = rig.redis.command(&["EXISTS", &lease]);
            if held { Ok(()) } else { Err("it is not") }
        });
    }
    let record = rig.reaches("task", TaskState::Completed, LIMIT);
    assert_eq!((record.attempt, record.reclaims, record.failures), (1, 0, 0));
    rig.effects.assert_each_ran_once(&["task"]);
    rig.end(processes);
}

/// Deletes every lease and every sign of life.
fn forget_leases(rig: &Rig) {
    for pattern in [format!("{}lease:*", rig.store().keys(&rig.queue).prefix()), "lh:worker*".to_owned()] {
        let found: Vec<String> = rig.redis.command(&["KEYS", &pattern]);
        found.iter().for_each(|key| rig.redis.command::<()>(&["DEL", key]));
    }
}
