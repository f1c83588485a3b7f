//! The registries: which queues there are, which workers live. What a worker's entry says of its process is what a later
//! worker of its name proves its death with; else nothing relies on them.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Pipeline, Value};

use super::Store;
use super::read::{first, get};
use crate::error::Result;
use crate::keys;
use crate::name::{Incarnation, QueueName, WorkerName};
use crate::time::as_ms;

/// What tells a process from every other, on any machine: with it, one that can see the same processes proves it dead.
/// Empty where a system does not say: that proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessMark {
    /// This start of the machine.
    pub boot_id: String,
    /// Among which processes its pid is counted.
    pub pid_namespace: String,
    /// When the process started, in ticks since boot: tells a reused pid apart.
    pub started_ticks: u64,
}

/// One living worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Its name.
    pub name: WorkerName,
    /// This start of it.
    pub incarnation: Incarnation,
    /// The host it runs on.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
    /// What tells its process from a later one of the same number.
    pub mark: ProcessMark,
    /// When it started, ms by Redis's clock.
    pub started_ms: u64,
    /// Slots per queue.
    pub queues: BTreeMap<QueueName, usize>,
    /// Runs in hand.
    pub running: usize,
    /// `running`, `draining`, or `wedged`: its runtime does not answer.
    pub status: String,
}

impl Store {
    /// Adds a queue to the registry. Producers, workers and reapers do so again every minute.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn announce_queue(&self, queue: &QueueName) -> Result<()> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SADD").arg(keys::queues(self.namespace())).arg(queue.as_str());
        self.commands(&pipeline).await.map(drop)
    }

    /// The queues there are, by name.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn queues(&self) -> Result<Vec<QueueName>> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SMEMBERS").arg(keys::queues(self.namespace()));
        let names: Vec<String> = get(first(self.commands(&pipeline).await?)?)?;
        let mut queues: Vec<QueueName> = names.into_iter().filter_map(|n| QueueName::new(n).ok()).collect();
        queues.sort();
        Ok(queues)
    }

    /// Says that a worker lives, for `ttl`.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn announce_worker(&self, worker: &WorkerInfo, now_ms: u64, ttl: Duration) -> Result<()> {
        let key = keys::worker(self.namespace(), &worker.incarnation);
        let queues: Vec<String> =
            worker.queues.iter().map(|(queue, slots)| format!("{queue}={slots}")).collect();
        let mut pipeline = Pipeline::new();
        pipeline
            .cmd("HSET")
            .arg(&key)
            .arg(&[("name", worker.name.as_str()), ("host", &worker.host), ("status", &worker.status)])
            .arg(&[("boot", &worker.mark.boot_id), ("pidns", &worker.mark.pid_namespace)])
            .arg(&[("pid", u64::from(worker.pid)), ("ticks", worker.mark.started_ticks)])
            .arg("started")
            .arg(worker.started_ms)
            .arg("running")
            .arg(worker.running)
            .arg("queues")
            .arg(queues.join(","));
        pipeline.cmd("PEXPIRE").arg(&key).arg(as_ms(ttl));
        pipeline
            .cmd("ZADD")
            .arg(keys::workers(self.namespace()))
            .arg(now_ms)
            .arg(worker.incarnation.as_str());
        self.commands(&pipeline).await.map(drop)
    }

    /// Takes a worker that ends out of the registry.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn forget_worker(&self, incarnation: &Incarnation) -> Result<()> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("DEL").arg(keys::worker(self.namespace(), incarnation));
        pipeline.cmd("ZREM").arg(keys::workers(self.namespace())).arg(incarnation.as_str());
        self.commands(&pipeline).await.map(drop)
    }

    /// The entry of one worker; none when it has lapsed.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn worker(&self, incarnation: &Incarnation) -> Result<Option<WorkerInfo>> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HGETALL").arg(keys::worker(self.namespace(), incarnation));
        worker_info(incarnation, first(self.commands(&pipeline).await?)?)
    }

    /// The workers that live, by name. Lapsed entries are removed on the way.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZRANGE").arg(keys::workers(self.namespace())).arg(0).arg(-1);
        let ids: Vec<String> = get(first(self.commands(&pipeline).await?)?)?;
        let ids: Vec<Incarnation> = ids.into_iter().filter_map(|i| Incarnation::new(i).ok()).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = Pipeline::new();
        for id in &ids {
            pipeline.cmd("HGETALL").arg(keys::worker(self.namespace(), id));
        }
        let values = self.commands(&pipeline).await?;
        let mut workers = Vec::new();
        let mut lapsed = Pipeline::new();
        for (id, value) in ids.iter().zip(values) {
            match worker_info(id, value)? {
                Some(worker) => workers.push(worker),
                None => {
                    lapsed.cmd("ZREM").arg(keys::workers(self.namespace())).arg(id.as_str());
                }
            }
        }
        if !lapsed.is_empty() {
            self.commands(&lapsed).await?;
        }
        workers.sort_by(|a, b| (&a.name, a.started_ms).cmp(&(&b.name, b.started_ms)));
        Ok(workers)
    }
}

fn worker_info(incarnation: &Incarnation, value: Value) -> Result<Option<WorkerInfo>> {
    let fields: BTreeMap<String, String> = get(value)?;
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let Ok(name) = WorkerName::new(field("name")) else { return Ok(None) };
    let slots = |text: &str| {
        let (queue, slots) = text.split_once('=')?;
        Some((QueueName::new(queue).ok()?, slots.parse().ok()?))
    };
    Ok(Some(WorkerInfo {
        name,
        incarnation: incarnation.clone(),
        host: field("host"),
        pid: field("pid").parse().unwrap_or_default(),
        mark: ProcessMark {
            boot_id: field("boot"),
            pid_namespace: field("pidns"),
            started_ticks: field("ticks").parse().unwrap_or_default(),
        },
        started_ms: field("started").parse().unwrap_or_default(),
        queues: field("queues").split(',').filter_map(slots).collect(),
        running: field("running").parse().unwrap_or_default(),
        status: field("status"),
    }))
}
