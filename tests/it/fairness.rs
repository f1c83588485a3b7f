//! Throughput does not come from hoarding: workers share a queue evenly, hold no more than their slots, and a slow task
//! delays no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leasehold_common::name::QueueName;
use leasehold_common::store::{NewTask, QueueFacts};
use leasehold_common::task::encode;
use leasehold_tests::queue::task_with;
use leasehold_tests::{eventually_async, stays_async};
use leasehold_worker::{Context, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::producer_kit::{Kit, LIMIT, queue};

/// What a task of these tests does.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Act {
    /// Ends at once.
    Nothing,
    /// Takes a few milliseconds.
    Short,
    /// Runs until the test says so.
    UntilTold,
}

impl Task for Act {
    const NAME: &'static str = "act";
    type Output = ();
}

/// A worker that nobody wakes looks by itself every two seconds.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How long a short task takes: most of a worker's time, so that shares do not hang on who computes faster.
const SHORT: Duration = Duration::from_millis(10);

/// What a worker has done, as its handlers saw it.
#[derive(Debug, Default)]
struct Seen {
    now: AtomicUsize,
    at_most: AtomicUsize,
    done: AtomicUsize,
}

impl Seen {
    fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    async fn act(self: Arc<Self>, act: Act, told: CancellationToken) -> Result<(), TaskError> {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.at_most.fetch_max(now, Ordering::Relaxed);
        match act {
            Act::Nothing => {}
            Act::Short => short_work().await,
            Act::UntilTold => told.cancelled().await,
        }
        self.now.fetch_sub(1, Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing is waited for: this is the work")]
async fn short_work() {
    tokio::time::sleep(SHORT).await;
}

/// A worker in this process.
struct Hands {
    seen: Arc<Seen>,
    slots: usize,
    told: CancellationToken,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), leasehold_worker::Error>>,
}

impl Hands {
    async fn start(kit: &Kit, queue: &QueueName, name: &str, slots: usize) -> Self {
        let (seen, told) = (Arc::new(Seen::default()), CancellationToken::new());
        let shutdown = CancellationToken::new();
        let (acting, signal) = (Arc::clone(&seen), told.clone());
        let worker = Worker::connect(kit.redis.url()).await.expect("a worker").name(name).queue(queue, slots);
        let worker = worker.handle(move |_: Context, act: Act| Arc::clone(&acting).act(act, signal.clone()));
        let running = tokio::spawn(worker.run_until(shutdown.clone().cancelled_owned()));
        Self { seen, slots, told, shutdown, running }
    }

    /// It never held more than its slots.
    async fn stop(self) {
        self.told.cancel();
        self.shutdown.cancel();
        self.running.await.expect("no panic").expect("the worker ends in order");
        let at_most = self.seen.at_most.load(Ordering::Relaxed);
        assert!(at_most <= self.slots, "{at_most} runs at once in {} slots", self.slots);
    }
}

fn tasks(prefix: &str, count: usize, act: Act) -> Vec<NewTask> {
    let payload = encode("payload", &act).expect("a payload");
    let of = |i| {
        task_with(&format!("{prefix}{i}"), |task| {
            task.body.name = Act::NAME.parse().expect("a task name");
            task.body.payload = payload.clone();
        })
    };
    (0..count).map(of).collect()
}

async fn enqueue(kit: &Kit, queue: &QueueName, tasks: &[NewTask]) {
    kit.producer.store().enqueue(queue, tasks).await.expect("enqueue");
}

async fn facts(kit: &Kit, queue: &QueueName) -> QueueFacts {
    kit.producer.store().inspect(queue, &[]).await.expect("inspect").expect("a known queue").facts
}

/// Tasks queued, running and completed.
async fn places(kit: &Kit, queue: &QueueName) -> [i64; 3] {
    let facts = facts(kit, queue).await;
    [facts.queued(), facts.number("running"), facts.total("completed")]
}

async fn come_to(kit: &Kit, queue: &QueueName, what: &str, wanted: [i64; 3]) {
    eventually_async(what, LIMIT, async || match places(kit, queue).await {
        found if found == wanted => Ok(()),
        found => Err(format!("queued, running, completed: {found:?} instead of {wanted:?}")),
    })
    .await;
}

async fn all_there(kit: &Kit, workers: usize) {
    eventually_async("all workers are there", LIMIT, async || {
        match kit.producer.store().workers().await.unwrap().len() {
            n if n == workers => Ok(()),
            n => Err(format!("{n} workers")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_workers_get_even_shares_of_a_queue() {
    const WORKERS: usize = 8;
    const TASKS: usize = 4_000;
    let (kit, queue) = (Kit::new().await, queue("shared"));
    let mut workers = Vec::new();
    for i in 0..WORKERS {
        workers.push(Hands::start(&kit, &queue, &format!("w{i}"), 8).await);
    }
    all_there(&kit, WORKERS).await;
    enqueue(&kit, &queue, &tasks("t", TASKS, Act::Short)).await;
    come_to(&kit, &queue, "all are done", [0, 0, TASKS as i64]).await;
    let shares: Vec<usize> = workers.iter().map(|worker| worker.seen.done()).collect();
    eprintln!("shares: {shares:?}");
    let even = TASKS / WORKERS;
    assert_eq!(shares.iter().sum::<usize>(), TASKS, "each task ran once");
    assert!(
        shares.iter().all(|share| share.abs_diff(even) * 5 <= even),
        "not within 20 % of {even}: {shares:?}"
    );
    for worker in workers {
        worker.stop().await;
    }
    kit.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_holds_no_more_runs_than_slots_and_another_gets_the_rest_at_once() {
    let (kit, queue) = (Kit::new().await, queue("shared"));
    let full = Hands::start(&kit, &queue, "full", 4).await;
    enqueue(&kit, &queue, &tasks("long", 10, Act::UntilTold)).await;
    come_to(&kit, &queue, "four run", [6, 4, 0]).await;
    stays_async("it takes no more", Duration::from_millis(500), async || match places(&kit, &queue).await {
        [6, 4, 0] => Ok(()),
        found => Err(format!("queued, running, completed: {found:?}")),
    })
    .await;

    let other = Hands::start(&kit, &queue, "other", 100).await;
    come_to(&kit, &queue, "the other worker has the rest", [0, 10, 0]).await;
    // The full one takes no wake marker that it has no slot for.
    for round in 0..5 {
        let started = Instant::now();
        enqueue(&kit, &queue, &tasks(&format!("next{round}-"), 1, Act::Nothing)).await;
        come_to(&kit, &queue, "the other worker has the next", [0, 10, round + 1]).await;
        let took = started.elapsed();
        assert!(took < AT_ONCE, "round {round}: it took {took:?}");
    }
    assert_eq!((full.seen.done(), other.seen.done()), (0, 5));

    full.told.cancel();
    other.told.cancel();
    come_to(&kit, &queue, "all are done", [0, 0, 15]).await;
    full.stop().await;
    other.stop().await;
    kit.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_wake_each_other_for_what_one_cannot_hold() {
    const WORKERS: usize = 5;
    let (kit, queue) = (Kit::new().await, queue("shared"));
    let mut workers = Vec::new();
    for i in 0..WORKERS {
        workers.push(Hands::start(&kit, &queue, &format!("w{i}"), 2).await);
    }
    all_there(&kit, WORKERS).await;
    let started = Instant::now();
    // One call, so one wake marker.
    enqueue(&kit, &queue, &tasks("long", 2 * WORKERS, Act::UntilTold)).await;
    come_to(&kit, &queue, "each worker holds two", [0, 10, 0]).await;
    let took = started.elapsed();
    assert!(took < AT_ONCE, "it took {took:?}");
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(places(&kit, &queue).await, [0, 0, 10]);
    kit.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_task_delays_no_other_of_its_worker() {
    let (kit, queue) = (Kit::new().await, queue("shared"));
    let worker = Hands::start(&kit, &queue, "w", 4).await;
    enqueue(&kit, &queue, &tasks("slow", 1, Act::UntilTold)).await;
    come_to(&kit, &queue, "the slow one runs", [0, 1, 0]).await;
    // Claimed with others or alone, it keeps back neither their ends nor the next claims.
    for (batch, act) in [Act::Nothing, Act::Short].into_iter().enumerate() {
        enqueue(&kit, &queue, &tasks(&format!("quick{batch}-"), 200, act)).await;
        come_to(&kit, &queue, "the others are done", [0, 1, 200 * (batch as i64 + 1)]).await;
    }
    worker.told.cancel();
    come_to(&kit, &queue, "the slow one is done", [0, 0, 401]).await;
    worker.stop().await;
    kit.end().await;
}
