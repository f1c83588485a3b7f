//! Everything that ran is killed at once, and what it left `running` is no lie for long.

use leasehold_producer::{FailureKind, TaskState};

use crate::aborts::kit::{Kit, LIMIT};

#[tokio::test(flavor = "multi_thread")]
async fn r10_restart_with_stale_running() {
    let kit = Kit::new().await;
    let mut reaper = kit.reaper();
    let mut worker = kit.worker_with("before", 4, &["--allow-exec"]).await;
    let again = kit.exec(&[], "[ \"$LEASEHOLD_ATTEMPT\" = 1 ] && sleep 600; true");
    let never = kit.exec(&["--on-lease-expired", "fail"], "sleep 600");
    let bounded = kit.exec(&["--max-reclaims", "0"], "sleep 600");
    let aborted = kit.exec(&["--stop-grace", "60s"], "trap '' TERM; sleep 600 & wait; sleep 600");
    let all = [&again, &never, &bounded, &aborted];
    for id in all {
        kit.reaches(id, TaskState::Running).await;
    }
    kit.abort(&aborted).await;
    let queued = kit.exec(&[], "true");
    worker.kill();
    reaper.kill();
    for id in all {
        let state = kit.record(id).await.state;
        assert!(state.has_run(), "{id} is {state}: nobody is there who could say otherwise");
    }
    // Another worker, of another name, and another reaper: nothing is known to them but Redis.
    let reaper = kit.reaper();
    let worker = kit.worker_with("after", 4, &["--allow-exec"]).await;
    kit.reaches_within(&again, TaskState::Completed, LIMIT).await;
    for id in [&never, &bounded] {
        let record = kit.reaches_within(id, TaskState::Failed, LIMIT).await;
        assert_eq!(record.failure_kind, Some(FailureKind::LeaseExpired), "{id}");
        assert_eq!((record.attempt, record.reclaims), (1, 1), "{id} was not started again");
    }
    kit.reaches_within(&aborted, TaskState::Aborted, LIMIT).await;
    kit.reaches_within(&queued, TaskState::Completed, LIMIT).await;
    for id in all {
        let reconciled = kit.record(id).await.reconciled.unwrap_or_else(|| panic!("{id} says who decided"));
        assert_eq!(reconciled.by, "sweep", "{id}");
    }
    kit.end([worker, reaper]).await;
}
