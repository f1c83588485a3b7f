//! What is measured: the same job through four APIs.

use anyhow::{Result, ensure};
use apalis::prelude::{TaskSink, WorkerBuilder, WorkerBuilderExt};
use apalis_redis::{Config as ApalisConfig, RedisStorage};
use bullmq::options::RedisConnectionOptions;
use bullmq::queue::BulkJob;
use bullmq::worker::CancellationToken;
use bullmq::{QueueOptions, WorkerOptions};
use leasehold_common::keys::QueueKeys;
use leasehold_common::name::{Namespace, QueueName};
use leasehold_common::state::TaskState;
use leasehold_common::task::DEFAULT_QUEUE;
use leasehold_reaper::{Config as ReaperConfig, Reaper};
use leasehold_worker::{Context, Task, TaskError};
use redis::streams::StreamReadReply;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::server::{Counts, Server};

/// Tasks of a call that enqueues, and entries of a raw read.
const BATCH: usize = 100;
/// Handlers at once.
const SLOTS: usize = 100;
/// Milliseconds that a worker of BullMQ may take to end.
const CLOSING: u64 = 5000;
/// Sweeps after which Leasehold's event log is at its cap: each takes off as many as 2,000 entries.
const SWEEPS: usize = 5;

/// 200 bytes once it is encoded: two are for quotes (JSON) or for the head of a text (MessagePack).
fn payload() -> String {
    "x".repeat(198)
}

/// A queue under measurement.
pub(crate) trait Side: Sized {
    const NAME: &str;
    /// Connects, on an empty Redis.
    async fn open(url: &str) -> Result<Self>;
    /// Enqueues so many tasks, in bulk.
    async fn fill(&mut self, tasks: usize) -> Result<()>;
    /// What it costs until Redis holds the result of each of so many tasks, whose handler does nothing.
    async fn drain(&mut self, tasks: usize, server: &mut Server) -> Result<Counts>;
    /// Does what a service of the queue would do in time to keep memory small.
    async fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Plain streams with a consumer group, what the others are divided by.
pub(crate) struct Raw(redis::aio::MultiplexedConnection);

impl Side for Raw {
    const NAME: &str = "raw streams";

    async fn open(url: &str) -> Result<Self> {
        let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        let mut create = redis::cmd("XGROUP");
        create.arg(&["CREATE", "raw", "g", "0", "MKSTREAM"]).query_async::<()>(&mut connection).await?;
        Ok(Self(connection))
    }

    async fn fill(&mut self, tasks: usize) -> Result<()> {
        let value = format!("\"{}\"", payload());
        for _ in 0..tasks / BATCH {
            let mut adds = redis::pipe();
            for _ in 0..BATCH {
                adds.cmd("XADD").arg(&["raw", "*", "d", &value]).ignore();
            }
            adds.query_async::<()>(&mut self.0).await?;
        }
        Ok(())
    }

    async fn drain(&mut self, tasks: usize, server: &mut Server) -> Result<Counts> {
        let mut read = redis::cmd("XREADGROUP");
        read.arg(&["GROUP", "g", "c", "COUNT"]).arg(BATCH).arg(&["STREAMS", "raw", ">"]);
        let before = server.counts().await?;
        for _ in 0..tasks / BATCH {
            let reply: StreamReadReply = read.query_async(&mut self.0).await?;
            let mut finish = redis::pipe();
            for entry in reply.keys.iter().flat_map(|key| &key.ids) {
                finish.cmd("XACK").arg(&["raw", "g", &entry.id]).ignore();
                finish.cmd("XDEL").arg(&["raw", &entry.id]).ignore();
            }
            ensure!(finish.len() == BATCH * 2, "{} commands finish {BATCH} entries", finish.len());
            finish.query_async::<()>(&mut self.0).await?;
        }
        Ok(server.counts().await? - before)
    }
}

#[derive(Serialize, Deserialize)]
struct Job(String);

impl Task for Job {
    const NAME: &'static str = "job";
    type Output = ();
}

/// Leasehold, with its defaults.
pub(crate) struct Ours(String, leasehold_producer::Producer);

impl Side for Ours {
    const NAME: &str = "leasehold-worker";

    async fn open(url: &str) -> Result<Self> {
        Ok(Self(url.to_owned(), leasehold_producer::Producer::connect(url).await?))
    }

    async fn fill(&mut self, tasks: usize) -> Result<()> {
        for _ in 0..tasks / BATCH {
            for answer in self.1.enqueue_all((0..BATCH).map(|_| self.1.enqueue(Job(payload())))).await {
                answer?;
            }
        }
        Ok(())
    }

    async fn drain(&mut self, tasks: usize, server: &mut Server) -> Result<Counts> {
        let worker = leasehold_worker::Worker::connect(&self.0).await?.queue(DEFAULT_QUEUE, SLOTS);
        let worker = worker.handle(async |_: Context, _: Job| Ok::<(), TaskError>(()));
        let keys = QueueKeys::new(&Namespace::default(), &QueueName::new(DEFAULT_QUEUE)?);
        let (stop, stopped) = oneshot::channel::<()>();
        let before = server.counts().await?;
        let working = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
        let after = server.counts_once("ZCARD", &keys.done(TaskState::Completed), tasks).await?;
        drop(stop);
        working.await??;
        Ok(after - before)
    }

    async fn settle(&mut self) -> Result<()> {
        let reaper = Reaper::new(self.1.store().clone(), ReaperConfig::default())?;
        for _ in 0..SWEEPS {
            ensure!(reaper.run_once().await.errors == 0, "a sweep was not answered");
        }
        Ok(())
    }
}

/// BullMQ, with its defaults but for the number of handlers.
pub(crate) struct BullMq(RedisConnectionOptions, bullmq::Queue);

impl Side for BullMq {
    const NAME: &str = "bullmq-official";

    async fn open(url: &str) -> Result<Self> {
        let connection = RedisConnectionOptions::new().url(url);
        let options = QueueOptions::new().connection(connection.clone());
        Ok(Self(connection, bullmq::Queue::with_options("default", options).await?))
    }

    async fn fill(&mut self, tasks: usize) -> Result<()> {
        for _ in 0..tasks / BATCH {
            self.1.add_bulk((0..BATCH).map(|_| BulkJob::new("job", payload())).collect()).await?;
        }
        Ok(())
    }

    async fn drain(&mut self, tasks: usize, server: &mut Server) -> Result<Counts> {
        let connection = self.0.clone();
        let options = WorkerOptions { connection, concurrency: SLOTS, autorun: false, ..Default::default() };
        let processor = async |_: bullmq::Job, _: CancellationToken| Ok(serde_json::Value::Null);
        let worker = bullmq::Worker::with_options("default", processor, options).await?;
        let before = server.counts().await?;
        worker.run().await?;
        let after = server.counts_once("ZCARD", "bull:default:completed", tasks).await?;
        worker.close(CLOSING).await?;
        Ok(after - before)
    }
}

/// apalis-redis, with its defaults but for the number of handlers and of tasks in a fetch.
pub(crate) struct Apalis(RedisStorage<String>);

impl Side for Apalis {
    const NAME: &str = "apalis-redis";

    async fn open(url: &str) -> Result<Self> {
        let config = ApalisConfig::default().batch_size(BATCH);
        Ok(Self(RedisStorage::new(apalis_redis::connect(url).await?).with_config(config)))
    }

    async fn fill(&mut self, tasks: usize) -> Result<()> {
        for _ in 0..tasks / BATCH {
            self.0.push_bulk((0..BATCH).map(|_| payload()).collect()).await?;
        }
        Ok(())
    }

    async fn drain(&mut self, tasks: usize, server: &mut Server) -> Result<Counts> {
        let worker = WorkerBuilder::new("worker").backend(self.0.clone()).concurrency(SLOTS);
        let worker = worker.build(|_: String| std::future::ready(()));
        let (stop, stopped) = oneshot::channel::<()>();
        let before = server.counts().await?;
        let stopped = async { stopped.await.or(Ok::<(), std::io::Error>(())) };
        let working = tokio::spawn(worker.run_until(stopped));
        let after = server.counts_once("SCARD", "default:done", tasks).await?;
        drop(stop);
        working.await??;
        Ok(after - before)
    }
}
