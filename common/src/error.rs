//! What can go wrong, told by what the caller can do about it.

use std::time::Duration;

/// An error of the protocol layer. [`is_retryable`](Error::is_retryable) and
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
    /// Redis cannot be reached. Nothing was sent.
    #[error("cannot reach Redis at {url}: {reason}")]
    Unreachable {
        /// The address, without its password.
        url: String,
        /// What the connection attempt said.
        reason: String,
    },
    /// Redis answered but refused to do it for now (loading, read-only, busy, failing over). Nothing was done.
    #[error("Redis refused for now: {reason}")]
    RetryLater {
        /// Redis's own words.
        reason: String,
    },
    /// Redis is over its `maxmemory`. Nothing was done; running tasks go on and drain.
    #[error("Redis is full (maxmemory): {reason}")]
    StorageFull {
        /// Redis's own words.
        reason: String,
    },
    /// The reply was lost: the call may or may not have happened. Every call of this crate may be repeated.
    #[error("the answer of Redis was lost: {reason}")]
    OutcomeUnknown {
        /// What broke the connection.
        reason: String,
    },
    /// No answer within the deadline: the last attempts failed so.
    #[error("no answer within {}: {last}", crate::time::display_duration(*.after))]
    Deadline {
        /// The deadline.
        after: Duration,
        /// The last attempt's error.
        last: Box<Self>,
    },
    /// The queue, or a record in it, was written by a newer release; or by one before the first format that is read.
    #[error("the data of {what} has format {found}, this release reads {known}: {}", remedy(*found, *known))]
    NewerFormat {
        /// The queue or key.
        what: String,
        /// The version found.
        found: u32,
        /// The version that this release reads.
        known: u32,
    },
    /// A key holds something that Leasehold never puts there. Nothing was changed.
    #[error("the Redis key {key} holds something that is not Leasehold's: run `leasehold doctor`")]
    ForeignData {
        /// The key.
        key: String,
    },
    /// Redis's answer does not follow the protocol: a bug, or a foreign server.
    #[error("unexpected answer of Redis: {0}")]
    Protocol(String),
    /// Redis rejects this client: wrong password, missing permission, too old.
    #[error("Redis rejects this client: {0}")]
    Rejected(String),
}

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is to be done about data of another format.
fn remedy(found: u32, known: u32) -> &'static str {
    if found > known {
        "upgrade this process"
    } else {
        "it is left as it is, and no release converts it: use another queue or namespace"
    }
}

impl Error {
    /// May the same call succeed later, unchanged?
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::RetryLater { .. }
            | Self::StorageFull { .. }
            | Self::OutcomeUnknown { .. }
            | Self::Deadline { .. } => true,
            Self::Invalid { .. }
            | Self::NewerFormat { .. }
            | Self::ForeignData { .. }
            | Self::Protocol(_)
            | Self::Rejected(_) => false,
        }
    }

    /// May the call have happened although it failed here?
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::OutcomeUnknown { .. } => true,
            Self::Deadline { last, .. } => last.outcome_unknown(),
            _ => false,
        }
    }

    /// An [`Error::Invalid`].
    pub fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { field, reason: reason.into() }
    }

    /// Classes of reliability: by the error code that Redis puts first.
    pub(crate) fn from_redis(error: &redis::RedisError, url: &str) -> Self {
        let reason = error.to_string();
        if error.is_connection_refusal() {
            return Self::Unreachable { url: url.to_owned(), reason };
        }
        match error.kind() {
            redis::ErrorKind::AuthenticationFailed
            | redis::ErrorKind::InvalidClientConfig
            | redis::ErrorKind::RESP3NotSupported => return Self::Rejected(reason),
            _ => {}
        }
        match error.code() {
            Some(code) => Self::from_code(code, reason),
            None => Self::OutcomeUnknown { reason },
        }
    }

    /// The class of a server error that begins with `code`.
    pub(crate) fn from_code(code: &str, reason: String) -> Self {
        match code {
            "OOM" => Self::StorageFull { reason },
            "LOADING" | "BUSY" | "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK"
            | "NOREPLICAS" | "MISCONF" | "UNBLOCKED" | "NOGROUP" | "NOSCRIPT" | "UNKILLABLE" => {
                Self::RetryLater { reason }
            }
            "NOAUTH" | "NOPERM" | "WRONGPASS" => Self::Rejected(reason),
            _ => Self::Protocol(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn refusals_are_retryable_and_certain() {
        for code in ["LOADING", "READONLY", "MISCONF", "BUSY", "TRYAGAIN", "NOREPLICAS", "OOM"] {
            let error = Error::from_code(code, String::new());
            assert!(error.is_retryable(), "{code}");
            assert!(!error.outcome_unknown(), "{code}");
        }
    }

    #[test]
    fn a_lost_reply_is_unknown_also_behind_a_deadline() {
        let lost = Error::OutcomeUnknown { reason: String::new() };
        let late = Error::Deadline { after: std::time::Duration::from_secs(5), last: Box::new(lost) };
        assert!(late.outcome_unknown() && late.is_retryable());
    }

    #[test]
    fn rights_and_bugs_are_not_retried() {
        for code in ["NOAUTH", "NOPERM", "WRONGTYPE", "ERR"] {
            assert!(!Error::from_code(code, String::new()).is_retryable(), "{code}");
        }
    }
}
