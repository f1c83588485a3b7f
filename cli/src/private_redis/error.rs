//! What can go wrong between "no Redis" and "a Redis that answers".

use std::io;
use std::path::PathBuf;

use super::version::{FLOOR, Version};

/// Why there is no private Redis, or why it was not ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Every step of the search was skipped; each has said why to the reporter.
    #[error(
        "no Redis or Valkey server of version {FLOOR} or later was found or fetched: install redis or valkey, \
         set REDIS_URL, or run `docker compose up`"
    )]
    NoServer,

    /// A file, socket or process operation failed.
    #[error("{action}")]
    Io {
        /// What was being done, as "could not ...".
        action: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },

    /// Another process kept the lock of the folder for too long.
    #[error("another leasehold process is still starting or stopping the Redis in {}: end it, then try again", .folder.display())]
    Busy {
        /// The data folder.
        folder: PathBuf,
    },

    /// The server was started but did not become usable; it was ended again.
    #[error("{server} in {}: {why}{log}", .folder.display())]
    NotStarted {
        /// The server binary.
        server: String,
        /// The data folder.
        folder: PathBuf,
        /// What it did instead of answering.
        why: String,
        /// The last lines of its log with a heading, or nothing.
        log: String,
    },

    /// A server holds the folder but does not answer, so a second one would corrupt its data.
    #[error(
        "the Redis in {} runs but does not answer ({}): `leasehold dev stop` ends it",
        .folder.display(),
        .pid.map_or_else(|| String::from("process unknown"), |pid| format!("process {pid}"))
    )]
    Unresponsive {
        /// The data folder.
        folder: PathBuf,
        /// The process that the record names.
        pid: Option<u32>,
    },

    /// Something uses the folder that this module did not start, so it is neither used nor ended.
    #[error("the Redis in {} is left alone: {why}", .folder.display())]
    NotOurs {
        /// The data folder.
        folder: PathBuf,
        /// What does not match.
        why: String,
    },

    /// The server answers but is too old.
    #[error("the server at {place} is version {version}, and Leasehold needs {FLOOR} or later")]
    BelowFloor {
        /// The address of the server.
        place: String,
        /// The Redis version it is compatible with.
        version: Version,
    },

    /// The server outlived both signals.
    #[error("process {pid} did not end after SIGTERM and SIGKILL")]
    NotGone {
        /// The process of the server.
        pid: u32,
    },
}

/// Says what was being done when an [`io::Error`] happened.
pub(super) trait Doing<T> {
    /// Turns the error into [`Error::Io`] with `action`, a fragment such as "could not open x".
    fn doing(self, action: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Io { action: action(), source: source.into() })
    }
}
