//! A worker in this process: handlers, failures, panics, retries, stops, drain.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_common::body::{Body, TaskKind};
use leasehold_common::bounds::Bounds;
use leasehold_common::name::{Namespace, QueueName, TaskId, TaskName};
use leasehold_common::policy::{Backoff, Policy, Priority};
use leasehold_common::record::TaskRecord;
use leasehold_common::state::TaskState;
use leasehold_common::store::{AbortRequest, NewTask, Store, When};
use leasehold_common::task::encode;
use leasehold_common::transport::ConnectOptions;
use leasehold_tests::eventually::eventually_async;
use leasehold_tests::redis_server::RedisServer;
use leasehold_worker::{Context, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(20);

/// What the handler of these tests does.
#[derive(Serialize, Deserialize, Clone)]
enum Act {
    Return(u64),
    FailTimes(u64),
    Fatal,
    Panic,
    UntilStopped,
    IgnoreStop,
    Snooze,
}

impl Task for Act {
    const NAME: &'static str = "act";
    type Output = u64;
}

async fn act(context: Context, act: Act) -> Result<u64, TaskError> {
    match act {
        Act::Return(n) => {
            context.progress(0.5, "half")?;
            context.log("working");
            Ok(n)
        }
        Act::FailTimes(n) if context.failures() < n => Err(TaskError::retry("not yet")),
        Act::FailTimes(n) => Ok(n),
        Act::Fatal => Err(TaskError::fatal("never")),
        Act::Panic => panic!("boom"),
        Act::UntilStopped => {
            context.stopped().cancelled().await;
            Err(TaskError::retry("stopped"))
        }
        Act::IgnoreStop => std::future::pending().await,
        Act::Snooze if context.attempt() < 3 => Err(TaskError::snooze(Duration::from_millis(10))),
        Act::Snooze => Ok(3),
    }
}

struct Bench {
    store: Store,
    queue: QueueName,
    shutdown: CancellationToken,
    worker: tokio::task::JoinHandle<()>,
    redis: RedisServer,
}

impl Bench {
    async fn start(slots: usize) -> Self {
        let redis = RedisServer::start();
        let store = Store::open(&redis.url(), Namespace::default(), ConnectOptions::default()).unwrap();
        let shutdown = CancellationToken::new();
        let worker = Worker::connect(redis.url())
            .await
            .unwrap()
            .queue("q", slots)
            .lease(Duration::from_secs(2))
            .drain_grace(Duration::from_millis(200))
            .handle(act);
        let until = shutdown.clone();
        let worker = tokio::spawn(async move { worker.run_until(until.cancelled_owned()).await.unwrap() });
        Self { store, queue: QueueName::new("q").unwrap(), shutdown, worker, redis }
    }

    async fn enqueue(&self, id: &str, act: Act, policy: Policy) -> TaskId {
        let task = new_task(id, &act, policy);
        self.store.enqueue(&self.queue, std::slice::from_ref(&task)).await.unwrap();
        task.id
    }

    async fn reaches(&self, id: &TaskId, state: TaskState) -> TaskRecord {
        eventually_async(&format!("{id} is {state}"), LONG, async || {
            let record = self.store.record(&self.queue, id).await.unwrap().unwrap();
            if record.state == state { Ok(record) } else { Err(format!("{record:?}")) }
        })
        .await
    }

    async fn stop(self) -> (Store, QueueName, RedisServer) {
        self.shutdown.cancel();
        self.worker.await.unwrap();
        (self.store, self.queue, self.redis)
    }
}

fn new_task(id: &str, act: &Act, policy: Policy) -> NewTask {
    let body = Body {
        name: TaskName::new("act").unwrap(),
        kind: TaskKind::Handler,
        payload: encode("payload", act).unwrap(),
        policy,
        priority: Priority::Normal,
        owner: None,
        lane: None,
        bounds: Bounds::default(),
        headers: Default::default(),
        result_rule: Default::default(),
        origins: Default::default(),
    };
    NewTask { id: TaskId::new(id).unwrap(), body, when: When::Now }
}

fn quick() -> Policy {
    let backoff = Backoff { base: Duration::from_millis(5), cap: Duration::from_millis(20), factor: 2.0 };
    Policy { backoff, stop_grace: Duration::from_millis(300), ..Policy::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn r63_normal_success_keeps_output_progress_and_log() {
    let bench = Bench::start(4).await;
    let id = bench.enqueue("a", Act::Return(7), quick()).await;
    bench.reaches(&id, TaskState::Completed).await;
    let detail = bench.store.detail(&bench.queue, &id).await.unwrap().unwrap();
    assert_eq!(detail.output, Some(encode("result", &7u64).unwrap()));
    let log = bench.store.log(&bench.queue, &id, None, 10).await.unwrap();
    assert_eq!(log[0].text, b"working\n");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r92_failures_panics_snoozes_and_fatal_errors_end_as_they_say() {
    let bench = Bench::start(4).await;
    let retried = bench.enqueue("retried", Act::FailTimes(2), quick()).await;
    let fatal = bench.enqueue("fatal", Act::Fatal, quick()).await;
    let panics = bench.enqueue("panics", Act::Panic, Policy { max_attempts: 2, ..quick() }).await;
    let snoozes = bench.enqueue("snoozes", Act::Snooze, Policy { max_attempts: 1, ..quick() }).await;
    let record = bench.reaches(&retried, TaskState::Completed).await;
    assert_eq!((record.attempt, record.failures), (3, 2));
    assert_eq!(bench.reaches(&fatal, TaskState::Failed).await.attempt, 1);
    assert_eq!(bench.reaches(&panics, TaskState::Failed).await.attempts_shown(), (2, 2));
    let record = bench.reaches(&snoozes, TaskState::Completed).await;
    assert_eq!((record.attempt, record.failures), (3, 0));
    let detail = bench.store.detail(&bench.queue, &panics).await.unwrap().unwrap();
    assert!(detail.failures[0].message.contains("boom"), "{:?}", detail.failures);
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r04_an_abort_reaches_the_handler_at_once_and_one_that_ignores_it_is_dropped() {
    let bench = Bench::start(4).await;
    let obeys = bench.enqueue("obeys", Act::UntilStopped, Policy { stop_grace: LONG, ..quick() }).await;
    let ignores = bench.enqueue("ignores", Act::IgnoreStop, quick()).await;
    for id in [&obeys, &ignores] {
        bench.reaches(id, TaskState::Running).await;
        bench.store.abort(&bench.queue, &[AbortRequest::new(id.clone(), "test", "")]).await.unwrap();
        bench.reaches(id, TaskState::Aborted).await;
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r09_a_run_timeout_ends_the_run_by_itself() {
    let bench = Bench::start(4).await;
    let policy = Policy { run_timeout: Some(Duration::from_millis(100)), max_attempts: 2, ..quick() };
    let id = bench.enqueue("slow", Act::UntilStopped, policy).await;
    let record = bench.reaches(&id, TaskState::TimedOut).await;
    assert_eq!((record.attempt, record.failures), (2, 2));
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r94_a_stopping_worker_hands_back_what_does_not_finish_at_no_cost() {
    let bench = Bench::start(2).await;
    let id = bench.enqueue("long", Act::IgnoreStop, quick()).await;
    bench.reaches(&id, TaskState::Running).await;
    let (store, queue, _redis) = bench.stop().await;
    let record = store.record(&queue, &id).await.unwrap().unwrap();
    assert_eq!((record.state, record.failures, record.reclaims), (TaskState::Queued, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn r90_many_tasks_run_once_each_and_calls_are_shared() {
    let bench = Bench::start(16).await;
    let count = Arc::new(AtomicUsize::new(0));
    for i in 0..300 {
        bench.enqueue(&format!("t{i}"), Act::Return(i), quick()).await;
        count.fetch_add(1, Ordering::Relaxed);
    }
    eventually_async("all completed", LONG, async || {
        let facts = bench.store.inspect(&bench.queue, &[]).await.unwrap().unwrap().facts;
        if facts.total("completed") == 300 { Ok(()) } else { Err(format!("{facts:?}")) }
    })
    .await;
    let facts = bench.store.inspect(&bench.queue, &[]).await.unwrap().unwrap().facts;
    assert_eq!((facts.total("started"), facts.number("running")), (300, 0));
    bench.stop().await;
}

/// A worker of two queues with one slot in all; the other queue idles meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn r90_a_queue_without_a_slot_of_the_total_waits_quietly_and_in_turn() {
    let redis = RedisServer::start();
    let store = Store::open(&redis.url(), Namespace::default(), ConnectOptions::default()).unwrap();
    let shutdown = CancellationToken::new();
    let worker = Worker::connect(redis.url()).await.unwrap().queue("a", 4).queue("b", 4).handle(act);
    let worker = worker.configure(|config| config.total_slots = Some(1));
    let until = shutdown.clone();
    let worker = tokio::spawn(async move { worker.run_until(until.cancelled_owned()).await.unwrap() });
    let (a, b) = (QueueName::new("a").unwrap(), QueueName::new("b").unwrap());
    let long = new_task("long", &Act::UntilStopped, quick());
    store.enqueue(&a, std::slice::from_ref(&long)).await.unwrap();
    eventually_async("it runs", LONG, async || {
        let record = store.record(&a, &long.id).await.unwrap().unwrap();
        if record.state == TaskState::Running { Ok(()) } else { Err(format!("{record:?}")) }
    })
    .await;
    let waits = new_task("waits", &Act::Return(1), quick());
    store.enqueue(&b, std::slice::from_ref(&waits)).await.unwrap();
    redis.reset_stats();
    leasehold_tests::let_time_pass_async("a hot loop shows in a second", Duration::from_secs(1)).await;
    let scripts = redis.command_stats().get("evalsha").map_or(0, |stat| stat.calls);
    assert!(scripts < 20, "{scripts} calls in a second");
    store.abort(&a, &[AbortRequest::new(long.id.clone(), "test", "")]).await.unwrap();
    eventually_async("the other queue has its turn", LONG, async || {
        let record = store.record(&b, &waits.id).await.unwrap().unwrap();
        if record.state == TaskState::Completed { Ok(()) } else { Err(format!("{record:?}")) }
    })
    .await;
    shutdown.cancel();
    worker.await.unwrap();
}

/// Whoever drops the future of a worker leaves none behind: not when it works, and not in the middle of its start, which
/// so many queues make a long one.
#[tokio::test(flavor = "multi_thread")]
async fn r94_a_worker_whose_future_is_dropped_drains() {
    for queues in [1, 200] {
        drop_when_it_is_there(queues).await;
    }
}

async fn drop_when_it_is_there(queues: usize) {
    let redis = RedisServer::start();
    let store = Store::open(&redis.url(), Namespace::default(), ConnectOptions::default()).unwrap();
    let mut worker = Worker::connect(redis.url()).await.unwrap().handle(act);
    for queue in 0..queues {
        worker = worker.queue(format!("q{queue}"), 1);
    }
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    eventually_async("it is there", LONG, async || match store.workers().await.unwrap().len() {
        1 => Ok(()),
        n => Err(format!("{n} workers")),
    })
    .await;
    running.abort();
    eventually_async("it is gone", LONG, async || match store.workers().await.unwrap().len() {
        0 => Ok(()),
        n => Err(format!("{n} workers")),
    })
    .await;
}
