//! Enqueueing against a real Redis: batching, identity, sizes, bulk.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use leasehold_common::record::FailureKind;
use leasehold_common::store::{Outcome, RetryAdvice};
use leasehold_producer::{
    AbortAnswer, Enqueue, Enqueued, Error, ExecPayload, KnownState, Limits, Payload, Policy, Priority,
    Producer, RawTask, Spec, TaskKind, TaskName, TaskState, When,
};
use leasehold_tests::RedisServer;
use serde_json::json;

use crate::producer_kit::{Add, Kit, queue};

fn add(a: u64) -> Add {
    Add { a, b: 1 }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_enqueues_share_script_calls() {
    let kit = Kit::new().await;
    kit.producer.enqueue(add(0)).await.unwrap();
    kit.redis.reset_stats();
    let tasks = (0..64).map(|a| kit.producer.enqueue(add(a)).into_future());
    let handles = join_all(tasks.map(tokio::spawn)).await;
    assert!(
        handles
            .iter()
            .all(|h| matches!(h.as_ref().unwrap().as_ref().unwrap().enqueued(), Some(Enqueued::Created(_))))
    );
    let calls = kit.script_calls();
    assert!(calls <= 16, "{calls} calls for 64 enqueues");
    let status = kit.producer.queue_status(&queue("default")).await.unwrap().unwrap();
    assert_eq!(status.count(TaskState::Queued), 65);
    kit.end().await;
}

#[tokio::test]
async fn a_lone_enqueue_goes_out_at_once_in_one_call() {
    let kit = Kit::new().await;
    kit.producer.enqueue(add(0)).await.unwrap();
    kit.redis.reset_stats();
    for a in 0..10 {
        kit.producer.enqueue(add(a)).await.unwrap();
    }
    assert_eq!(kit.script_calls(), 10);
    kit.end().await;
}

#[tokio::test]
async fn r90_priority_delay_and_all_else_arrive() {
    let kit = Kit::new().await;
    let handle = kit
        .producer
        .enqueue(add(1))
        .queue("media")
        .id("mine")
        .delay(Duration::from_secs(3600))
        .priority(Priority::High)
        .owner("user 7")
        .header("traceparent", "00-1")
        .max_attempts(2)
        .max_reclaims(1)
        .run_timeout(Duration::from_secs(300))
        .stop_grace(Duration::from_secs(1))
        .await
        .unwrap();
    assert_eq!((handle.queue().as_str(), handle.id().as_str()), ("media", "mine"));
    let detail = handle.detail().await.unwrap();
    let (record, body) = (&detail.record, detail.body.as_ref().unwrap());
    assert_eq!((record.state, record.priority), (TaskState::Scheduled, Priority::High));
    let due_in = record.due_ms.unwrap() - record.enqueued_ms;
    assert_eq!(due_in, 3_600_000);
    assert_eq!((body.name.as_str(), body.owner.as_ref().unwrap().as_str()), ("add", "user 7"));
    assert_eq!(body.headers["traceparent"], "00-1");
    let policy = Policy {
        max_attempts: 2,
        max_reclaims: 1,
        run_timeout: Some(Duration::from_secs(300)),
        stop_grace: Duration::from_secs(1),
        ..Policy::default()
    };
    assert_eq!((body.policy, record.policy), (policy, policy));
    let at = kit.producer.enqueue(add(2)).at(1_000).no_run_timeout().await.unwrap();
    let record = at.record().await.unwrap();
    assert_eq!((record.state, record.policy.run_timeout), (TaskState::Queued, None));
    assert_eq!(kit.producer.queues().await.unwrap(), [queue("default"), queue("media")]);
    kit.end().await;
}

#[tokio::test]
async fn what_is_out_of_range_is_told_by_name_and_nothing_is_sent() {
    let kit = Kit::new().await;
    kit.producer.enqueue(add(0)).await.unwrap();
    let before = kit.redis.digest();
    let enqueue = || kit.producer.enqueue(add(1));
    let long = Duration::from_secs(11 * 365 * 24 * 3600);
    for (field, broken) in [
        ("queue", enqueue().queue("a:b")),
        ("task id", enqueue().id("a\nb")),
        ("owner", enqueue().owner("")),
        ("max_attempts", enqueue().max_attempts(0)),
        ("max_reclaims", enqueue().max_reclaims(10_001)),
        ("run_timeout", enqueue().run_timeout(Duration::ZERO)),
        ("stop_grace", enqueue().stop_grace(long)),
        ("delay", enqueue().delay(long)),
        ("at", enqueue().at(u64::MAX)),
        ("header", enqueue().header("h", "v".repeat(1024))),
    ] {
        let error = broken.await.unwrap_err();
        assert!(matches!(&error, Error::Invalid { field: told, .. } if *told == field), "{field}: {error}");
        assert!(!error.is_retryable() && !error.outcome_unknown());
    }
    assert_eq!(kit.redis.digest(), before);
    kit.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_42_fifty_enqueues_of_one_id_make_one_task() {
    let kit = Kit::new().await;
    let same = || kit.producer.enqueue(add(1)).id("key");
    let answers = join_all((0..50).map(|_| tokio::spawn(same().into_future()))).await;
    let created = answers.iter().filter(|answer| {
        matches!(answer.as_ref().unwrap().as_ref().unwrap().enqueued(), Some(Enqueued::Created(_)))
    });
    assert_eq!(created.count(), 1);
    let other = kit.producer.enqueue(add(2)).id("key").await;
    assert!(
        matches!(other, Err(Error::Conflict { state: KnownState::Is(TaskState::Queued), .. })),
        "{other:?}"
    );

    // The same task again in each later state is the same task, and other content stays a conflict.
    let known = async |state: KnownState| {
        assert_eq!(same().await.unwrap().enqueued(), Some(&Enqueued::Exists(state)));
    };
    let mut worker = kit.worker(&queue("default"));
    let task = worker.claim_one().await;
    known(KnownState::Is(TaskState::Running)).await;
    worker.complete(&task, &2u64).await;
    known(KnownState::Is(TaskState::Completed)).await;
    let handle = same().await.unwrap();
    handle.retry().await.unwrap();
    let task = worker.claim_one().await;
    let failure = Outcome::Failed {
        kind: FailureKind::Error,
        message: "no".into(),
        retry: RetryAdvice::Fatal,
        detail: Default::default(),
    };
    worker.finish(&task, failure).await;
    known(KnownState::Is(TaskState::Failed)).await;
    handle.retry().await.unwrap();
    assert_eq!(handle.abort("enough").await.unwrap(), AbortAnswer::Ended(TaskState::Aborted));
    known(KnownState::Is(TaskState::Aborted)).await;
    assert!(matches!(kit.producer.enqueue(add(2)).id("key").await, Err(Error::Conflict { .. })));
    handle.delete().await.unwrap();
    known(KnownState::Gone).await;
    kit.end().await;
}

#[tokio::test]
async fn case_41_payloads_over_the_limit_are_refused_before_redis_is_touched() {
    let redis = RedisServer::start();
    let limits = Limits { payload: 2048, ..Limits::default() };
    let producer = Producer::builder(&redis.url()).limits(limits).connect().await.unwrap();
    let sized = |producer: &Producer, bytes: usize| {
        let name = TaskName::new("raw").unwrap();
        producer.enqueue_raw(RawTask::new(queue("q"), name, Payload::MessagePack(vec![0xc0; bytes])))
    };
    for bytes in [0, 2047, 2048] {
        let handle = sized(&producer, bytes).await.unwrap();
        assert_eq!(handle.detail().await.unwrap().body.unwrap().payload.len(), bytes);
    }
    redis.reset_stats();
    let error = sized(&producer, 2049).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid payload: 2049 is over the limit of 2048");
    let many = (0..10_000).fold(sized(&producer, 1), |task, n| task.header(format!("h{n}"), "v"));
    assert!(many.await.unwrap_err().to_string().contains("number of headers"));
    let evalsha = redis.command_stats().get("evalsha").copied().unwrap_or_default();
    assert_eq!(evalsha.calls, 0);
    sized(&producer, 1).await.unwrap();

    // The default limit, and payloads of it side by side: each goes in a call of its own.
    let producer = Producer::connect(&redis.url()).await.unwrap();
    let most = Limits::default().payload;
    let tasks: Vec<Enqueue<_>> =
        [most - 1, most, most + 1, most].map(|bytes| sized(&producer, bytes)).into_iter().collect();
    let answers = producer.enqueue_all(tasks).await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true]);
    let wide = Limits { payload: 17 * 1024 * 1024, ..Limits::default() };
    assert!(Producer::builder(&redis.url()).limits(wide).connect().await.is_err());
}

#[tokio::test]
async fn r90_one_refused_task_of_a_bulk_fails_no_other() {
    let kit = Kit::new().await;
    kit.producer.enqueue(add(7)).id("taken").await.unwrap();
    let task = |n: u64| {
        let task = kit.producer.enqueue(add(n)).id(format!("t{n:04}"));
        match n {
            100 => task.id("taken"),
            200 => task.queue("no queue"),
            300 => task.header("h", "v".repeat(2000)),
            n if n % 2 == 0 => task.queue("even"),
            _ => task,
        }
    };
    let answers = kit.producer.enqueue_all((0..1000).map(task)).await;
    assert_eq!(answers.len(), 1000);
    for (n, answer) in answers.iter().enumerate() {
        match n {
            100 => assert!(matches!(answer, Err(Error::Conflict { .. })), "{answer:?}"),
            200 | 300 => assert!(matches!(answer, Err(Error::Invalid { .. })), "{answer:?}"),
            _ => assert_eq!(answer.as_ref().unwrap().id().as_str(), format!("t{n:04}")),
        }
    }
    let page = kit.producer.list(&queue("even"), TaskState::Queued, None, 1000).await.unwrap();
    let ids: Vec<_> = page.tasks.iter().map(|task| task.id.clone()).collect();
    assert_eq!(ids.len(), 497);
    assert!(ids.is_sorted(), "tasks of one queue keep their order");
    kit.end().await;
}

#[tokio::test]
async fn raw_tasks_and_commands_arrive_as_they_were_given() {
    let kit = Kit::new().await;
    let name = TaskName::new("add").unwrap();
    let payload = json!({"a": u64::MAX, "b": -1, "raw": {"$bytes": "AP8="}});
    let mut task = RawTask::new(queue("q"), name, Payload::Json(payload.clone()));
    task.when = When::After(Duration::from_secs(60));
    task.spec = Spec { priority: Priority::Low, ..Spec::default() };
    task.headers = BTreeMap::from([("h".to_owned(), "v".to_owned())]);
    let handle = kit.producer.enqueue_raw(task.clone()).await.unwrap();
    let body = handle.detail().await.unwrap().body.unwrap();
    let back = leasehold_producer::json::from_msgpack(&body.payload, Default::default()).unwrap();
    assert_eq!((back, body.priority, body.kind), (payload, Priority::Low, TaskKind::Handler));
    task.payload = Payload::Json(json!({"$bytes": "no base64"}));
    let answers = kit.producer.enqueue_raw_all([task]).await;
    assert!(matches!(&answers[0], Err(Error::Invalid { field: "JSON", .. })), "{answers:?}");

    let command = ExecPayload { argv: vec!["true".into()], ..ExecPayload::default() };
    let handle = kit.producer.exec("q", command.clone()).owner("me").await.unwrap();
    let body = handle.detail().await.unwrap().body.unwrap();
    assert_eq!((body.kind, body.name.as_str(), body.policy.max_attempts), (TaskKind::Exec, "exec", 1));
    assert_eq!(rmp_serde::from_slice::<ExecPayload>(&body.payload).unwrap(), command);
    let none = kit.producer.exec("q", ExecPayload::default()).await;
    assert!(matches!(none, Err(Error::Invalid { field: "argv", .. })), "{none:?}");
    kit.end().await;
}
