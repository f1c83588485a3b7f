//! What the tests of the producer share: a server with a producer, and a worker driven by hand.

use std::sync::Arc;
use std::time::Duration;

use leasehold_common::doctor;
use leasehold_common::name::{Incarnation, Namespace, WorkerName};
use leasehold_common::store::{
    ClaimAnswer, ClaimRequest, ClaimedTask, Finish, FinishAnswer, LogPiece, Outcome, UpdateAnswer,
};
use leasehold_common::transport::{FaultyTransport, RedisTransport};
use leasehold_producer::{ConnectOptions, OutputStream, Producer, QueueName, Store, Task, TaskId};
use leasehold_tests::RedisServer;
use serde::{Deserialize, Serialize};

/// Nothing in these tests takes this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The task of these tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Add {
    pub(crate) a: u64,
    pub(crate) b: u64,
}

impl Task for Add {
    const NAME: &'static str = "add";
    type Output = u64;
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

/// A server and a producer on it.
pub(crate) struct Kit {
    pub(crate) redis: RedisServer,
    pub(crate) producer: Producer,
}

impl Kit {
    pub(crate) async fn new() -> Self {
        let redis = RedisServer::start();
        let producer = Producer::connect(&redis.url()).await.unwrap();
        Self { redis, producer }
    }

    /// A producer whose calls fail as planned.
    pub(crate) async fn faulty(deadline: Duration) -> (Self, Arc<FaultyTransport>) {
        let redis = RedisServer::start();
        let inner = RedisTransport::new(&redis.url(), ConnectOptions::default()).unwrap();
        let faulty = Arc::new(FaultyTransport::new(Arc::new(inner)));
        let store = Store::over(faulty.clone(), Namespace::default());
        let producer = Producer::over(store).deadline(deadline).connect().await.unwrap();
        (Self { redis, producer }, faulty)
    }

    /// Script calls, as the server counted them.
    pub(crate) fn script_calls(&self) -> u64 {
        self.redis.command_stats().get("evalsha").copied().unwrap_or_default().calls
    }

    pub(crate) fn worker(&self, queue: &QueueName) -> HandWorker {
        HandWorker {
            store: self.producer.store().clone(),
            queue: queue.clone(),
            incarnation: Incarnation::fresh(),
            number: 0,
        }
    }

    /// Ends a test: the doctor finds nothing broken.
    pub(crate) async fn end(self) {
        let options = doctor::Options { pause: Duration::from_millis(50), ..doctor::Options::default() };
        let report = doctor::examine(self.producer.store(), &options).await.unwrap();
        let breaches: Vec<_> = report.breaches().collect();
        assert!(breaches.is_empty(), "{breaches:#?}");
    }
}

/// A worker whose every call the test makes.
pub(crate) struct HandWorker {
    store: Store,
    queue: QueueName,
    incarnation: Incarnation,
    number: u64,
}

impl HandWorker {
    pub(crate) async fn claim(&mut self, want: usize) -> Vec<ClaimedTask> {
        self.number += 1;
        let request = ClaimRequest {
            incarnation: self.incarnation.clone(),
            worker: WorkerName::new("hand").unwrap(),
            number: self.number,
            want,
            woken: false,
            at_bell: false,
            closing: false,
        };
        match self.store.claim(&self.queue, &request).await.unwrap() {
            ClaimAnswer::Claimed(claimed) => claimed.tasks,
            other => panic!("{other:?}"),
        }
    }

    /// Claims the one task that is there.
    pub(crate) async fn claim_one(&mut self) -> ClaimedTask {
        let mut tasks = self.claim(1).await;
        tasks.pop().expect("a task to claim")
    }

    pub(crate) async fn finish(&self, task: &ClaimedTask, outcome: Outcome) -> FinishAnswer {
        let end = Finish { id: task.id.clone(), run: task.run.clone(), outcome, before_stop: false };
        self.store.finish(&self.queue, &self.incarnation, &[end]).await.unwrap()[0]
    }

    /// Finishes with an output.
    pub(crate) async fn complete<O: Serialize>(&self, task: &ClaimedTask, output: &O) -> FinishAnswer {
        let output = rmp_serde::to_vec_named(output).unwrap();
        self.finish(task, Outcome::Completed(output)).await
    }

    pub(crate) async fn log(&self, task: &ClaimedTask, offset: u64, text: &str) {
        let piece = LogPiece {
            id: task.id.clone(),
            run: task.run.clone(),
            offset,
            stream: OutputStream::Out,
            text: text.into(),
        };
        let answers = self.store.append_log(&self.queue, &self.incarnation, &[piece]).await.unwrap();
        assert_eq!(answers, [UpdateAnswer::Ok]);
    }
}
