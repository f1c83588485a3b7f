//! What a handler knows of its run, and what it can say while it runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_common::body::Body;
use leasehold_common::limits::{Limits, check_size};
use leasehold_common::name::{Owner, QueueName, TaskId, WorkerName};
use tokio_util::sync::CancellationToken;

use crate::run::Run;
use crate::telling::Teller;

/// A handler's view of its run. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    run: Arc<Run>,
    body: Body,
    worker: WorkerName,
    teller: Teller,
    limits: Limits,
}

impl Context {
    pub(crate) fn new(run: Arc<Run>, body: Body, worker: WorkerName, teller: Teller, limits: Limits) -> Self {
        Self { inner: Arc::new(Inner { run, body, worker, teller, limits }) }
    }

    /// The task's id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.inner.run.key.id
    }

    /// The queue it came from.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.inner.run.key.queue
    }

    /// How often the task was claimed, this time included.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.inner.run.claimed.attempt
    }

    /// Failures of earlier attempts.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.inner.run.claimed.failures
    }

    /// A number that grows with every claim in the queue. Hand it to systems outside, which then can refuse
    /// what an earlier run still sends.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.inner.run.claimed.token
    }

    /// Whom the task belongs to.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.inner.body.owner.as_ref()
    }

    /// What the producer passed through.
    #[must_use]
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.inner.body.headers
    }

    /// The worker that runs it.
    #[must_use]
    pub fn worker(&self) -> &WorkerName {
        &self.inner.worker
    }

    /// Cancelled when the run should end (abort, timeout, a stopping worker, a lost lease): clean up and
    /// return. After the task's stop grace the future is dropped. An `Ok` returned after it still counts.
    #[must_use]
    pub fn stopped(&self) -> &CancellationToken {
        &self.inner.run.stopped
    }

    /// Tells how far the run is: `share` from 0 to 1, and a message of at most 1 KiB. Returns at once; only
    /// the newest leaves the worker, at most every 100 ms.
    ///
    /// # Errors
    /// [`leasehold_common::Error::Invalid`] for a share out of range or a message too long.
    pub fn progress(&self, share: f64, message: impl Into<String>) -> leasehold_common::Result<()> {
        let message = message.into();
        if !(0.0..=1.0).contains(&share) {
            return Err(leasehold_common::Error::invalid("progress", format!("{share} is not 0 to 1")));
        }
        check_size("progress message", message.len(), self.inner.limits.progress)?;
        self.inner.run.telling.set_progress(Some(share), message);
        self.inner.teller.news();
        Ok(())
    }

    /// Adds a line to the task's log. Returns at once; what comes faster than Redis takes it is dropped in
    /// the middle, and the log says how much.
    pub fn log(&self, line: &str) {
        self.inner.run.telling.log(&format!("{line}\n"));
        self.inner.teller.news();
    }
}
