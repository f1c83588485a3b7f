//! Accepting tasks.

use std::str::FromStr;
use std::time::Duration;

use super::Store;
use crate::body::Body;
use crate::error::{Error, Result};
use crate::limits::batches;
use crate::name::{QueueName, TaskId};
use crate::record;
use crate::script;
use crate::state::TaskState;
use crate::time::{MAX_DURATION, as_ms};
use crate::transport::ScriptCall;

/// When a task may first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// So long after Redis accepts it.
    After(Duration),
    /// At this time, ms since 1970 by Redis's clock.
    At(u64),
}

/// A task to be accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its id: fresh, or the caller's own, by which it may be enqueued again at no harm.
    pub id: TaskId,
    /// All that never changes.
    pub body: Body,
    /// When it may first run.
    pub when: When,
}

/// The state of a task that exists already; its removal is remembered for a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownState {
    /// It is in this state.
    Is(TaskState),
    /// It ended and was removed less than a minute ago.
    Gone,
}

impl FromStr for KnownState {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if text == "gone" { Ok(Self::Gone) } else { text.parse().map(Self::Is) }
    }
}

/// What became of an enqueued task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// It was accepted.
    Created(TaskState),
    /// It had been accepted before: the same id, name, payload and spec.
    Exists(KnownState),
    /// The id belongs to a task of other content.
    Conflict(KnownState),
    /// What Redis holds under this id is not readable: run the doctor.
    Corrupt,
}

/// A task in the form the script takes, encoded once.
struct Encoded<'a> {
    id: &'a TaskId,
    level: &'static str,
    when: String,
    fixed: Vec<u8>,
    spec: Vec<u8>,
}

impl<'a> Encoded<'a> {
    fn new(task: &'a NewTask) -> Result<Self> {
        Ok(Self {
            id: &task.id,
            level: task.body.priority.as_str(),
            when: task.when.to_arg()?,
            fixed: record::fixed(&task.body)?,
            spec: record::spec(&task.body)?,
        })
    }
}

impl When {
    /// Checks the range.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a delay over ten years or a time after the year 9999.
    pub fn validate(self) -> Result<()> {
        match self {
            Self::After(delay) if delay > MAX_DURATION => Err(Error::invalid("delay", "is over ten years")),
            // A score beyond 2^53 would lose its last digits.
            Self::At(ms) if ms > 253_402_300_799_000 => Err(Error::invalid("at", "is after the year 9999")),
            Self::Now | Self::After(_) | Self::At(_) => Ok(()),
        }
    }

    fn to_arg(self) -> Result<String> {
        self.validate()?;
        Ok(match self {
            Self::Now => String::new(),
            Self::After(delay) => format!("+{}", as_ms(delay)),
            Self::At(ms) => format!("@{ms}"),
        })
    }
}

impl Store {
    /// Accepts tasks of one queue, in batches of one script call each. May be repeated: the ids decide.
    ///
    /// # Errors
    /// [`Error::Invalid`] before anything is sent; any error of Redis, with the tasks of earlier batches accepted.
    pub async fn enqueue(&self, queue: &QueueName, tasks: &[NewTask]) -> Result<Vec<Enqueued>> {
        let encoded = tasks.iter().map(Encoded::new).collect::<Result<Vec<_>>>()?;
        let mut answers = Vec::with_capacity(tasks.len());
        for batch in batches(&encoded, |e| e.fixed.len() + e.spec.len() + 200) {
            answers.extend(self.enqueue_batch(queue, batch).await?);
        }
        Ok(answers)
    }

    async fn enqueue_batch(&self, queue: &QueueName, batch: &[Encoded<'_>]) -> Result<Vec<Enqueued>> {
        let full = batch.iter().any(|e| !e.when.is_empty() || !e.spec.is_empty());
        let mut call = ScriptCall::new(&script::ENQUEUE, &self.keys(queue));
        call.push(if full { "full" } else { "short" });
        for e in batch {
            call.push(e.id.as_str());
            call.push(e.level);
            call.push(&e.fixed[..]);
            if full {
                call.push(e.when.as_str());
                call.push(&e.spec[..]);
            }
        }
        let mut reply = self.ok(queue, call).await?;
        reply.number()?;
        reply.for_each(batch.len(), |reply, tag| {
            Ok(match tag {
                "created" => Enqueued::Created(reply.parsed()?),
                "exists" => Enqueued::Exists(reply.parsed()?),
                "conflict" => Enqueued::Conflict(reply.parsed()?),
                "corrupt" => {
                    reply.text()?;
                    Enqueued::Corrupt
                }
                _ => return Err(reply.unknown_tag(tag)),
            })
        })
    }
}
