//! A task's record: its state at one moment, decoded from what the scripts keep.

mod failure;
mod sample;
mod stop;
mod story;
mod wire;

use std::collections::BTreeMap;

use crate::body::Body;
use crate::error::Result;
use crate::name::{BudgetName, Incarnation, Lane, Owner, RunId, TaskId, WorkerName};
use crate::policy::{Policy, Priority};
use crate::state::TaskState;

pub use failure::{Failure, FailureDetail, FailureKind};
pub use stop::{Stop, StopCause};
pub use story::{BudgetUse, PhaseNow, PhasePast, Reconciled};
pub(crate) use wire::{body_of_fixed, fixed, spec};

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
    /// The lane it takes its turn in.
    pub lane: Option<Lane>,
    /// Whom it belongs to.
    pub owner: Option<Owner>,
    /// Since when it waits for its turn, ms.
    pub waiting_ms: Option<u64>,
    /// When it ends wherever it is, ms.
    pub deadline_ms: Option<u64>,
    /// The last sign of life of the current or last run, ms: output, progress, phase, charge, checkpoint.
    pub last_event_ms: Option<u64>,
    /// Since when the run is silent, ms, once that was told of.
    pub silent_since_ms: Option<u64>,
    /// The size of what a run left for the next one; none without.
    pub checkpoint_bytes: Option<u64>,
    /// What it may spend, and has.
    pub budgets: BTreeMap<BudgetName, BudgetUse>,
    /// The phase that the current or last run entered last.
    pub phase: Option<PhaseNow>,
    /// Processes that the system does not end, as the worker said last.
    pub unkillable: Option<String>,
    /// How the end of a run was decided for it, the last time.
    pub reconciled: Option<Reconciled>,
    /// Since when no worker that claimed it knew its name, ms.
    pub unknown_since_ms: Option<u64>,
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

    /// The ready stream it is in, and since when, ms by the clock of Redis; none unless it is queued.
    #[must_use]
    pub fn queued_in(&self) -> Option<(&str, u64)> {
        let (level, entry) = self.entry.as_deref()?.split_once(':')?;
        Some((level, entry.split('-').next()?.parse().ok()?))
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
    /// The phases of its runs that are over, the last 100, oldest first.
    pub phases: Vec<PhasePast>,
}

impl TaskDetail {
    /// The failure that it ended with, or had last.
    #[must_use]
    pub fn last_failure(&self) -> Option<&Failure> {
        self.failures.last()
    }
}
