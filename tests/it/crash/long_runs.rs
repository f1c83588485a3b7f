//! Healthy runs are left alone, however long they take.

use std::time::Duration;

use leasehold_common::policy::Policy;
use leasehold_common::state::TaskState;
use leasehold_tests::Effects;
use leasehold_tests::scale::whole_cases;

use super::kit::{LEASE, LIMIT, Rig};

/// So many leases; four of them where cases are not run whole.
fn leases(whole: u32) -> Duration {
    LEASE * if whole_cases() { whole } else { whole.min(4) }
}

/// Three workers and two reapers around a long task.
fn runs_once_in_a_crowd(enqueue: impl FnOnce(&Rig)) {
    let rig = Rig::start();
    let processes = [rig.worker("a", 2), rig.worker("b", 2), rig.worker("c", 2), rig.reaper(), rig.reaper()];
    enqueue(&rig);
    let record = rig.reaches("long", TaskState::Completed, LIMIT);
    assert_eq!((record.attempt, record.failures, record.reclaims), (1, 0, 0));
    assert_eq!(rig.total("reclaimed"), 0);
    rig.effects.assert_each_ran_once(&["long"]);
    rig.end(processes);
}

#[test]
fn case_01_a_task_of_many_leases_runs_once() {
    runs_once_in_a_crowd(|rig| rig.exec("long", &Effects::body(leases(10))));
}

#[test]
fn case_01_a_delayed_task_of_many_leases_runs_once() {
    runs_once_in_a_crowd(|rig| {
        let body = rig.payload(&Effects::body(leases(10)));
        let task = rig.producer.exec(rig.queue.clone(), body).id("long").delay(leases(5));
        let handle = rig.block(async { task.await }).expect("enqueue");
        assert_eq!(rig.record(handle.id().as_str()).state, TaskState::Scheduled);
    });
}

#[test]
fn case_04_no_run_timeout_means_none() {
    let rig = Rig::start();
    let processes = [rig.worker("a", 4), rig.reaper()];
    let body = Effects::body(leases(10));
    rig.exec_with("default", &body, Rig::policy());
    rig.exec_with("none", &body, Policy { run_timeout: None, ..Rig::policy() });
    for bad in ["0", "0s", "-1", "null", "NaN", "-1s"] {
        let refused = rig.cli(&["exec", "q", "--run-timeout", bad, "--", "true"]).expect_code(2);
        assert!(refused.stderr.contains("run_timeout"), "{bad}: {}", refused.stderr);
    }
    rig.completes(2, LIMIT);
    rig.effects.assert_each_ran_once(&["default", "none"]);
    rig.end(processes);
}
