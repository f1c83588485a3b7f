//! What can go wrong, told by what the caller can do about it.

use std::convert::Infallible;
use std::time::Duration;

use leasehold_common::Error as RedisError;
use leasehold_common::record::TaskDetail;
use leasehold_common::state::TaskState;
use leasehold_common::store::KnownState;
use leasehold_common::time::display_duration;

use crate::{QueueName, TaskId};

/// An error of the producer. [`is_retryable`](Error::is_retryable) and
/// [`outcome_unknown`](Error::outcome_unknown) say what to do next.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's fault: a value outside its accepted range. Nothing was sent to Redis.
    #[error("invalid {field}: {reason}")]
    Invalid {
        /// The field, as the caller names it.
        field: &'static str,
        /// What is accepted instead.
        reason: String,
    },
    /// The id belongs to a task of other content (name, payload or spec). Nothing was changed.
    #[error("task {id} of queue {queue} exists with another name, payload or spec ({})", known(*.state))]
    Conflict {
        /// The queue.
        queue: QueueName,
        /// The id.
        id: TaskId,
        /// The state of the task that has the id.
        state: KnownState,
    },
    /// There is no such task, or none any more.
    #[error("there is no task {id} in queue {queue}")]
    NotFound {
        /// The queue.
        queue: QueueName,
        /// The id.
        id: TaskId,
    },
    /// What Redis holds under this id cannot be read. Nothing was changed.
    #[error("the record of task {id} in queue {queue} cannot be read: run `leasehold doctor`")]
    Corrupt {
        /// The queue.
        queue: QueueName,
        /// The id.
        id: TaskId,
    },
    /// The task waited for has failed.
    #[error("task {} failed: {}", .0.record.id, why(.0))]
    TaskFailed(Box<TaskDetail>),
    /// The task waited for was ended by one of its time bounds.
    #[error("task {} timed out: {}", .0.record.id, why(.0))]
    TaskTimedOut(Box<TaskDetail>),
    /// The task waited for was aborted.
    #[error("task {} was aborted{}", .0.record.id, stopped(.0))]
    TaskAborted(Box<TaskDetail>),
    /// The task waited for has ended and was removed, as its queue's retention says: its output is gone.
    #[error("task {id} of queue {queue} ended ({}) and was removed", .state.map_or("state unknown", TaskState::as_str))]
    Discarded {
        /// The queue.
        queue: QueueName,
        /// The id.
        id: TaskId,
        /// The state it ended in; none when it ended before anybody waited.
        state: Option<TaskState>,
    },
    /// The task has not ended within the time that the caller gave. It goes on.
    #[error("task {id} has not ended within {}", display_duration(*.after))]
    WaitTimeout {
        /// The id.
        id: TaskId,
        /// The time given.
        after: Duration,
    },
    /// The task completed with an output that is not of the expected type. It is never quoted.
    #[error("the output of task {id} is not as expected: {reason}")]
    Output {
        /// The id.
        id: TaskId,
        /// What does not fit.
        reason: String,
    },
    /// Redis did not do it within the deadline, or did not say so: the last attempt failed so.
    #[error("no answer within {}: {last}", display_duration(*.after))]
    Deadline {
        /// The deadline.
        after: Duration,
        /// What the last attempt met; unknown if the outcome of any attempt is.
        last: Box<RedisError>,
    },
    /// Redis, or what lies in it, does not allow it: wrong password, wrong server, data of a newer release.
    #[error(transparent)]
    Redis(RedisError),
    /// The async runtime that carried this call was shut down.
    #[error("the runtime that carried this call was shut down")]
    Closed,
}

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// May the same call succeed later, unchanged?
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Deadline { .. } | Self::WaitTimeout { .. } | Self::Closed => true,
            Self::Redis(error) => error.is_retryable(),
            Self::Invalid { .. }
            | Self::Conflict { .. }
            | Self::NotFound { .. }
            | Self::Corrupt { .. }
            | Self::TaskFailed(_)
            | Self::TaskTimedOut(_)
            | Self::TaskAborted(_)
            | Self::Discarded { .. }
            | Self::Output { .. } => false,
        }
    }

    /// May the call have happened although it failed here? Repeating it is harmless when it names an id.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::Deadline { last, .. } => last.outcome_unknown(),
            Self::Redis(error) => error.outcome_unknown(),
            Self::Closed => true,
            _ => false,
        }
    }

    /// What Redis, or the way to it, said; none for errors that it has no part in.
    #[must_use]
    pub fn redis(&self) -> Option<&RedisError> {
        match self {
            Self::Deadline { last, .. } => Some(last),
            Self::Redis(error) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { field, reason: reason.into() }
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        match error {
            RedisError::Invalid { field, reason } => Self::Invalid { field, reason },
            RedisError::Deadline { after, last } => Self::Deadline { after, last },
            other => Self::Redis(other),
        }
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

fn known(state: KnownState) -> &'static str {
    match state {
        KnownState::Is(state) => state.as_str(),
        KnownState::Gone => "gone",
    }
}

fn why(detail: &TaskDetail) -> String {
    detail.last_failure().map_or_else(
        || detail.record.failure_kind.map_or("no reason kept", |kind| kind.as_str()).to_owned(),
        |failure| format!("{}: {}", failure.kind.as_str(), failure.message),
    )
}

fn stopped(detail: &TaskDetail) -> String {
    let Some(stop) = &detail.record.stop else { return String::new() };
    let by = stop.by.as_deref().filter(|by| !by.is_empty()).map(|by| format!(" by {by}"));
    let reason = stop.reason.as_deref().filter(|r| !r.is_empty()).map(|r| format!(": {r}"));
    by.unwrap_or_default() + &reason.unwrap_or_default()
}
