//! How calls travel to Redis: one trait, the real transport, and two for tests: one injects faults, one keeps tasks.

mod bell;
mod faulty;
mod listener;
mod real;
mod recording;

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use redis::{Cmd, Pipeline, Value};

pub use bell::Doorbell;
pub use faulty::{Fault, FaultyTransport};
pub use listener::{Listener, Push};
pub use real::RedisTransport;
pub use recording::{Accepted, RecordingTransport};

use crate::error::Result;
use crate::keys::QueueKeys;
use crate::script::ScriptSpec;

/// One call of a script.
#[derive(Debug, Clone)]
pub struct ScriptCall {
    /// Which script.
    pub script: &'static ScriptSpec,
    /// `Q:config` and `Q:never`.
    pub keys: [String; 2],
    /// Its arguments.
    pub args: Vec<Vec<u8>>,
}

impl ScriptCall {
    /// A call on a queue; the first argument of every script is the format version.
    #[must_use]
    pub fn new(script: &'static ScriptSpec, keys: &QueueKeys) -> Self {
        Self {
            script,
            keys: [keys.config(), keys.never()],
            args: vec![crate::FORMAT.to_string().into_bytes()],
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<Vec<u8>>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// As Redis takes it.
    pub(crate) fn command(&self) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(self.script.sha()).arg(self.keys.len()).arg(&self.keys[0]).arg(&self.keys[1]);
        for arg in &self.args {
            cmd.arg(&arg[..]);
        }
        cmd
    }

    /// Adds an argument in place.
    pub fn push(&mut self, arg: impl Into<Vec<u8>>) {
        self.args.push(arg.into());
    }
}

/// Carries calls to Redis. Each result is one answer or one classified error.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Runs script calls in one round trip, each on its own: no call relies on the order of two.
    fn scripts<'a>(&'a self, calls: &'a [ScriptCall]) -> BoxFuture<'a, Vec<Result<Value>>>;

    /// Runs plain commands in one round trip.
    fn commands<'a>(&'a self, pipeline: &'a Pipeline) -> BoxFuture<'a, Result<Vec<Value>>>;

    /// A connection of its own for blocking on wake markers.
    fn doorbell(&self) -> BoxFuture<'_, Result<Doorbell>>;

    /// A connection of its own for what is published.
    fn listener(&self) -> BoxFuture<'_, Result<Listener>>;

    /// The address, without its password.
    fn address(&self) -> &str;
}

/// How to reach Redis.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// The longest that a connection may take to be made. Defaults to 3 s.
    pub connect_timeout: Duration,
    /// The longest that an answer may take. A paused Redis is noticed so. Defaults to 5 s.
    pub response_timeout: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(3), response_timeout: Duration::from_secs(5) }
    }
}
