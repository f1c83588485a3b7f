//! Aborting.

use std::time::Duration;

use super::Store;
use crate::error::Result;
use crate::limits::BATCH_ITEMS;
use crate::name::{QueueName, TaskId};
use crate::script;
use crate::state::TaskState;
use crate::time::as_ms;
use crate::transport::ScriptCall;

/// A request to abort one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbortRequest {
    /// The task.
    pub id: TaskId,
    /// Kept across retries of this request, so that a repeat only answers.
    pub request: String,
    /// Between TERM and KILL; none = the task's own stop grace.
    pub grace: Option<Duration>,
    /// Who asks, for people.
    pub by: String,
    /// Why, for people.
    pub reason: String,
    /// Give up a run whose worker says that the system does not end its processes: the task ends as `failed`
    /// (`abandoned`), on record. Of any other task this is a usual abort.
    pub abandon: bool,
}

impl AbortRequest {
    /// A request with a fresh request id.
    pub fn new(id: TaskId, by: impl Into<String>, reason: impl Into<String>) -> Self {
        let request = uuid::Uuid::new_v4().simple().to_string();
        Self { id, request, grace: None, by: by.into(), reason: reason.into(), abandon: false }
    }
}

/// What an abort did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortAnswer {
    /// The task was ended at once.
    Ended(TaskState),
    /// Its run is asked to end; the task is listed as `aborting` until it has.
    Requested {
        /// When what is left of the run is killed, ms by Redis's clock.
        kill_at_ms: u64,
        /// When the task is ended even if nobody answers, ms by Redis's clock.
        hard_end_ms: u64,
    },
    /// It had ended already: nothing was changed.
    Already(TaskState),
    /// There is no such task.
    NotFound,
    /// The record cannot be read: nothing was changed.
    Corrupt,
}

impl Store {
    /// Aborts tasks of a queue, each on its own.
    ///
    /// # Errors
    /// Any error of Redis; requests of earlier batches stand, and a repeat answers for them.
    pub async fn abort(&self, queue: &QueueName, requests: &[AbortRequest]) -> Result<Vec<AbortAnswer>> {
        let mut answers = Vec::with_capacity(requests.len());
        for batch in requests.chunks(BATCH_ITEMS) {
            answers.extend(self.abort_batch(queue, batch).await?);
        }
        Ok(answers)
    }

    async fn abort_batch(&self, queue: &QueueName, batch: &[AbortRequest]) -> Result<Vec<AbortAnswer>> {
        let mut call = ScriptCall::new(&script::ABORT, &self.keys(queue));
        for request in batch {
            call.push(request.id.as_str());
            call.push(request.request.as_str());
            call.push(request.grace.map(|g| as_ms(g).to_string()).unwrap_or_default());
            call.push(crate::text::head(&request.by, 256));
            call.push(crate::text::head(&request.reason, 1024));
            call.push(if request.abandon { "abandon" } else { "" });
        }
        let mut reply = self.ok(queue, call).await?;
        reply.number()?;
        let mut answers = Vec::new();
        while reply.has_more() {
            let tag = reply.text()?;
            let state = reply.text()?;
            let hard_end_ms = reply.number()?;
            let kill_at_ms = reply.number()?;
            answers.push(match tag.as_str() {
                "ended" => AbortAnswer::Ended(state.parse()?),
                "requested" => AbortAnswer::Requested { kill_at_ms, hard_end_ms },
                "already" => AbortAnswer::Already(state.parse()?),
                "not_found" => AbortAnswer::NotFound,
                "corrupt" => AbortAnswer::Corrupt,
                _ => return Err(reply.unknown_tag(&tag)),
            });
        }
        Ok(answers)
    }
}
