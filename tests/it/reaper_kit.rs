//! What the tests of the reaper share: a queue with a short lease on the real clock, and a reaper beside it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_common::doctor::{Options, examine};
use leasehold_common::name::{Incarnation, QueueName};
use leasehold_common::store::{Beat, ClaimedTask, QueueSettings, Store};
use leasehold_reaper::{Config, Reaper, Stats};
use leasehold_tests::RedisBuilder;
use leasehold_tests::queue::{Hand, Queue, ms};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The shortest lease that there is: a dead owner is known after some 1.5 s.
pub(crate) const LEASE: Duration = Duration::from_secs(1);
/// Nothing in these tests takes this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn short_lease() -> QueueSettings {
    QueueSettings { lease: LEASE, ..QueueSettings::default() }
}

/// A queue on the real clock.
pub(crate) async fn real(server: RedisBuilder, settings: QueueSettings) -> Queue {
    let queue = Queue::on(server, settings).await;
    queue.redis::<()>(&["HDEL", &queue.key("config"), "clock"]);
    let now = queue.store.now_ms().await.unwrap();
    queue.redis::<()>(&["HSET", &queue.key("pulse"), "last", &now.to_string()]);
    queue
}

pub(crate) fn queue_named(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn reaper(store: &Store) -> Arc<Reaper> {
    let config = Config { cleanup_every: Duration::from_secs(1), ..Config::default() };
    Arc::new(Reaper::new(store.clone(), config).unwrap())
}

/// A reaper that runs until the value is stopped.
pub(crate) struct Running {
    pub(crate) reaper: Arc<Reaper>,
    stop: CancellationToken,
    run: JoinHandle<Stats>,
}

impl Running {
    pub(crate) fn start(store: &Store) -> Self {
        let (reaper, stop) = (reaper(store), CancellationToken::new());
        let (running, token) = (reaper.clone(), stop.clone());
        let run = tokio::spawn(async move { running.run(token).await });
        Self { reaper, stop, run }
    }

    pub(crate) async fn stop(self) -> Stats {
        self.stop.cancel();
        self.stop.cancel();
        tokio::time::timeout(LIMIT, self.run).await.expect("the reaper stops").unwrap()
    }
}

/// Keeps the leases of some runs until it is dropped, as a worker does: one call a beat, errors notwithstanding.
pub(crate) struct Heart {
    run: JoinHandle<()>,
}

impl Heart {
    pub(crate) fn start(queue: &Queue, hand: &Hand, tasks: &[ClaimedTask]) -> Self {
        let (store, name, inc) = (queue.store.clone(), queue.name.clone(), hand.inc.clone());
        let beats: Vec<Beat> =
            tasks.iter().map(|t| Beat { id: t.id.clone(), run: t.run.clone(), stopping: false }).collect();
        Self { run: tokio::spawn(async move { beat(store, name, inc, beats).await }) }
    }
}

async fn beat(store: Store, name: QueueName, inc: Incarnation, beats: Vec<Beat>) {
    let mut every = tokio::time::interval(LEASE / 3);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        // An outage is what some of these tests are about.
        store.heartbeat(&name, &inc, &beats).await.ok();
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.run.abort();
    }
}

/// Ends a test: no invariant is broken.
pub(crate) async fn assert_sound(store: &Store) {
    let options = Options { pause: ms(100), ..Options::default() };
    let report = examine(store, &options).await.unwrap();
    assert!(report.is_clean(), "{report}");
}
