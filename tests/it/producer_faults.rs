//! Enqueueing while Redis is away, slow, full, restarted, or its replies get lost.

use std::future::IntoFuture as _;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::join_all;
use leasehold_common::transport::Fault;
use leasehold_producer::{Enqueued, Error, KnownState, Producer, TaskState};
use leasehold_tests::{Matcher, Proxy, RedisServer};

use crate::producer_kit::{Add, Kit, queue};

const TASK: Add = Add { a: 1, b: 2 };

async fn queued(producer: &Producer) -> u64 {
    let status = producer.queue_status(&queue("default")).await.unwrap();
    status.map_or(0, |status| status.count(TaskState::Queued))
}

#[tokio::test]
async fn every_fault_that_passes_leaves_exactly_one_task() {
    let (kit, faulty) = Kit::faulty(Duration::from_secs(5)).await;
    kit.producer.enqueue(TASK).await.unwrap();
    let mut expected = 1;
    for faults in [
        &[Fault::DropReply][..],
        &[Fault::Duplicate],
        &[Fault::Unreachable, Fault::Unreachable],
        &[Fault::Refuse],
        &[Fault::Full],
        &[Fault::DropReply, Fault::Unreachable, Fault::DropReply, Fault::Refuse],
    ] {
        for fault in faults {
            faulty.plan("enqueue", *fault);
        }
        let handle = kit.producer.enqueue(TASK).await.unwrap();
        expected += 1;
        assert_eq!(handle.enqueued(), Some(&Enqueued::Created(TaskState::Queued)), "{faults:?}");
        assert_eq!((faulty.left(), queued(&kit.producer).await), (0, expected), "{faults:?}");
    }
    kit.end().await;
}

#[tokio::test]
async fn aborts_retries_and_deletes_survive_lost_replies() {
    let (kit, faulty) = Kit::faulty(Duration::from_secs(5)).await;
    let handle = kit.producer.enqueue(TASK).await.unwrap();
    for script in ["abort", "retry", "abort", "delete"] {
        faulty.plan(script, Fault::DropReply);
        faulty.plan(script, Fault::Unreachable);
    }
    handle.abort("first").await.unwrap();
    assert_eq!(handle.record().await.unwrap().state, TaskState::Aborted);
    handle.retry().await.unwrap();
    assert_eq!(handle.record().await.unwrap().state, TaskState::Queued);
    handle.abort("second").await.unwrap();
    handle.delete().await.unwrap();
    assert!(matches!(handle.record().await, Err(Error::NotFound { .. })));
    assert_eq!(faulty.left(), 0);
    kit.end().await;
}

#[tokio::test]
async fn the_deadline_tells_whether_it_may_have_happened() {
    let deadline = Duration::from_millis(300);
    for (first, unknown) in [(Fault::Full, false), (Fault::DropReply, true)] {
        let (kit, faulty) = Kit::faulty(deadline).await;
        kit.producer.enqueue(TASK).await.unwrap();
        faulty.plan("enqueue", first);
        for _ in 0..50 {
            faulty.plan("enqueue", Fault::Full);
        }
        let began = Instant::now();
        let error = kit.producer.enqueue(TASK).await.unwrap_err();
        assert!(began.elapsed() < deadline * 3, "{:?}", began.elapsed());
        assert!(matches!(error, Error::Deadline { after, .. } if after == deadline), "{error}");
        assert!(error.is_retryable() && error.to_string().contains("OOM"), "{error}");
        assert_eq!(error.outcome_unknown(), unknown, "{error}");
    }
}

#[tokio::test]
async fn a_paused_redis_is_left_at_the_deadline() {
    let redis = RedisServer::start();
    let deadline = Duration::from_millis(400);
    let producer = Producer::builder(&redis.url()).deadline(deadline).connect().await.unwrap();
    producer.enqueue(TASK).await.unwrap();
    redis.pause();
    let began = Instant::now();
    let answers = join_all((0..20).map(|_| producer.enqueue(TASK).into_future())).await;
    assert!(began.elapsed() < deadline * 3, "{:?}", began.elapsed());
    for answer in &answers {
        assert!(matches!(answer, Err(Error::Deadline { .. })), "{answer:?}");
    }
    let unknown = answers.iter().filter(|a| a.as_ref().unwrap_err().outcome_unknown()).count();
    assert!(unknown > 0, "the ones in flight: {answers:?}");
    let status = producer.queue_status(&queue("default")).await;
    assert!(matches!(status, Err(Error::Deadline { .. })), "{status:?}");
    redis.resume();
    producer.enqueue(TASK).await.unwrap();
}

#[tokio::test]
async fn an_unreachable_redis_is_said_with_its_address_but_no_password() {
    let url = "redis://user:secret@127.0.0.1:1";
    let builder = Producer::builder(url).deadline(Duration::from_secs(1));
    let error = builder.connect().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Deadline { .. }) && !error.outcome_unknown(), "{text}");
    assert!(text.contains("127.0.0.1:1") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn case_16_a_redis_that_evicts_is_refused_at_once() {
    let redis = RedisServer::start();
    redis.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let began = Instant::now();
    let error = Producer::connect(&redis.url()).await.unwrap_err();
    assert!(matches!(error, Error::Redis(_)) && !error.is_retryable(), "{error}");
    assert!(began.elapsed() < Duration::from_secs(2));
    redis.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    redis.command::<()>(&["CONFIG", "SET", "appendonly", "no"]);
    let producer = Producer::connect(&redis.url()).await.unwrap();
    assert!(producer.warnings()[0].contains("appendonly"), "{:?}", producer.warnings());
}

#[tokio::test]
async fn a_caller_who_goes_away_takes_no_answer_along() {
    let kit = Kit::new().await;
    kit.producer.enqueue(TASK).await.unwrap();
    kit.redis.pause();
    let mut calls: Vec<_> = (0..40).map(|_| Some(kit.producer.enqueue(TASK).into_future())).collect();
    for call in calls.iter_mut().flatten() {
        // One poll hands it over.
        assert!(call.now_or_never().is_none());
    }
    for call in calls.iter_mut().step_by(2) {
        *call = None;
    }
    kit.redis.resume();
    let answers = join_all(calls.into_iter().flatten()).await;
    assert_eq!(answers.len(), 20);
    for answer in answers {
        answer.unwrap();
    }
    // Those who went away in the buffer were not sent; one batch may have been on its way.
    let there = queued(&kit.producer).await;
    assert!((21..=41).contains(&there), "{there}");
    kit.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_enqueue_is_lost_or_doubled_over_a_restart_and_flushed_scripts() {
    let mut kit = Kit::new().await;
    kit.producer.enqueue(TASK).await.unwrap();
    kit.redis.command::<()>(&["SCRIPT", "FLUSH"]);
    kit.producer.enqueue(TASK).await.unwrap();
    kit.redis.kill();
    let calls: Vec<_> = (0..50).map(|_| tokio::spawn(kit.producer.enqueue(TASK).into_future())).collect();
    kit.redis.start_again();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(queued(&kit.producer).await, 52);
    kit.end().await;
}

#[tokio::test]
async fn a_reply_lost_on_the_wire_is_asked_for_again() {
    let redis = RedisServer::start();
    let proxy = Proxy::before(&redis);
    let producer = Producer::connect(&proxy.url()).await.unwrap();
    producer.enqueue(TASK).await.unwrap();
    proxy.drop_reply_of(Matcher::command("EVALSHA"), 1);
    let handle = producer.enqueue(TASK).await.unwrap();
    assert_eq!(handle.enqueued(), Some(&Enqueued::Created(TaskState::Queued)), "nobody else has a fresh id");
    assert_eq!(queued(&producer).await, 2);
    proxy.drop_reply_of(Matcher::command("EVALSHA"), 1);
    let handle = producer.enqueue(TASK).id("mine").await.unwrap();
    assert_eq!(handle.enqueued(), Some(&Enqueued::Exists(KnownState::Is(TaskState::Queued))));
    assert_eq!(queued(&producer).await, 3);
}

#[test]
fn a_producer_outlives_the_runtime_that_it_was_used_in() {
    let redis = RedisServer::start();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let producer = first.block_on(Producer::connect(&redis.url())).unwrap();
    first.block_on(async { producer.enqueue(TASK).await }).unwrap();
    redis.pause();
    // One goes out from its caller's own future, which lives on; two go out from a task of the runtime.
    let mut one = producer.enqueue(TASK).into_future();
    let mut two = Box::pin(producer.enqueue_all([producer.enqueue(TASK), producer.enqueue(TASK)]));
    first.block_on(async {
        assert!((&mut one).now_or_never().is_none());
        assert!((&mut two).now_or_never().is_none());
    });
    drop(first);
    redis.resume();
    let second = runtime();
    let handle = second.block_on(one).unwrap();
    assert_eq!(handle.enqueued(), Some(&Enqueued::Created(TaskState::Queued)));
    for left in second.block_on(two) {
        let left = left.unwrap_err();
        assert!(matches!(left, Error::Closed) && left.outcome_unknown(), "{left:?}");
    }
    let handle = second.block_on(async { producer.enqueue(TASK).await }).unwrap();
    let wait = second.spawn({
        let handle = handle.clone();
        async move { handle.wait().await }
    });
    second.block_on(async { handle.wait_timeout(Duration::from_millis(50)).await }).unwrap_err();
    drop((second, wait));
    let third = runtime();
    let late = third.block_on(async { handle.wait_timeout(Duration::from_millis(50)).await }).unwrap_err();
    assert!(matches!(late, Error::WaitTimeout { .. }), "{late:?}");
}

/// A program may end its runtime while one of its tasks is about to enqueue: then the task is dropped in the very call
/// that would have started the work.
#[test]
fn a_runtime_that_ends_under_an_enqueue_ends() {
    let redis = RedisServer::start();
    for round in 0..20 {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let producer = runtime.block_on(Producer::connect(&redis.url())).unwrap();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            begun.send(()).unwrap();
            // In the same poll as the enqueue, so that the runtime has to wait for it.
            gone.recv().unwrap();
            for _ in 0..round * 500 {
                std::hint::spin_loop();
            }
            drop(producer.enqueue_all([producer.enqueue(TASK), producer.enqueue(TASK)]).await);
        });
        has_begun.recv().unwrap();
        let (ended, has_ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            go.send(()).unwrap();
            drop(runtime);
            ended.send(()).unwrap();
        });
        has_ended.recv_timeout(Duration::from_secs(20)).expect("the runtime ends");
    }
}
