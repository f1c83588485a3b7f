//! One queue on a private Redis, its clock in the test's hand.
//!
//! `Q:config` has a `clock` field: scripts take their time from it, and leases carry their expiry as a value. So a
//! test says when things happen, to the millisecond, and waits for nothing.

mod check;
mod raw;
mod record;
mod told;

pub use check::{EventEntry, Move, breaches, illegal_moves, moves};
pub use raw::{Answer, FORMAT_BYTE, NEWER_V, V, args};
pub use record::{fixed, fixed_with};
pub use told::{budget, budgets, in_lane, in_lane_with, lane, owner};

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_common::body::{Body, TaskKind};
use leasehold_common::bounds::Bounds;
use leasehold_common::doctor::{Options, examine};
use leasehold_common::keys::QueueKeys;
use leasehold_common::name::{Incarnation, Namespace, QueueName, TaskId, TaskName, WorkerName};
use leasehold_common::policy::{Policy, Priority};
use leasehold_common::record::{FailureDetail, FailureKind, TaskRecord};
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    Beat, BeatAnswer, ClaimAnswer, ClaimRequest, Claimed, ClaimedTask, Finish, FinishAnswer, NewTask,
    Outcome, QueueSettings, RetryAdvice, Store, Swept, When,
};
use leasehold_common::transport::ConnectOptions;

use crate::redis_server::{RedisBuilder, RedisServer};

/// The first moment of every driven queue, ms.
pub const START: u64 = 1_700_000_000_000;
/// The lease of a queue with default settings, ms.
pub const T: u64 = 15_000;
/// Its beat, ms.
pub const B: u64 = 5_000;

/// A registered queue, its server, and the time.
pub struct Queue {
    /// Its own server.
    pub server: RedisServer,
    /// Typed access.
    pub store: Store,
    /// Its name.
    pub name: QueueName,
    connection: RefCell<redis::Connection>,
    now: Cell<u64>,
    /// How many of a lane may be let go at most, as a lower limit leaves it, by the lane's hash.
    let_go: RefCell<BTreeMap<String, u64>>,
}

/// A worker as Redis knows it: an incarnation that counts its claims.
pub struct Hand {
    /// This start of it.
    pub inc: Incarnation,
    /// Its name.
    pub name: WorkerName,
    number: Cell<u64>,
}

impl Hand {
    /// A worker that has claimed nothing yet. Its incarnation is made of its name.
    pub fn new(name: &str) -> Self {
        Self {
            inc: Incarnation::new(format!("inc-{name}")).expect("an incarnation"),
            name: WorkerName::new(name).expect("a worker name"),
            number: Cell::new(0),
        }
    }

    /// The number of its last claim.
    pub fn number(&self) -> u64 {
        self.number.get()
    }

    /// A claim under `number`.
    pub fn request(&self, number: u64, want: usize) -> ClaimRequest {
        ClaimRequest {
            incarnation: self.inc.clone(),
            worker: self.name.clone(),
            number,
            want,
            woken: false,
            at_bell: false,
            closing: false,
        }
    }

    /// The next claim.
    pub fn next(&self, want: usize) -> ClaimRequest {
        self.number.set(self.number.get() + 1);
        self.request(self.number.get(), want)
    }
}

/// A task id.
pub fn id(text: &str) -> TaskId {
    TaskId::new(text).expect("a task id")
}

/// A task of 100 bytes with the default policy, changed by `change`.
pub fn task_with(name: &str, change: impl FnOnce(&mut NewTask)) -> NewTask {
    let body = Body {
        name: TaskName::new("t").expect("a task name"),
        kind: TaskKind::Handler,
        payload: vec![7; 100],
        policy: Policy::default(),
        priority: Priority::Normal,
        owner: None,
        lane: None,
        bounds: Bounds::default(),
        headers: BTreeMap::new(),
        result_rule: Default::default(),
        origins: Default::default(),
    };
    let mut task = NewTask { id: id(name), body, when: When::Now };
    change(&mut task);
    task
}

/// A task with the default policy.
pub fn task(name: &str) -> NewTask {
    task_with(name, |_| {})
}

/// A run's end.
pub fn end(task: &ClaimedTask, outcome: Outcome) -> Finish {
    Finish { id: task.id.clone(), run: task.run.clone(), outcome, before_stop: false }
}

/// A run's end with a result.
pub fn done(task: &ClaimedTask) -> Finish {
    end(task, Outcome::Completed(b"done".to_vec()))
}

/// A run's end with an error.
pub fn failed(task: &ClaimedTask, retry: RetryAdvice) -> Finish {
    let (kind, detail) = (FailureKind::Error, FailureDetail::default());
    end(task, Outcome::Failed { kind, message: "it broke".to_owned(), retry, detail })
}

impl Queue {
    /// Lease 15 s, default retention, time at [`START`].
    pub async fn start() -> Self {
        Self::with(QueueSettings::default()).await
    }

    /// With other settings.
    pub async fn with(settings: QueueSettings) -> Self {
        Self::on(RedisServer::builder().no_persistence(), settings).await
    }

    /// On a server of its own kind.
    pub async fn on(server: RedisBuilder, settings: QueueSettings) -> Self {
        let server = server.start();
        let options = ConnectOptions::default();
        let store = Store::open(&server.url(), Namespace::default(), options).expect("a store");
        let name = QueueName::new("q").expect("a queue name");
        let store = store.with_settings(settings);
        let connection = RefCell::new(server.connection());
        let queue =
            Self { server, store, name, connection, now: Cell::new(START), let_go: RefCell::default() };
        queue.reset().await;
        queue
    }

    /// Everything anew, on the same server.
    pub async fn reset(&self) {
        self.redis::<()>(&["FLUSHALL"]);
        self.let_go.borrow_mut().clear();
        self.store.register(&self.name).await.expect("register");
        self.set_clock(START);
        self.redis::<()>(&["HSET", &self.key("pulse"), "last", &START.to_string()]);
    }

    /// Its keys by name.
    pub fn keys(&self) -> QueueKeys {
        self.store.keys(&self.name)
    }

    /// One of its keys.
    pub fn key(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.keys().prefix())
    }

    /// One command, on a connection that is kept.
    #[track_caller]
    pub fn redis<V: redis::FromRedisValue>(&self, words: &[&str]) -> V {
        let (name, rest) = words.split_first().expect("a command has a name");
        let answer = redis::cmd(name).arg(rest).query(&mut *self.connection.borrow_mut());
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// After the server was restarted.
    pub fn reconnect(&self) {
        *self.connection.borrow_mut() = self.server.connection();
    }

    /// The time, ms.
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// Sets the time.
    pub fn set_clock(&self, ms: u64) {
        self.now.set(ms);
        self.redis::<()>(&["HSET", &self.key("config"), "clock", &ms.to_string()]);
    }

    /// Lets `ms` pass while nobody sweeps.
    pub fn advance(&self, ms: u64) {
        self.set_clock(self.now() + ms);
    }

    /// One sweep.
    pub async fn sweep(&self) -> Swept {
        self.store.sweep(&self.name, 256).await.expect("sweep")
    }

    /// Lets `ms` pass with a sweep at the end of each second.
    pub async fn sweep_for(&self, ms: u64) -> Vec<Swept> {
        let end = self.now() + ms;
        let mut swept = Vec::new();
        while self.now() < end {
            self.advance((end - self.now()).min(1000));
            swept.push(self.sweep().await);
        }
        swept
    }

    /// Enqueues tasks, all new.
    pub async fn enqueue(&self, tasks: &[NewTask]) {
        self.store.enqueue(&self.name, tasks).await.expect("enqueue");
    }

    /// Enqueues tasks of 100 bytes with the default policy.
    pub async fn seed(&self, names: &[&str]) {
        self.enqueue(&names.iter().map(|name| task(name)).collect::<Vec<_>>()).await;
    }

    /// A claim, whatever it answers.
    pub async fn ask(&self, request: &ClaimRequest) -> ClaimAnswer {
        self.store.claim(&self.name, request).await.expect("claim")
    }

    /// A claim that is answered with tasks or none.
    pub async fn claimed(&self, request: &ClaimRequest) -> Claimed {
        match self.ask(request).await {
            ClaimAnswer::Claimed(claimed) => claimed,
            other => panic!("the claim was answered {other:?}"),
        }
    }

    /// The worker's next claim.
    pub async fn claim(&self, hand: &Hand, want: usize) -> Vec<ClaimedTask> {
        self.claimed(&hand.next(want)).await.tasks
    }

    /// Enqueues one task and claims it.
    pub async fn running(&self, hand: &Hand, new: NewTask) -> ClaimedTask {
        self.enqueue(std::slice::from_ref(&new)).await;
        let mut tasks = self.claim(hand, 1).await;
        assert_eq!(tasks.iter().map(|t| &t.id).collect::<Vec<_>>(), [&new.id], "the one task queued");
        tasks.remove(0)
    }

    /// Ends one run.
    pub async fn finish(&self, hand: &Hand, finish: Finish) -> FinishAnswer {
        self.store.finish(&self.name, &hand.inc, &[finish]).await.expect("finish").remove(0)
    }

    /// Renews one lease.
    pub async fn beat(&self, hand: &Hand, task: &ClaimedTask) -> BeatAnswer {
        let beat = Beat { id: task.id.clone(), run: task.run.clone(), stopping: false };
        self.store.heartbeat(&self.name, &hand.inc, &[beat]).await.expect("heartbeat").answers.remove(0)
    }

    /// A task's record.
    pub async fn record(&self, name: &str) -> TaskRecord {
        let found = self.store.record(&self.name, &id(name)).await.expect("read a record");
        found.unwrap_or_else(|| panic!("no task {name}"))
    }

    /// A task's state, none when it is gone.
    pub async fn state(&self, name: &str) -> Option<TaskState> {
        self.store.record(&self.name, &id(name)).await.expect("read a record").map(|r| r.state)
    }

    /// A counter of `Q:totals`.
    pub fn total(&self, name: &str) -> u64 {
        self.redis::<Option<u64>>(&["HGET", &self.key("totals"), name]).unwrap_or_default()
    }

    /// A score.
    pub fn score(&self, suffix: &str, member: &str) -> Option<f64> {
        self.redis(&["ZSCORE", &self.key(suffix), member])
    }

    /// Is the wake marker set? It is taken away by looking.
    pub fn take_wake(&self) -> bool {
        self.redis::<u64>(&["DEL", &self.key("wake")]) == 1
    }

    /// Digest of everything.
    pub fn digest(&self) -> String {
        self.redis(&["DEBUG", "DIGEST"])
    }

    /// Panics unless state and place of every task agree, the counts add up, every event was legal, and the doctor
    /// finds no breach.
    #[track_caller]
    pub fn check(&self) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let found = breaches(self).await;
            assert!(found.is_empty(), "{caller}: broken invariants:\n  {}", found.join("\n  "));
            let options = Options { pause: Duration::ZERO, server: false, ..Options::default() };
            let report = examine(&self.store, &options).await.expect("the doctor can look");
            assert!(report.is_clean(), "{caller}: the doctor finds\n{report}");
        }
    }
}

/// A duration of so many milliseconds.
pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
