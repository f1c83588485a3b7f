//! The straightest way from a store to Redis: one blocking connection, and one round trip for what comes before a script
//! call, the call, and the look at what it made.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use leasehold_common::script::ALL;
use leasehold_common::transport::{Doorbell, Listener, ScriptCall, Transport};
use leasehold_common::{Error, Result};
use redis::{Cmd, Connection, Pipeline, RedisResult, Value};

use crate::view::{SCRIPT, View};

/// A transport that others can look through.
#[derive(Clone)]
pub struct Direct(Arc<Mutex<Inner>>);

struct Inner {
    connection: Connection,
    prefix: String,
    look_sha: String,
    /// Commands to be sent in front of the next call, packed, and how many they are.
    before: (Arc<Vec<u8>>, usize),
    /// What the next call is to be followed by.
    look: Option<bool>,
    view: Option<View>,
    calls: usize,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").finish_non_exhaustive()
    }
}

impl Direct {
    /// Over this connection, to look at the keys that begin with `prefix`.
    pub fn new(connection: Connection, prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        let direct = Self(Arc::new(Mutex::new(Inner {
            connection,
            prefix,
            look_sha: String::new(),
            before: Default::default(),
            look: None,
            view: None,
            calls: 0,
        })));
        direct.load();
        direct
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads all scripts.
    ///
    /// # Panics
    /// When Redis refuses one.
    pub fn load(&self) {
        let mut inner = self.inner();
        for script in ALL {
            let cmd = redis::cmd("SCRIPT").arg("LOAD").arg(script.source()).clone();
            let sha: String = cmd.query(&mut inner.connection).expect("a script loads");
            assert_eq!(sha, script.sha(), "the hash of {}", script.name);
        }
        let cmd = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).clone();
        inner.look_sha = cmd.query(&mut inner.connection).expect("the view loads");
    }

    /// Goes on over another connection, after a restart of the server.
    pub fn reconnect(&self, connection: Connection) {
        self.inner().connection = connection;
        self.load();
    }

    /// These commands, packed, go in front of the next call.
    pub fn put_before(&self, packed: Arc<Vec<u8>>, count: usize) {
        self.inner().before = (packed, count);
    }

    /// The next call is followed by a look.
    pub fn look_behind(&self, events: bool) {
        self.inner().look = Some(events);
    }

    /// The look behind the last call.
    pub fn take_view(&self) -> Option<View> {
        self.inner().view.take()
    }

    /// How many script calls it has carried since this was asked last.
    pub fn take_calls(&self) -> usize {
        std::mem::take(&mut self.inner().calls)
    }

    /// One command.
    ///
    /// # Errors
    /// Those of Redis.
    pub fn command(&self, cmd: &Cmd) -> RedisResult<Value> {
        cmd.query(&mut self.inner().connection)
    }

    /// Looks now, behind what was to go in front of the next call.
    ///
    /// # Panics
    /// When Redis does not answer.
    pub fn view(&self, events: bool) -> View {
        let mut inner = self.inner();
        let look = inner.look_command(events);
        let mut answers = inner.round_trip(&[look]).expect("Redis answers");
        View::of(answers.pop().expect("one answer").expect("the view can look"))
    }
}

impl Inner {
    fn look_command(&self, events: bool) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.look_sha).arg(0).arg(&self.prefix).arg(u8::from(events));
        cmd
    }

    /// Sends what goes in front and these commands, and reads all their answers.
    fn round_trip(&mut self, commands: &[Cmd]) -> RedisResult<Vec<RedisResult<Value>>> {
        let (before, count) = std::mem::take(&mut self.before);
        let mut packed = Vec::with_capacity(before.len() + 1024);
        packed.extend_from_slice(&before);
        for cmd in commands {
            packed.extend(cmd.get_packed_command());
        }
        self.connection.send_packed_command(&packed)?;
        for _ in 0..count {
            self.connection.recv_response()?;
        }
        Ok(commands.iter().map(|_| self.connection.recv_response()).collect())
    }

    fn call(&mut self, call: &ScriptCall) -> Result<Value> {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(call.script.sha()).arg(call.keys.len()).arg(&call.keys[0]).arg(&call.keys[1]);
        for arg in &call.args {
            cmd.arg(&arg[..]);
        }
        self.calls += 1;
        let mut commands = vec![cmd];
        if let Some(events) = self.look.take() {
            commands.push(self.look_command(events));
        }
        let failed = |error: redis::RedisError| Error::Protocol(format!("{}: {error}", call.script.name));
        let mut answers = self.round_trip(&commands).map_err(failed)?;
        if commands.len() == 2 {
            self.view = Some(View::of(answers.pop().expect("two answers").map_err(failed)?));
        }
        answers.pop().expect("an answer").map_err(failed)
    }
}

impl Transport for Direct {
    fn scripts<'a>(&'a self, calls: &'a [ScriptCall]) -> BoxFuture<'a, Vec<Result<Value>>> {
        async move { calls.iter().map(|call| self.inner().call(call)).collect() }.boxed()
    }

    fn commands<'a>(&'a self, pipeline: &'a Pipeline) -> BoxFuture<'a, Result<Vec<Value>>> {
        async move {
            let answer = pipeline.query(&mut self.inner().connection);
            answer.map_err(|error| Error::Protocol(error.to_string()))
        }
        .boxed()
    }

    fn doorbell(&self) -> BoxFuture<'_, Result<Doorbell>> {
        async { Err(Error::Protocol("nobody waits in a proof".into())) }.boxed()
    }

    fn listener(&self) -> BoxFuture<'_, Result<Listener>> {
        async { Err(Error::Protocol("nobody listens in a proof".into())) }.boxed()
    }

    fn address(&self) -> &'static str {
        "direct"
    }
}
