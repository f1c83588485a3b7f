//! A task that was enqueued, or that somebody knows the id of.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use leasehold_common::store::AbortRequest;
use leasehold_common::task;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::json::{self, Bytes};
use crate::wait::Ended;
use crate::{
    AbortAnswer, DeleteAnswer, Enqueued, Explanation, Producer, QueueName, RetryAnswer, RetryMode,
    TaskDetail, TaskId, TaskRecord, TaskState,
};

/// What a task's output can be read as: anything that serde can, or a [`RawOutput`].
pub trait Output: Sized {
    /// Reads the output of a completed task.
    ///
    /// # Errors
    /// What does not fit, without quoting the data.
    fn from_output(bytes: Vec<u8>) -> Result<Self, String>;
}

impl<O: DeserializeOwned> Output for O {
    fn from_output(bytes: Vec<u8>) -> Result<Self, String> {
        task::decode("output", &bytes).map_err(|error| error.to_string())
    }
}

/// An output as it lies in Redis: MessagePack.
#[derive(Clone, PartialEq, Eq)]
pub struct RawOutput(Vec<u8>);

impl RawOutput {
    /// The MessagePack itself.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same as JSON, by the mapping of [`json`](crate::json).
    ///
    /// # Errors
    /// [`Error::Invalid`] for what JSON has no form for: not a number, keys that are no strings.
    pub fn to_json(&self, bytes: Bytes) -> Result<Value> {
        json::from_msgpack(&self.0, bytes)
    }
}

impl Output for RawOutput {
    fn from_output(bytes: Vec<u8>) -> Result<Self, String> {
        Ok(Self(bytes))
    }
}

impl fmt::Debug for RawOutput {
    /// Its size only: outputs do not belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawOutput({} bytes)", self.0.len())
    }
}

/// A task by its address, whose output is an `O`. Cheap to clone; dropping it does nothing to the task.
pub struct TaskHandle<O> {
    producer: Producer,
    queue: QueueName,
    id: TaskId,
    enqueued: Option<Enqueued>,
    output: PhantomData<fn() -> O>,
}

impl<O> Clone for TaskHandle<O> {
    fn clone(&self) -> Self {
        let (producer, queue, id) = (self.producer.clone(), self.queue.clone(), self.id.clone());
        Self { producer, queue, id, enqueued: self.enqueued.clone(), output: PhantomData }
    }
}

impl<O> fmt::Debug for TaskHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle")
            .field("queue", &self.queue)
            .field("id", &self.id)
            .field("enqueued", &self.enqueued)
            .finish_non_exhaustive()
    }
}

impl Producer {
    /// A handle to a task that may or may not exist: Redis is not asked.
    #[must_use]
    pub fn task(&self, queue: QueueName, id: TaskId) -> TaskHandle<RawOutput> {
        self.typed_task(queue, id)
    }

    /// As [`task`](Self::task), with an output of a known type.
    #[must_use]
    pub fn typed_task<O>(&self, queue: QueueName, id: TaskId) -> TaskHandle<O> {
        TaskHandle::new(self.clone(), queue, id, None)
    }
}

impl<O> TaskHandle<O> {
    pub(crate) fn new(producer: Producer, queue: QueueName, id: TaskId, enqueued: Option<Enqueued>) -> Self {
        Self { producer, queue, id, enqueued, output: PhantomData }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// What Redis answered to the enqueue: created, or there already (also when the reply of an earlier try of the
    /// same call under the caller's own id was lost). None for a handle made from an id.
    #[must_use]
    pub fn enqueued(&self) -> Option<&Enqueued> {
        self.enqueued.as_ref()
    }

    /// Its record now.
    ///
    /// # Errors
    /// [`Error::NotFound`]; any error of Redis.
    pub async fn record(&self) -> Result<TaskRecord> {
        let found = self.producer.record(&self.queue, &self.id).await?;
        found.ok_or_else(|| self.not_found())
    }

    /// All that is known of it now.
    ///
    /// # Errors
    /// [`Error::NotFound`]; any error of Redis.
    pub async fn detail(&self) -> Result<TaskDetail> {
        let found = self.producer.detail(&self.queue, &self.id).await?;
        found.ok_or_else(|| self.not_found())
    }

    /// Why it is where it is, who acts next and by when.
    ///
    /// # Errors
    /// [`Error::NotFound`]; any error of Redis.
    pub async fn explain(&self) -> Result<Explanation> {
        let told = self.producer.explain(&self.queue, &self.id).await?;
        told.ok_or_else(|| self.not_found())
    }

    /// What the last run that left a checkpoint left for the next, as it lies in Redis; none without.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn checkpoint(&self) -> Result<Option<Vec<u8>>> {
        self.producer.checkpoint(&self.queue, &self.id).await
    }

    /// The same, decoded as what the handler left by `Context::set_checkpoint`.
    ///
    /// # Errors
    /// Any error of Redis; [`Error::Invalid`](crate::Error) naming `checkpoint` when it is of another type.
    pub async fn checkpoint_as<C: DeserializeOwned>(&self) -> Result<Option<C>> {
        let left = self.checkpoint().await?;
        Ok(left.map(|bytes| task::decode("checkpoint", &bytes)).transpose()?)
    }

    /// Aborts it, with its own stop grace. A second abort of a task that is `aborting` only answers.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn abort(&self, reason: &str) -> Result<AbortAnswer> {
        self.abort_with(None, "producer", reason).await
    }

    /// Aborts it: `grace` between TERM and KILL (none = its own), by whom and why for people.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn abort_with(&self, grace: Option<Duration>, by: &str, reason: &str) -> Result<AbortAnswer> {
        let mut request = AbortRequest::new(self.id.clone(), by, reason);
        request.grace = grace;
        Producer::one(self.producer.abort_many(&self.queue, &[request]).await?)
    }

    /// Runs it again after it ended: failures and reclaims start anew, history is kept.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn retry(&self) -> Result<RetryAnswer> {
        self.retry_with(RetryMode::Keep).await
    }

    /// Runs it again from its checkpoint; refused where no run left one.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn resume(&self) -> Result<RetryAnswer> {
        self.retry_with(RetryMode::Resume).await
    }

    /// Runs it again; `mode` says what becomes of its checkpoint.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn retry_with(&self, mode: RetryMode) -> Result<RetryAnswer> {
        let ids = std::slice::from_ref(&self.id);
        Producer::one(self.producer.retry_many_with(&self.queue, ids, mode).await?)
    }

    /// Removes it after it ended.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn delete(&self) -> Result<DeleteAnswer> {
        let ids = std::slice::from_ref(&self.id);
        Producer::one(self.producer.delete_many(&self.queue, ids).await?)
    }

    /// Waits until it has ended, however; `timeout` none = for ever. An outage of Redis is waited out.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::WaitTimeout`]; errors of Redis that no waiting mends.
    pub async fn wait_end(&self, timeout: Option<Duration>) -> Result<Ended> {
        let ended = self.producer.waiters().wait(&self.queue, &self.id);
        let Some(after) = timeout else { return ended.await };
        let late = |_| Error::WaitTimeout { id: self.id.clone(), after };
        tokio::time::timeout(after, ended).await.map_err(late)?
    }

    fn not_found(&self) -> Error {
        Error::NotFound { queue: self.queue.clone(), id: self.id.clone() }
    }
}

impl<O: Output> TaskHandle<O> {
    /// Waits until it has ended, for as long as that takes, and gives its output.
    ///
    /// # Errors
    /// [`Error::TaskFailed`], [`Error::TaskTimedOut`], [`Error::TaskAborted`], [`Error::Discarded`],
    /// [`Error::NotFound`], [`Error::Output`]; errors of Redis that no waiting mends.
    pub async fn wait(&self) -> Result<O> {
        self.output_of(self.wait_end(None).await?)
    }

    /// As [`wait`](Self::wait), for `timeout` at most.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`Error::WaitTimeout`]; the task goes on.
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<O> {
        self.output_of(self.wait_end(Some(timeout)).await?)
    }

    fn output_of(&self, ended: Ended) -> Result<O> {
        let detail = match ended {
            Ended::Kept(detail) => detail,
            Ended::Discarded(state) => {
                return Err(Error::Discarded { queue: self.queue.clone(), id: self.id.clone(), state });
            }
        };
        match detail.record.state {
            TaskState::Failed => Err(Error::TaskFailed(detail)),
            TaskState::TimedOut => Err(Error::TaskTimedOut(detail)),
            TaskState::Aborted => Err(Error::TaskAborted(detail)),
            _ => {
                // A task that completes with nothing keeps nothing: MessagePack nil.
                let output = detail.output.unwrap_or_else(|| vec![0xc0]);
                O::from_output(output).map_err(|reason| Error::Output { id: self.id.clone(), reason })
            }
        }
    }
}
