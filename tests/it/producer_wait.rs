//! Waiting for the ends of tasks.

use std::time::{Duration, Instant};

use futures::future::join_all;
use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::store::{ClaimedTask, Outcome, RetryAdvice};
use leasehold_producer::{
    Ended, Error, Payload, Producer, QueueSettings, RawTask, TaskHandle, TaskName, TaskState,
};
use leasehold_tests::{RedisServer, eventually_async};
use tokio::task::JoinHandle;

use crate::producer_kit::{Add, Kit, LIMIT, id, queue};

const TASK: Add = Add { a: 1, b: 2 };

/// Looks come every 2 s: an answer sooner than this was published.
const PUBLISHED: Duration = Duration::from_millis(1500);

fn waiting(handle: &TaskHandle<u64>) -> JoinHandle<leasehold_producer::Result<u64>> {
    let handle = handle.clone();
    tokio::spawn(async move { handle.wait().await })
}

fn pubsub_clients(redis: &RedisServer) -> usize {
    let text: String = redis.command(&["CLIENT", "LIST", "TYPE", "pubsub"]);
    text.lines().count()
}

/// Redis knows that someone waits, and the connection that hears of it is there.
async fn known(kit: &Kit, tasks: usize) {
    eventually_async("Redis knows of the waiters", LIMIT, async || {
        let mut connection = kit.redis.async_connection().await;
        let keys: Vec<String> =
            redis::cmd("KEYS").arg("lh:*:waiter:*").query_async(&mut connection).await.unwrap();
        let heard = pubsub_clients(&kit.redis);
        let channels: Vec<String> =
            redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut connection).await.unwrap();
        if keys.len() == tasks && heard == 1 && !channels.is_empty() {
            return Ok(());
        }
        Err(format!("{} keys, {heard} connections, {channels:?}", keys.len()))
    })
    .await;
}

fn failed(kind: FailureKind, message: &str) -> Outcome {
    let message = message.to_owned();
    Outcome::Failed { kind, message, retry: RetryAdvice::Fatal, detail: Default::default() }
}

#[tokio::test]
async fn the_output_arrives_as_soon_as_the_task_has_ended() {
    let kit = Kit::new().await;
    let handle = kit.producer.enqueue(TASK).await.unwrap();
    let wait = waiting(&handle);
    known(&kit, 1).await;
    let mut worker = kit.worker(handle.queue());
    let task = worker.claim_one().await;
    let began = Instant::now();
    worker.complete(&task, &3u64).await;
    assert_eq!(wait.await.unwrap().unwrap(), 3);
    assert!(began.elapsed() < PUBLISHED, "{:?}", began.elapsed());
    // Again, after the end: from the record alone.
    assert_eq!(handle.wait().await.unwrap(), 3);
    let raw = kit.producer.task(handle.queue().clone(), handle.id().clone());
    assert_eq!(raw.wait().await.unwrap().to_json(Default::default()).unwrap(), 3);
    kit.end().await;
}

#[tokio::test]
async fn many_waiters_share_one_connection() {
    let kit = Kit::new().await;
    let tasks = (0..100).map(|a| kit.producer.enqueue(Add { a, b: 0 }));
    let handles: Vec<_> = kit.producer.enqueue_all(tasks).await.into_iter().map(Result::unwrap).collect();
    let waits: Vec<_> = handles.iter().chain(&handles).map(waiting).collect();
    known(&kit, 100).await;
    let mut worker = kit.worker(&queue("default"));
    let began = Instant::now();
    loop {
        let claimed = worker.claim(64).await;
        if claimed.is_empty() {
            break;
        }
        for task in &claimed {
            worker.complete(task, &payload(task).a).await;
        }
    }
    let outputs: Vec<u64> = join_all(waits).await.into_iter().map(|o| o.unwrap().unwrap()).collect();
    assert_eq!(outputs, (0..100).chain(0..100).collect::<Vec<u64>>());
    assert!(began.elapsed() < PUBLISHED * 2, "{:?}", began.elapsed());
    assert_eq!(pubsub_clients(&kit.redis), 1);
    kit.end().await;
}

fn payload(task: &ClaimedTask) -> Add {
    let body = leasehold_producer::Body::decode(&task.body).unwrap();
    rmp_serde::from_slice(&body.payload).unwrap()
}

#[tokio::test]
async fn every_other_end_is_an_error_of_its_own() {
    let kit = Kit::new().await;
    let mut worker = kit.worker(&queue("default"));
    let handle = kit.producer.enqueue(TASK).await.unwrap();
    let task = worker.claim_one().await;
    worker.finish(&task, failed(FailureKind::Error, "no such file")).await;
    let error = handle.wait_timeout(LIMIT).await.unwrap_err();
    let Error::TaskFailed(detail) = &error else { panic!("{error:?}") };
    assert_eq!(detail.last_failure().unwrap().message, "no such file");
    assert!(error.to_string().ends_with("failed: error: no such file"), "{error}");

    let handle = kit.producer.enqueue(TASK).max_attempts(1).await.unwrap();
    let task = worker.claim_one().await;
    let (message, detail) = ("too long".to_owned(), Default::default());
    worker.finish(&task, Outcome::Stopped { cause: StopCause::RunTimeout, message, detail }).await;
    let error = handle.wait_timeout(LIMIT).await.unwrap_err();
    assert!(matches!(&error, Error::TaskTimedOut(d) if d.record.state == TaskState::TimedOut), "{error:?}");

    let handle = kit.producer.enqueue(TASK).await.unwrap();
    handle.abort_with(None, "ann", "not needed").await.unwrap();
    let error = handle.wait_timeout(LIMIT).await.unwrap_err();
    assert!(matches!(error, Error::TaskAborted(_)), "{error:?}");

    let handle = kit.producer.enqueue(TASK).await.unwrap();
    let task = worker.claim_one().await;
    worker.complete(&task, &"secret text").await;
    let error = handle.wait_timeout(LIMIT).await.unwrap_err();
    assert!(matches!(error, Error::Output { .. }) && !error.to_string().contains("secret"), "{error}");
    kit.end().await;
}

#[tokio::test]
async fn a_running_abort_is_waited_for_until_the_run_has_ended() {
    let kit = Kit::new().await;
    let mut worker = kit.worker(&queue("default"));
    let handle = kit.producer.enqueue(TASK).await.unwrap();
    let task = worker.claim_one().await;
    let wait = waiting(&handle);
    known(&kit, 1).await;
    handle.abort_with(Some(Duration::from_secs(5)), "ann", "not needed").await.unwrap();
    assert_eq!(handle.record().await.unwrap().state, TaskState::Aborting);
    assert!(!wait.is_finished());
    let (message, detail) = ("obeyed".to_owned(), Default::default());
    worker.finish(&task, Outcome::Stopped { cause: StopCause::Abort, message, detail }).await;
    let error = wait.await.unwrap().unwrap_err();
    assert!(error.to_string().ends_with("was aborted by ann: not needed"), "{error}");
    kit.end().await;
}

#[tokio::test]
async fn a_wait_ends_at_its_timeout_and_the_task_goes_on() {
    let kit = Kit::new().await;
    let handle = kit.producer.enqueue(TASK).await.unwrap();
    let error = handle.wait_timeout(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }) && error.is_retryable(), "{error:?}");
    assert_eq!(error.to_string(), format!("task {} has not ended within 100ms", handle.id()));
    assert_eq!(handle.record().await.unwrap().state, TaskState::Queued);
    let mut worker = kit.worker(handle.queue());
    let task = worker.claim_one().await;
    worker.complete(&task, &3u64).await;
    assert_eq!(handle.wait_timeout(LIMIT).await.unwrap(), 3);
    kit.end().await;
}

#[tokio::test]
async fn an_unknown_task_is_told_at_once() {
    let kit = Kit::new().await;
    let nobody = kit.producer.task(queue("nowhere"), id("none"));
    assert!(matches!(nobody.wait_timeout(LIMIT).await, Err(Error::NotFound { .. })));
    kit.producer.enqueue(TASK).await.unwrap();
    let nobody = kit.producer.task(queue("default"), id("none"));
    assert!(matches!(nobody.wait_timeout(LIMIT).await, Err(Error::NotFound { .. })));
    kit.end().await;
}

#[tokio::test]
async fn a_discarded_task_gives_its_state_without_output() {
    let redis = RedisServer::start();
    let settings = QueueSettings { retain_completed: Duration::ZERO, ..QueueSettings::default() };
    let producer = Producer::builder(&redis.url()).queue_settings(settings).connect().await.unwrap();
    let kit = Kit { redis, producer };
    let handle = kit.producer.enqueue(TASK).await.unwrap();
    let wait = waiting(&handle);
    known(&kit, 1).await;
    let mut worker = kit.worker(handle.queue());
    let task = worker.claim_one().await;
    worker.complete(&task, &3u64).await;
    let error = wait.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Discarded { state: Some(TaskState::Completed), .. }), "{error:?}");
    // Who comes too late is told that it has ended; nobody kept how.
    assert_eq!(handle.wait_end(Some(LIMIT)).await.unwrap(), Ended::Discarded(None));
    kit.end().await;
}

#[tokio::test]
async fn an_end_that_nobody_heard_of_is_found() {
    let kit = Kit::new().await;
    let handle = kit.producer.enqueue(TASK).await.unwrap();
    let wait = waiting(&handle);
    known(&kit, 1).await;
    // Nothing published reaches anybody any more.
    kit.redis.command::<()>(&["ACL", "SETUSER", "default", "-subscribe", "-psubscribe", "-ssubscribe"]);
    kit.redis.command::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let mut worker = kit.worker(handle.queue());
    let task = worker.claim_one().await;
    worker.complete(&task, &3u64).await;
    assert_eq!(wait.await.unwrap().unwrap(), 3);
    kit.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_lasts_over_a_restart_of_redis() {
    let mut kit = Kit::new().await;
    let handle = kit.producer.enqueue(TASK).await.unwrap();
    let wait = waiting(&handle);
    known(&kit, 1).await;
    kit.redis.restart();
    let mut worker = kit.worker(handle.queue());
    kit.producer.record(handle.queue(), handle.id()).await.unwrap();
    let task = worker.claim_one().await;
    worker.complete(&task, &3u64).await;
    assert_eq!(wait.await.unwrap().unwrap(), 3);
    kit.end().await;
}

#[tokio::test]
async fn a_raw_output_is_json_for_those_who_want_it() {
    let kit = Kit::new().await;
    let raw = RawTask::new(queue("q"), TaskName::new("any").unwrap(), Payload::Json(serde_json::Value::Null));
    let handle = kit.producer.enqueue_raw(raw).await.unwrap();
    let mut worker = kit.worker(handle.queue());
    let task = worker.claim_one().await;
    worker.finish(&task, Outcome::Completed(vec![0xc4, 2, 0, 255])).await;
    let output = handle.wait_timeout(LIMIT).await.unwrap();
    assert_eq!(output.as_bytes(), [0xc4, 2, 0, 255]);
    assert_eq!(output.to_json(Default::default()).unwrap(), serde_json::json!({"$bytes": "AP8="}));
    kit.end().await;
}
