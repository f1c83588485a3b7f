//! How a run says that it has ended.

use std::time::Duration;

use serde::Serialize;

use super::Store;
use super::reply::Reply;
use crate::error::Result;
use crate::limits::batches;
use crate::name::{Incarnation, QueueName, RunId, TaskId};
use crate::record::{FailureDetail, FailureKind, StopCause};
use crate::script;
use crate::state::TaskState;
use crate::time::as_ms;
use crate::transport::ScriptCall;

/// When a failed task is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryAdvice {
    /// By its policy.
    #[default]
    Policy,
    /// Never.
    Fatal,
    /// After this delay, if attempts are left.
    After(Duration),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With a result, MessagePack.
    Completed(Vec<u8>),
    /// With a failure: spends one of `max_attempts`.
    Failed {
        /// Its class.
        kind: FailureKind,
        /// For people.
        message: String,
        /// When to try again.
        retry: RetryAdvice,
        /// Exit code or signal.
        detail: FailureDetail,
    },
    /// It obeyed a stop, or was killed for it.
    Stopped {
        /// The cause that the worker acted on; the record's own wins.
        cause: StopCause,
        /// For people.
        message: String,
        /// Exit code or signal.
        detail: FailureDetail,
    },
    /// It asks to be started again later, at no cost.
    Snoozed(Duration),
    /// Handed back by a stopping worker, at the front and at no cost.
    Released,
    /// The worker does not know this task name: handed back with growing delay at no cost.
    Unknown {
        /// The name.
        name: String,
    },
}

/// The end of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// The task.
    pub id: TaskId,
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub outcome: Outcome,
    /// Its work was over before any stop reached it. A bound of time that has passed since, during cleanups or while Redis
    /// was away, does not change how it ended.
    pub before_stop: bool,
}

/// What Redis made of a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishAnswer {
    /// Accepted: the task is now in this state.
    Accepted(TaskState),
    /// It had been accepted before, with this state.
    Repeated(TaskState),
    /// The task ended and was removed: accepted before if this is a repeat, else the run had been lost.
    Gone,
    /// The task belongs to another run: nothing was changed.
    Lost,
    /// The record cannot be read: nothing was changed.
    Corrupt,
}

impl Finish {
    fn size(&self) -> usize {
        100 + match &self.outcome {
            Outcome::Completed(output) => output.len(),
            Outcome::Failed { message, .. } | Outcome::Stopped { message, .. } => message.len(),
            Outcome::Unknown { name } => name.len(),
            Outcome::Snoozed(_) | Outcome::Released => 0,
        }
    }

    fn push_to(&self, call: &mut ScriptCall) {
        let b = self.before_stop;
        let (outcome, data) = match &self.outcome {
            Outcome::Completed(output) => ("completed", output.clone()),
            Outcome::Failed { kind, message, retry, detail } => {
                let delay = match retry {
                    RetryAdvice::Policy => String::new(),
                    RetryAdvice::Fatal => "fatal".to_owned(),
                    RetryAdvice::After(delay) => as_ms(*delay).to_string(),
                };
                ("failed", Data { k: kind.as_str(), d: delay, m: message, x: said(detail), b }.pack())
            }
            Outcome::Stopped { cause, message, detail } => {
                ("stopped", Data { k: cause.as_str(), m: message, x: said(detail), ..Data::default() }.pack())
            }
            Outcome::Snoozed(delay) => {
                ("snoozed", Data { d: as_ms(*delay).to_string(), b, ..Data::default() }.pack())
            }
            Outcome::Released => ("released", Vec::new()),
            Outcome::Unknown { name } => ("unknown", Data { m: name, b, ..Data::default() }.pack()),
        };
        call.push(self.id.as_str());
        call.push(self.run.as_str());
        call.push(outcome);
        call.push(data);
    }
}

/// What a run says of an end that is no result. Fields that say nothing are left out.
#[derive(Serialize, Default)]
struct Data<'a> {
    /// Kind of the failure, or cause of the stop.
    #[serde(skip_serializing_if = "str::is_empty")]
    k: &'a str,
    /// Delay in ms, or `fatal`.
    #[serde(skip_serializing_if = "String::is_empty")]
    d: String,
    /// Message, or the name that is unknown.
    #[serde(skip_serializing_if = "str::is_empty")]
    m: &'a str,
    /// Exit code or signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<&'a FailureDetail>,
    /// The work was over before any stop reached it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    b: bool,
}

impl Data<'_> {
    fn pack(&self) -> Vec<u8> {
        // Text and numbers always encode.
        rmp_serde::to_vec_named(self).unwrap_or_default()
    }
}

fn said(detail: &FailureDetail) -> Option<&FailureDetail> {
    (*detail != FailureDetail::default()).then_some(detail)
}

pub(super) fn finish_call(
    store: &Store,
    queue: &QueueName,
    incarnation: &Incarnation,
    ends: &[Finish],
) -> ScriptCall {
    let mut call = ScriptCall::new(&script::FINISH, &store.keys(queue)).arg(incarnation.as_str());
    for end in ends {
        end.push_to(&mut call);
    }
    call
}

pub(super) fn finish_answers(mut reply: Reply, ends: usize) -> Result<Vec<FinishAnswer>> {
    reply.number()?;
    reply.for_each(ends, |reply, tag| {
        let state = reply.text()?;
        Ok(match tag {
            "ok" => FinishAnswer::Accepted(state.parse()?),
            "repeat" => FinishAnswer::Repeated(state.parse()?),
            "gone" => FinishAnswer::Gone,
            "lost" => FinishAnswer::Lost,
            "corrupt" => FinishAnswer::Corrupt,
            _ => return Err(reply.unknown_tag(tag)),
        })
    })
}

impl Store {
    /// Ends runs, in batches of one call each. May be repeated.
    ///
    /// # Errors
    /// Any error of Redis; ends of earlier batches stand, and a repeat answers for them.
    pub async fn finish(
        &self,
        queue: &QueueName,
        incarnation: &Incarnation,
        ends: &[Finish],
    ) -> Result<Vec<FinishAnswer>> {
        let mut answers = Vec::with_capacity(ends.len());
        for batch in batches(ends, Finish::size) {
            let reply = self.ok(queue, finish_call(self, queue, incarnation, batch)).await?;
            answers.extend(finish_answers(reply, batch.len())?);
        }
        Ok(answers)
    }
}

/// How many of `ends` fit into one call, at least one.
#[must_use]
pub fn one_call(ends: &[Finish]) -> usize {
    batches(ends, Finish::size).first().map_or(0, |batch| batch.len())
}
