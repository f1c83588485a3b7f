//! What a person does with ended tasks: run them again, or remove them.

use super::Store;
use super::reply::Reply;
use crate::error::Result;
use crate::limits::BATCH_ITEMS;
use crate::name::{QueueName, TaskId};
use crate::script::{self, ScriptSpec};
use crate::state::TaskState;
use crate::transport::ScriptCall;

/// What becomes of a task's checkpoint when it is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryMode {
    /// It stays, if there is one.
    #[default]
    Keep,
    /// It is dropped: the task begins anew.
    Fresh,
    /// Without one the retry is refused.
    Resume,
}

/// What a retry did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAnswer {
    /// It is queued again, or was by an earlier try of this request: its state now.
    Retried(TaskState),
    /// It has changed since the caller looked: look again.
    Changed(TaskState),
    /// It has not ended.
    Live(TaskState),
    /// No run of it left a checkpoint to resume from: nothing was changed.
    NoCheckpoint(TaskState),
    /// There is no such task.
    NotFound,
    /// The record cannot be read: nothing was changed.
    Corrupt,
}

/// What a delete did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteAnswer {
    /// It is gone.
    Deleted,
    /// It has changed since the caller looked: look again.
    Changed(TaskState),
    /// It has not ended: abort it first.
    Live(TaskState),
    /// There is no such task.
    NotFound,
    /// The record cannot be read: nothing was changed.
    Corrupt,
}

impl Store {
    /// Runs ended tasks again, each as the caller saw it (`rev`).
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn retry(&self, queue: &QueueName, ends: &[(TaskId, u64)]) -> Result<Vec<RetryAnswer>> {
        self.retry_with(queue, ends, RetryMode::Keep).await
    }

    /// The same; `mode` says what becomes of their checkpoints.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn retry_with(
        &self,
        queue: &QueueName,
        ends: &[(TaskId, u64)],
        mode: RetryMode,
    ) -> Result<Vec<RetryAnswer>> {
        let mode = match mode {
            RetryMode::Keep => "keep",
            RetryMode::Fresh => "fresh",
            RetryMode::Resume => "resume",
        };
        let mut answers = Vec::with_capacity(ends.len());
        for batch in ends.chunks(BATCH_ITEMS) {
            let mut reply = self.by_rev(queue, &script::RETRY, batch, Some(mode)).await?;
            while reply.has_more() {
                let (tag, state) = (reply.text()?, reply.text()?);
                answers.push(match tag.as_str() {
                    "retried" => RetryAnswer::Retried(state.parse()?),
                    "changed" => RetryAnswer::Changed(state.parse()?),
                    "live" => RetryAnswer::Live(state.parse()?),
                    "no_checkpoint" => RetryAnswer::NoCheckpoint(state.parse()?),
                    "not_found" => RetryAnswer::NotFound,
                    "corrupt" => RetryAnswer::Corrupt,
                    _ => return Err(reply.unknown_tag(&tag)),
                });
            }
        }
        Ok(answers)
    }

    /// Removes ended tasks, each as the caller saw it (`rev`).
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn delete(&self, queue: &QueueName, ends: &[(TaskId, u64)]) -> Result<Vec<DeleteAnswer>> {
        let mut answers = Vec::with_capacity(ends.len());
        for batch in ends.chunks(BATCH_ITEMS) {
            let mut reply = self.by_rev(queue, &script::DELETE, batch, None).await?;
            while reply.has_more() {
                let (tag, state) = (reply.text()?, reply.text()?);
                answers.push(match tag.as_str() {
                    "deleted" => DeleteAnswer::Deleted,
                    "changed" => DeleteAnswer::Changed(state.parse()?),
                    "live" => DeleteAnswer::Live(state.parse()?),
                    "not_found" => DeleteAnswer::NotFound,
                    "corrupt" => DeleteAnswer::Corrupt,
                    _ => return Err(reply.unknown_tag(&tag)),
                });
            }
        }
        Ok(answers)
    }

    async fn by_rev(
        &self,
        queue: &QueueName,
        script: &'static ScriptSpec,
        ends: &[(TaskId, u64)],
        mode: Option<&'static str>,
    ) -> Result<Reply> {
        let mut call = ScriptCall::new(script, &self.keys(queue));
        for (id, rev) in ends {
            call.push(id.as_str());
            call.push(rev.to_string());
            if let Some(mode) = mode {
                call.push(mode);
            }
        }
        let mut reply = self.ok(queue, call).await?;
        reply.number()?;
        Ok(reply)
    }
}
