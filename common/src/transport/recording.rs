//! A transport without a Redis: it accepts tasks and keeps them, for tests of services that enqueue.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use redis::{Pipeline, Value};

use super::{Doorbell, Listener, ScriptCall, Transport};
use crate::body::Body;
use crate::clock::wall_ms;
use crate::error::{Error, Result};
use crate::name::{QueueName, TaskId};
use crate::record::body_of_fixed;
use crate::state::TaskState;
use crate::store::When;

/// A task that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// Its queue.
    pub queue: QueueName,
    /// Its id.
    pub id: TaskId,
    /// All that never changes of it.
    pub body: Body,
    /// When it may first run.
    pub when: When,
}

/// Accepts tasks and keeps them; whatever else it is asked for is refused.
#[derive(Debug, Default)]
pub struct RecordingTransport {
    accepted: Mutex<Vec<(Accepted, TaskState)>>,
}

fn refused<T>(what: &str) -> Result<T> {
    let reason = format!("{what}: a recording producer has no Redis; it takes tasks and keeps them, no more");
    Err(Error::Rejected(reason))
}

impl RecordingTransport {
    fn kept(&self) -> MutexGuard<'_, Vec<(Accepted, TaskState)>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was accepted, in order.
    #[must_use]
    pub fn accepted(&self) -> Vec<Accepted> {
        self.kept().iter().map(|(task, _)| task.clone()).collect()
    }

    /// Forgets what was accepted.
    pub fn clear(&self) {
        self.kept().clear();
    }

    /// What the script would answer where nobody else uses the queue.
    fn enqueue(&self, call: &ScriptCall) -> Result<Value> {
        let junk = || Error::Protocol("a recording producer cannot read its own call".into());
        let queue = queue_of(&call.keys[0]).ok_or_else(junk)?;
        let words = &call.args[2..];
        let fields = if call.args[1] == b"full" { 5 } else { 3 };
        let mut answer = vec![Value::SimpleString("ok".into()), Value::Int(0)];
        for item in words.chunks(fields) {
            let task = accepted(&queue, item).ok_or_else(junk)?;
            let (tag, state) = self.keep(task);
            answer.extend([tag, state.as_str()].map(|text| Value::SimpleString(text.into())));
        }
        Ok(Value::Array(answer))
    }

    fn keep(&self, task: Accepted) -> (&'static str, TaskState) {
        let mut kept = self.kept();
        match kept.iter().find(|(known, _)| (&known.queue, &known.id) == (&task.queue, &task.id)) {
            Some((known, state)) if known.body.digest() == task.body.digest() => ("exists", *state),
            Some((_, state)) => ("conflict", *state),
            None => {
                let state = placed(&task, &kept);
                kept.push((task, state));
                ("created", state)
            }
        }
    }
}

/// Where a task comes that nobody works on, in a queue that nobody else uses: a lane's first one has its turn for good.
fn placed(task: &Accepted, kept: &[(Accepted, TaskState)]) -> TaskState {
    let due = match task.when {
        When::Now => true,
        When::After(delay) => delay < Duration::from_millis(1),
        When::At(ms) => ms <= wall_ms(),
    };
    let has_its_turn = |(known, state): &(Accepted, TaskState)| {
        *state == TaskState::Queued && known.queue == task.queue && known.body.lane == task.body.lane
    };
    match due {
        false => TaskState::Scheduled,
        true if task.body.lane.is_some() && kept.iter().any(has_its_turn) => TaskState::Waiting,
        true => TaskState::Queued,
    }
}

/// The queue of `<namespace>:{<queue>}:config`.
fn queue_of(key: &str) -> Option<QueueName> {
    let (_, rest) = key.split_once('{')?;
    QueueName::new(rest.split_once('}')?.0).ok()
}

fn accepted(queue: &QueueName, item: &[Vec<u8>]) -> Option<Accepted> {
    let text = |at: usize| item.get(at).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let when = match text(3).unwrap_or_default().split_at_checked(1) {
        Some(("+", ms)) => When::After(Duration::from_millis(ms.parse().ok()?)),
        Some(("@", ms)) => When::At(ms.parse().ok()?),
        _ => When::Now,
    };
    let body = body_of_fixed(item.get(2)?)?;
    Some(Accepted { queue: queue.clone(), id: TaskId::new(text(0)?).ok()?, body, when })
}

impl Transport for RecordingTransport {
    fn scripts<'a>(&'a self, calls: &'a [ScriptCall]) -> BoxFuture<'a, Vec<Result<Value>>> {
        let answer = |call: &ScriptCall| match call.script.name {
            "enqueue" => self.enqueue(call),
            other => refused(other),
        };
        ready(calls.iter().map(answer).collect()).boxed()
    }

    fn commands<'a>(&'a self, _: &'a Pipeline) -> BoxFuture<'a, Result<Vec<Value>>> {
        ready(refused("a read")).boxed()
    }

    fn doorbell(&self) -> BoxFuture<'_, Result<Doorbell>> {
        ready(refused("a wake marker")).boxed()
    }

    fn listener(&self) -> BoxFuture<'_, Result<Listener>> {
        ready(refused("a listener")).boxed()
    }

    fn address(&self) -> &'static str {
        "recording"
    }
}
