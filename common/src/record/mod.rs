//! A task's record: its state at one moment, decoded from what the scripts keep.

mod wire;

use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::error::{Error, Result};
use crate::name::{Incarnation, RunId, TaskId, WorkerName};
use crate::policy::{Policy, Priority};
use crate::state::TaskState;

pub(crate) use wire::fixed;

/// Why a task failed, timed out, or last lost a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The handler returned an error or panicked.
    Error,
    /// The command exited with a code that is no success.
    ExitCode,
    /// The command was ended by a signal.
    Signal,
    /// The worker died under it, for the last time that it may.
    LeaseExpired,
    /// The result is no valid one (too large).
    InvalidResult,
    /// It cannot run: unreadable payload, unknown task name, missing body, command not allowed.
    Rejected,
    /// One run took longer than its run timeout.
    RunTimeout,
    /// How an aborted run ended (exit code, signal): in the history only, an abort is no failure.
    Abort,
}

impl FailureKind {
    /// The name as scripts and JSON spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::ExitCode => "exit_code",
            Self::Signal => "signal",
            Self::LeaseExpired => "lease_expired",
            Self::InvalidResult => "invalid_result",
            Self::Rejected => "rejected",
            Self::RunTimeout => "run_timeout",
            Self::Abort => "abort",
        }
    }
}

/// Facts of a command's end beside the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FailureDetail {
    /// The exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// One failure of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What class it is of.
    pub kind: FailureKind,
    /// For people: never the payload, the environment or a secret.
    pub message: String,
    /// Which attempt.
    pub attempt: u64,
    /// On which worker.
    pub worker: Option<String>,
    /// When, ms since 1970 by Redis's clock.
    pub at_ms: u64,
    /// Exit code or signal of a command.
    #[serde(flatten)]
    pub detail: FailureDetail,
}

#[derive(Deserialize)]
struct StoredFailure {
    k: FailureKind,
    #[serde(default, with = "serde_bytes")]
    m: Vec<u8>,
    #[serde(default)]
    n: f64,
    #[serde(default)]
    w: Option<String>,
    #[serde(default)]
    at: f64,
    #[serde(default, with = "serde_bytes")]
    x: Option<Vec<u8>>,
}

impl Failure {
    /// Reads an element of `Q:errors:<id>`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let junk = |e: rmp_serde::decode::Error| Error::Protocol(format!("a failure cannot be read: {e}"));
        let s: StoredFailure = rmp_serde::from_slice(bytes).map_err(junk)?;
        Ok(Self {
            kind: s.k,
            message: String::from_utf8_lossy(&s.m).into_owned(),
            attempt: s.n as u64,
            worker: s.w,
            at_ms: s.at as u64,
            detail: s.x.and_then(|x| rmp_serde::from_slice(&x).ok()).unwrap_or_default(),
        })
    }
}

/// Why a run is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// Somebody aborted the task.
    Abort,
    /// The run took longer than its run timeout.
    RunTimeout,
    /// Its worker stops.
    Drain,
}

impl StopCause {
    /// The name as scripts and JSON spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::RunTimeout => "run_timeout",
            Self::Drain => "drain",
        }
    }
}

/// A request that a run ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Why.
    #[serde(rename(deserialize = "c"))]
    pub cause: StopCause,
    /// When a script recorded it, ms.
    #[serde(rename(deserialize = "at"), deserialize_with = "whole")]
    pub at_ms: u64,
    /// Between cancellation (TERM) and KILL, ms.
    #[serde(rename(deserialize = "g"), default, deserialize_with = "whole")]
    pub grace_ms: u64,
    /// When nobody waits for the run any longer, ms.
    #[serde(rename(deserialize = "he"), deserialize_with = "whole")]
    pub hard_end_ms: u64,
    /// By whom.
    #[serde(default)]
    pub by: Option<String>,
    /// For people.
    #[serde(rename(deserialize = "rs"), default)]
    pub reason: Option<String>,
    /// The cause that an abort outranked.
    #[serde(rename(deserialize = "ec"), default)]
    pub earlier_cause: Option<StopCause>,
}

/// Lua packs whole numbers as integers and some as doubles.
fn whole<'de, D: serde::Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    Ok(f64::deserialize(d)? as u64)
}

/// The state of one task at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRecord {
    /// Its id.
    pub id: TaskId,
    /// Its state.
    pub state: TaskState,
    /// Raised by every transition.
    pub rev: u64,
    /// How often it was claimed.
    pub attempt: u64,
    /// Failures since it was enqueued or retried by a person.
    pub failures: u64,
    /// How often it lost its worker since then.
    pub reclaims: u64,
    /// Its priority.
    pub priority: Priority,
    /// Its bounds.
    pub policy: Policy,
    /// The entry it is queued under.
    pub(crate) entry: Option<String>,
    /// The run that owns it now, or owned it last.
    pub run: Option<RunId>,
    /// The incarnation that owns it now.
    pub incarnation: Option<Incarnation>,
    /// The worker of the current or last run.
    pub worker: Option<WorkerName>,
    /// The token of the current or last run.
    pub token: Option<u64>,
    /// When it was enqueued, ms since 1970 by Redis's clock.
    pub enqueued_ms: u64,
    /// When it is due, while scheduled.
    pub due_ms: Option<u64>,
    /// When the current or last run began.
    pub started_ms: Option<u64>,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// The stop that its run was, or is, asked for.
    pub stop: Option<Stop>,
    /// The kind of its last failure.
    pub failure_kind: Option<FailureKind>,
    /// Progress of the current or last run, 0 to 1.
    pub progress: Option<f64>,
    /// A look of the reaper found no lease, and the second look is not over.
    pub suspected: bool,
    /// That look, by the watch clock of `Q:pulse`, ms.
    pub(crate) missed_at: Option<i64>,
    /// The body, if it lies in the record.
    pub(crate) body: Option<Vec<u8>>,
    /// The output, if it lies in the record.
    pub(crate) output: Option<Vec<u8>>,
}

impl TaskRecord {
    /// Reads a record as `Q:task:<id>` holds it.
    ///
    /// # Errors
    /// [`Error::NewerFormat`], or [`Error::Protocol`] for junk.
    pub(crate) fn decode(id: &TaskId, bytes: &[u8]) -> Result<Self> {
        wire::decode(id, bytes)
    }

    /// `failures + 1 / max_attempts` as people read it, never more than it may be.
    #[must_use]
    pub fn attempts_shown(&self) -> (u64, u64) {
        let most = u64::from(self.policy.max_attempts);
        let spent =
            if self.state.is_terminal() && self.failures > 0 { self.failures } else { self.failures + 1 };
        (spent.min(most), most)
    }
}

/// A record with all that belongs to it, as `task show` tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskDetail {
    /// The record.
    pub record: TaskRecord,
    /// Its body; none when it is missing or cannot be read, which the doctor tells of.
    pub body: Option<Body>,
    /// Its output, MessagePack.
    pub output: Option<Vec<u8>>,
    /// Its failures, oldest first.
    pub failures: Vec<Failure>,
    /// Its last progress message.
    pub note: Option<String>,
}

impl TaskDetail {
    /// The failure that it ended with, or had last.
    #[must_use]
    pub fn last_failure(&self) -> Option<&Failure> {
        self.failures.last()
    }
}
