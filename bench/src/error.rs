//! Why a benchmark ends without figures.

use std::time::Duration;

use leasehold_common::time::display_duration;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value out of its range.
    #[error("invalid {field}: {reason}")]
    Invalid {
        /// The field, as the caller names it.
        field: &'static str,
        /// What is accepted instead.
        reason: String,
    },
    /// It was told to stop.
    #[error("interrupted: there are no figures")]
    Interrupted,
    /// An invariant did not hold after a stretch of work: figures of wrong work are worth nothing.
    #[error("the doctor is not content after {what}:\n{report}")]
    Doctor {
        /// The stretch of work.
        what: &'static str,
        /// What the doctor said.
        report: String,
    },
    /// Work did not end in time.
    #[error("{what} did not end within {}", display_duration(*.limit))]
    Late {
        /// The work.
        what: &'static str,
        /// The time it had.
        limit: Duration,
    },
    /// What was measured contradicts itself.
    #[error("{what}: {why}")]
    Odd {
        /// The measurement.
        what: &'static str,
        /// The contradiction.
        why: String,
    },
    /// Redis, asked by the benchmark itself.
    #[error("Redis says to the benchmark: {0}")]
    Redis(#[from] redis::RedisError),
    /// The protocol.
    #[error(transparent)]
    Protocol(#[from] leasehold_common::Error),
    /// The producer.
    #[error(transparent)]
    Producer(#[from] leasehold_producer::Error),
    /// The worker.
    #[error(transparent)]
    Worker(#[from] leasehold_worker::Error),
    /// The system.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An [`Error::Invalid`].
    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { field, reason: reason.into() }
    }

    /// An [`Error::Odd`].
    pub(crate) fn odd(what: &'static str, why: impl Into<String>) -> Self {
        Self::Odd { what, why: why.into() }
    }
}
