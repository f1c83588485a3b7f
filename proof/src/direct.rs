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
    /// The next call is not carried.
    held: Option<HeldCall>,
}

/// What becomes of a call that is not carried.
enum HeldCall {
    /// It is kept here.
    Kept(Option<ScriptCall>),
    /// It is answered so.
    Answered(Result<Value>),
}

/// One of many calls of a round trip: what goes in front, packed, with how many commands; the call, if there is one.
pub struct Shot {
    /// Commands in front.
    pub before: (Vec<u8>, usize),
    /// The call.
    pub call: Option<ScriptCall>,
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
            held: None,
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

    /// The script call that `make` begins with, without making it.
    pub fn caught(&self, make: impl FnOnce()) -> Option<ScriptCall> {
        self.inner().held = Some(HeldCall::Kept(None));
        make();
        match self.inner().held.take() {
            Some(HeldCall::Kept(call)) => call,
            _ => None,
        }
    }

    /// The next call is answered so, and not carried.
    pub fn answer_next(&self, answer: Result<Value>) {
        self.inner().held = Some(HeldCall::Answered(answer));
    }

    /// Many calls in one round trip, each behind what goes in front of it, and followed by a look: the answers and views.
    ///
    /// # Panics
    /// When Redis does not answer.
    pub fn volley(&self, shots: &[Shot]) -> Vec<(Option<Result<Value>>, View)> {
        let mut inner = self.inner();
        let look = inner.look_command(true).get_packed_command();
        let mut packed = Vec::with_capacity(shots.iter().map(|shot| shot.before.0.len() + 1024).sum());
        for shot in shots {
            packed.extend_from_slice(&shot.before.0);
            packed.extend(shot.call.iter().flat_map(|call| evalsha(call).get_packed_command()));
            packed.extend_from_slice(&look);
        }
        inner.connection.send_packed_command(&packed).expect("Redis takes commands");
        let mut read = |shot: &Shot| {
            for _ in 0..shot.before.1 {
                inner.connection.recv_response().expect("a state is put there");
            }
            let answer = shot
                .call
                .as_ref()
                .map(|call| inner.connection.recv_response().map_err(|error| failed(call, &error)));
            (answer, View::of(inner.connection.recv_response().expect("the view can look")))
        };
        shots.iter().map(&mut read).collect()
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
        match self.held.take() {
            Some(HeldCall::Answered(answer)) => return answer,
            Some(HeldCall::Kept(_)) => {
                self.held = Some(HeldCall::Kept(Some(call.clone())));
                return Err(Error::Protocol("the call is kept".into()));
            }
            None => {}
        }
        let mut commands = vec![evalsha(call)];
        if let Some(events) = self.look.take() {
            commands.push(self.look_command(events));
        }
        let mut answers = self.round_trip(&commands).map_err(|error| failed(call, &error))?;
        if commands.len() == 2 {
            let view = answers.pop().expect("two answers").map_err(|error| failed(call, &error))?;
            self.view = Some(View::of(view));
        }
        answers.pop().expect("an answer").map_err(|error| failed(call, &error))
    }
}

fn evalsha(call: &ScriptCall) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(call.script.sha()).arg(call.keys.len()).arg(&call.keys[0]).arg(&call.keys[1]);
    for arg in &call.args {
        cmd.arg(&arg[..]);
    }
    cmd
}

fn failed(call: &ScriptCall, error: &redis::RedisError) -> Error {
    Error::Protocol(format!("{}: {error}", call.script.name))
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
