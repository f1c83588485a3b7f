//! What a handler says when it fails, and what a worker says when it cannot start.

use std::fmt;
use std::time::Duration;

use leasehold_common::name::WorkerName;
use leasehold_common::store::WorkerInfo;
use leasehold_common::time::display_duration;

use crate::registry::ENTRY_TTL;

/// Why a worker cannot start, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is out of its range, or Redis cannot be used.
    #[error(transparent)]
    Protocol(#[from] leasehold_common::Error),
    /// Commands are allowed but the guard process cannot be started.
    #[error("cannot start the guard that commands need")]
    Guard(#[from] crate::guard::GuardError),
    /// The system refuses a thread or a runtime.
    #[error("the system refuses what a worker needs")]
    System(#[source] std::io::Error),
    /// Another worker of that name lives, or its death cannot be proved from here. Nothing was started.
    #[error("the name {name} is taken: {}", holder(.by.as_deref()))]
    NameTaken {
        /// The name.
        name: WorkerName,
        /// Who holds it; none when it is being taken just now.
        by: Option<Box<WorkerInfo>>,
    },
    /// Another worker took this one's name while it gave no sign of life (frozen, or cut off): it handed back its runs.
    #[error(
        "another worker took the name {name} while this one gave no sign of life: it has stopped; start it again, \
         under another name if the other is to stay"
    )]
    Ousted {
        /// The name.
        name: WorkerName,
    },
    /// A part of the worker panicked: its leases lapse, and its tasks go to other workers.
    #[error("a part of the worker broke (a defect of leasehold-worker; see the log): start it again")]
    Broken,
}

impl Error {
    /// May the same start succeed later, unchanged?
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Protocol(e) => e.is_retryable(),
            Self::Guard(_) => false,
            Self::NameTaken { .. } | Self::Ousted { .. } | Self::System(_) | Self::Broken => true,
        }
    }
}

/// Who has a name, and what to do about it.
fn holder(by: Option<&WorkerInfo>) -> String {
    let ttl = display_duration(ENTRY_TTL);
    match by {
        Some(WorkerInfo { host, pid, .. }) => format!(
            "a worker of that name lives on host {host} (pid {pid}); give this one another name, or stop that one; \
             if it is gone, wait until its registry entry lapses, {ttl} after its last sign of life"
        ),
        None => format!(
            "another worker is taking it, or holds it without a registry entry; give this one another name, or try \
             again in {ttl}"
        ),
    }
}

/// How a handler failed. Any error that `?` returns becomes a failure that is retried by the task's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError {
    pub(crate) message: String,
    pub(crate) then: Then,
}

/// What follows a handler's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Retry,
    RetryIn(Duration),
    Fail,
    Snooze(Duration),
}

impl TaskError {
    /// A failure that is retried by the task's policy.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), then: Then::Retry }
    }

    /// A failure that ends the task for good.
    pub fn fatal(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), then: Then::Fail }
    }

    /// A failure that is retried after `delay`, if attempts are left.
    pub fn retry_in(delay: Duration, message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), then: Then::RetryIn(delay) }
    }

    /// No failure: run me again after `delay`. Spends no attempt.
    #[must_use]
    pub fn snooze(delay: Duration) -> Self {
        Self { message: String::new(), then: Then::Snooze(delay) }
    }
}

impl<E: std::error::Error> From<E> for TaskError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self { message, then: Then::Retry }
    }
}

#[cfg(test)]
mod tests {
    use super::{TaskError, Then};

    #[test]
    fn any_error_is_a_retryable_failure_with_its_causes() {
        let parse = "x".parse::<u8>().map_err(TaskError::from).unwrap_err();
        assert_eq!(parse.then, Then::Retry);
        assert!(parse.message.contains("invalid digit"));
    }
}
