//! One call for `dev` and `demo`: a Redis, whichever.

use std::path::PathBuf;

use super::env::{Env, GivenUrl};
use super::error::Error;
use super::reporter::Reporter;
use super::server::PrivateRedis;
use super::spawn::Manner;
use super::stop::Stopped;

/// Where a private server would keep its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this folder, for good: `dev`.
    Folder(PathBuf),
    /// In a new folder that goes with the server: `demo`.
    Temporary,
    /// Nowhere: it keeps all in memory, on a port: `bench`.
    Memory,
}

/// A Redis to work with.
#[derive(Debug)]
pub(crate) enum Running {
    /// The user's own; not checked here, and never stopped.
    Given(GivenUrl),
    /// A private one that answers.
    Private(PrivateRedis),
}

/// The Redis that the environment names, or else a private one at `place`.
pub(crate) fn provide(place: &Place, env: &Env, reporter: &dyn Reporter) -> Result<Running, Error> {
    if let Some(given) = &env.given {
        return Ok(Running::Given(given.clone()));
    }
    match place {
        Place::Folder(folder) => PrivateRedis::start(folder, env, reporter),
        Place::Temporary => PrivateRedis::start_temporary(Manner::Durable, env, reporter),
        Place::Memory => PrivateRedis::start_temporary(Manner::Fleeting, env, reporter),
    }
    .map(Running::Private)
}

impl Running {
    /// The URL to connect to; it may hold a password.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Given(given) => given.url.clone(),
            Self::Private(redis) => redis.url(),
        }
    }

    /// One line for people, without any password.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Given(given) => format!("the Redis that {} names", given.variable),
            Self::Private(redis) => redis.describe(),
        }
    }

    /// Ends a private server for everyone who uses it; leaves a given one alone.
    pub(crate) fn stop(self, reporter: &dyn Reporter) -> Result<Stopped, Error> {
        match self {
            Self::Given(_) => Ok(Stopped::NotRunning),
            Self::Private(redis) => redis.stop(reporter),
        }
    }
}
