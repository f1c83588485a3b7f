//! What a handler says when it fails, and what a worker says when it cannot start.

use std::fmt;
use std::time::Duration;

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
            Self::System(_) | Self::Broken => true,
        }
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
