//! Why a command of `leasehold` fails, for people: what, why, and what to do next.

use std::fmt::Display;

use leasehold_common::Error as Protocol;
use leasehold_common::text::printable_lines;

use crate::exit::Exit;
use crate::private_redis;

/// The end of a command that did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

/// Short for results of this binary.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure with a code of its own.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// A wrong value, told as `invalid <field>: <reason>`.
    pub(crate) fn usage(field: &str, reason: impl Display) -> Self {
        Self::new(Exit::Usage, format!("invalid {field}: {reason}"))
    }

    /// Something that is not there.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, message)
    }

    /// A failure with code 1.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// An operation on a file or a process that failed.
    pub(crate) fn io(action: impl Display, error: &std::io::Error) -> Self {
        Self::failed(format!("{action}: {error}"))
    }

    /// Nobody reads the output any more: an end without a word.
    pub(crate) fn closed() -> Self {
        Self::new(Exit::Success, "")
    }

    /// Adds what to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Its exit code.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether it is [`Failure::closed`].
    pub(crate) fn is_closed(&self) -> bool {
        self.message.is_empty()
    }

    /// All of it, safe for a terminal; empty for [`Failure::closed`].
    pub(crate) fn text(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("\n  {hint}")).unwrap_or_default();
        printable_lines(&format!("{}{hint}", self.message))
    }
}

impl From<Protocol> for Failure {
    fn from(error: Protocol) -> Self {
        let message = error.to_string();
        match error {
            Protocol::Invalid { .. } => Self::new(Exit::Usage, message),
            Protocol::Unreachable { .. } => Self::new(Exit::Unreachable, message)
                .hint("is it running? `leasehold dev` starts one here; --redis-url or LEASEHOLD_REDIS_URL names another"),
            Protocol::OutcomeUnknown { .. } => Self::new(Exit::Unreachable, message)
                .hint("it may have been done: look, or repeat it, which does no harm with the same --id"),
            Protocol::Deadline { .. } | Protocol::RetryLater { .. } => {
                Self::new(Exit::Unreachable, message).hint("try again in a moment")
            }
            Protocol::StorageFull { .. } => Self::new(Exit::Unreachable, message)
                .hint("raise maxmemory, or delete ended tasks; what is queued goes on running"),
            _ => Self::failed(message),
        }
    }
}

impl From<private_redis::Error> for Failure {
    fn from(error: private_redis::Error) -> Self {
        Self::failed(chain(&error))
    }
}

impl From<leasehold_producer::Error> for Failure {
    fn from(error: leasehold_producer::Error) -> Self {
        use leasehold_producer::Error as E;
        let message = error.to_string();
        match error {
            E::Invalid { .. } => Self::new(Exit::Usage, message),
            E::NotFound { .. } | E::Discarded { state: None, .. } => Self::not_found(message),
            E::Discarded { state: Some(state), .. } => Self::new(Exit::of_state(state), message),
            E::Conflict { .. } => Self::failed(message).hint("nothing was changed; choose another --id"),
            E::WaitTimeout { .. } => Self::new(Exit::StillGoing, message).hint("it goes on"),
            E::Deadline { last, .. } => {
                let told = Self::from(*last);
                Self { message, ..told }
            }
            E::Redis(error) => Self::from(error),
            E::TaskTimedOut(_) => Self::new(Exit::TimedOut, message),
            E::TaskAborted(_) => Self::new(Exit::Aborted, message),
            _ => Self::failed(message),
        }
    }
}

impl From<leasehold_worker::Error> for Failure {
    fn from(error: leasehold_worker::Error) -> Self {
        match error {
            leasehold_worker::Error::Protocol(error) => Self::from(error),
            error @ leasehold_worker::Error::NameTaken { .. } => Self::failed(error.to_string()).hint(
                "nothing was started; --name NAME gives it another, `leasehold workers` lists who lives",
            ),
            other => Self::failed(chain(&other)),
        }
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    message
}
