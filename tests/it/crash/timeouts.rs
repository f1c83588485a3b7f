//! Run timeout, retry and reclaim at the same instant.

use std::time::Duration;

use leasehold_common::policy::{Backoff, Policy};
use leasehold_common::state::TaskState;
use leasehold_tests::scale::loops;
use leasehold_tests::{Effects, eventually};

use super::kit::{LEASE, Rig, ids, patience};
use super::watch::Watch;

#[test]
fn case_15_timeout_retry_and_reclaim_at_one_instant_never_overlap() {
    const MOST: u32 = 5;
    let rig = Rig::start();
    let watch = Watch::start(rig.effects.env());
    let tasks = ids("task", loops(200));
    let slots = tasks.len() / 4;
    let mut victim = rig.worker("victim", slots);
    let processes =
        [rig.worker("b", slots), rig.worker("c", slots), rig.worker("d", slots), rig.reaper(), rig.reaper()];
    let backoff = Backoff { base: Duration::from_millis(50), cap: Duration::from_millis(200), factor: 2.0 };
    let policy = Policy {
        max_attempts: MOST,
        run_timeout: Some(LEASE),
        backoff,
        stop_grace: Duration::from_millis(500),
        ..Policy::default()
    };
    rig.exec_all(&tasks, &Effects::body(LEASE), policy);
    eventually("all run", patience(), || {
        let starts = rig.effects.starts();
        if starts >= tasks.len() { Ok(()) } else { Err(format!("{starts} starts")) }
    });
    rig.kill(&mut victim);
    let heir = rig.worker("heir", slots);
    eventually("all have ended", patience(), || {
        let facts = rig.facts();
        if facts.ended() == tasks.len() as i64 { Ok(()) } else { Err(format!("{facts:?}")) }
    });
    for id in &tasks {
        let record = rig.record(id);
        assert!(matches!(record.state, TaskState::Completed | TaskState::TimedOut), "{record:?}");
        assert!(record.failures <= u64::from(MOST), "{record:?}");
        // A reclaim spends no attempt of the task's own.
        assert!(record.attempt <= u64::from(MOST) + record.reclaims, "{record:?}");
    }
    rig.effects.assert_no_overlap();
    watch.end();
    rig.end(processes.into_iter().chain([heir]));
}
