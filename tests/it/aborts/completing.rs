//! Work that had ended before an abort was delivered counts.

use std::time::Duration;

use leasehold_producer::{AbortAnswer, StopCause, TaskState};
use leasehold_tests::{Direction, Proxy, eventually, let_time_pass_async};

use super::handlers::{Act, Seen};
use super::kit::{Kit, LIMIT, quick, read};

#[tokio::test(flavor = "multi_thread")]
async fn r08_a_handler_that_returns_its_result_although_told_to_stop_is_completed() {
    let kit = Kit::new().await;
    let seen = Seen::default();
    let hands = kit.hands(1, |worker| seen.handler(worker)).await;
    let id = kit.enqueue("t", &Act::Finish(400), quick()).await;
    eventually("it runs", LIMIT, || if seen.of("t").begun == 1 { Ok(()) } else { Err("not yet") });
    assert!(matches!(kit.abort(&id).await, AbortAnswer::Requested { .. }));
    let record = kit.reaches(&id, TaskState::Completed).await;
    assert_eq!(record.stop.map(|stop| stop.cause), Some(StopCause::Abort), "the request is on record");
    assert!(seen.of("t").stopped.is_some(), "it was told");
    assert_eq!(kit.abort(&id).await, AbortAnswer::Already(TaskState::Completed));
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_a_command_that_had_exited_before_the_abort_was_delivered_is_completed() {
    let kit = Kit::with_lease(Duration::from_secs(15)).await;
    let proxy = Proxy::before(&kit.redis);
    let worker = kit
        .cli(["worker", "--queue", "default=1", "--name", "far", "--lease", "15s", "--allow-exec"])
        .args(["--redis-url", &proxy.url()])
        .spawn();
    kit.registered("far").await;
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let id = kit.exec(&[], &format!("sleep 1; echo done >{}", done.display()));
    kit.reaches(&id, TaskState::Running).await;
    // Between the claim and the abort nothing is heard of the worker, well within its lease.
    proxy.freeze(Direction::Both);
    eventually(
        "the command has ended",
        LIMIT,
        || if read(&done) == "done\n" { Ok(()) } else { Err("not yet") },
    );
    let_time_pass_async("its worker has seen its end", Duration::from_millis(500)).await;
    assert!(matches!(kit.abort(&id).await, AbortAnswer::Requested { .. }));
    assert_eq!(kit.record(&id).await.state, TaskState::Aborting);
    proxy.heal();
    let record = kit.reaches(&id, TaskState::Completed).await;
    assert_eq!(record.stop.map(|stop| stop.cause), Some(StopCause::Abort), "the request is on record");
    kit.end([worker]).await;
}
