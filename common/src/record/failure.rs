//! What goes wrong with tasks.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::name::PhaseName;

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
    /// A phase of the run took longer than its timeout.
    PhaseTimeout,
    /// The run gave no sign of life for its stall timeout.
    Stalled,
    /// The task's deadline passed.
    Deadline,
    /// A charge was above the rest of a budget.
    BudgetExceeded,
    /// A person gave it up while the system did not end its processes.
    Abandoned,
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
            Self::PhaseTimeout => "phase_timeout",
            Self::Stalled => "stalled",
            Self::Deadline => "deadline",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Abandoned => "abandoned",
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
    /// The phase in which it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseName>,
    /// How long that phase had lasted, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_ms: Option<u64>,
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
    #[serde(default)]
    ph: Option<PhaseName>,
    #[serde(default)]
    pd: Option<f64>,
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
            phase: s.ph,
            phase_ms: s.pd.map(|ms| ms as u64),
            detail: s.x.and_then(|x| rmp_serde::from_slice(&x).ok()).unwrap_or_default(),
        })
    }
}
