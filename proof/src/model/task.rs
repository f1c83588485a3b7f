//! What is known of a task, of its run while it has one, and of the run that ended last.

use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::SpendAnswer;

use crate::words::{Run, TaskNo, WorkerNo};

/// A task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Task {
    /// It was enqueued with the other payload.
    pub other: bool,
    /// Its state.
    pub state: TaskState,
    /// Raised by every transition.
    pub rev: u64,
    /// How often it was claimed: never decreases.
    pub attempt: u64,
    /// Failures since it was enqueued or retried, against `max_attempts`.
    pub failures: u64,
    /// Lost workers since then, against `max_reclaims`.
    pub reclaims: u64,
    /// When it is due, while it is scheduled.
    pub due: Option<u64>,
    /// When it ended, once it has.
    pub ended: Option<u64>,
    /// When it ends wherever it is.
    pub deadline: Option<u64>,
    /// What it has spent of its budget.
    pub spent: u64,
    /// A run left something for the next one.
    pub checkpoint: bool,
    /// The kind of its last failure.
    pub failure: Option<FailureKind>,
    /// Since when no worker that claimed it knew its name.
    pub unknown_since: Option<u64>,
    /// The run that owns it: while it is running or aborting, and only then.
    pub run: Option<Running>,
    /// The stop of its current run, or of the run it ended with.
    pub stop: Option<Stop>,
    /// The phase that its current or last run entered last.
    pub phase: Option<Phase>,
    /// The run that ended last.
    pub last: Option<Last>,
    /// The `rev` that a person retried last.
    pub retried: Option<u64>,
    /// The abort before that retry, and the state it ended in.
    pub aborted_before: Option<(u32, TaskState)>,
}

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Running {
    /// Who owns it.
    pub worker: WorkerNo,
    /// When it was claimed: the claim is the first lease.
    pub begun: u64,
    /// Until when the last heartbeat renewed the lease; 0 before the first.
    pub renewed_until: u64,
    /// When a reaper looks at it next. Beats do not move it.
    pub next_look: u64,
    /// The first look that found no lease, by the watch clock.
    pub missed: Option<u64>,
    /// Its last sign of life: its begin, a phase, a charge, a checkpoint.
    pub life: u64,
    /// That it is silent was told of.
    pub silent: bool,
    /// When its worker said last that the system does not end its processes.
    pub unkillable: Option<u64>,
    /// Number of the last phase.
    pub phase_number: u64,
    /// Number of the last checkpoint.
    pub checkpoint_number: u64,
    /// Number of the last charge, and its answer.
    pub charge: Option<(u64, SpendAnswer)>,
}

/// A request that a run ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stop {
    /// Why.
    pub cause: StopCause,
    /// The cause before an abort took its place.
    pub earlier: Option<StopCause>,
    /// When it was recorded.
    pub at: u64,
    /// From then until the run is killed.
    pub grace: u64,
    /// When nobody waits for it any longer.
    pub hard_end: u64,
    /// Who asked.
    pub by: &'static str,
    /// The request of an abort.
    pub request: Option<u32>,
}

/// A stage of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Phase {
    /// Its name.
    pub name: &'static str,
    /// When it began.
    pub since: u64,
    /// How long it may take.
    pub timeout: Option<u64>,
}

/// A run that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Last {
    /// Which.
    pub attempt: u64,
    /// Whose.
    pub worker: WorkerNo,
    /// The state it led to; none when others ended it: then it is lost.
    pub left: Option<TaskState>,
}

impl Task {
    /// A task that is nowhere yet.
    pub(super) fn new(other: bool) -> Self {
        Self {
            other,
            // Before it has entered any state; nobody sees it so.
            state: TaskState::Scheduled,
            rev: 0,
            attempt: 0,
            failures: 0,
            reclaims: 0,
            due: None,
            ended: None,
            deadline: None,
            spent: 0,
            checkpoint: false,
            failure: None,
            unknown_since: None,
            run: None,
            stop: None,
            phase: None,
            last: None,
            retried: None,
            aborted_before: None,
        }
    }

    /// The fence: is this worker's run the one that owns the task?
    pub(super) fn is_owned(&self, worker: WorkerNo, run: Run) -> bool {
        self.attempt == run.attempt && self.run.as_ref().is_some_and(|own| own.worker == worker)
    }

    /// The state that this run left if it is the one that ended last, by its own word.
    pub(super) fn left_by(&self, worker: WorkerNo, run: Run) -> Option<TaskState> {
        let last = self.last.as_ref().filter(|last| last.attempt == run.attempt && last.worker == worker)?;
        last.left
    }

    /// Its run.
    pub(super) fn running(&self) -> &Running {
        self.run.as_ref().expect("a task that runs")
    }

    /// Its run, to be changed.
    pub(super) fn running_mut(&mut self) -> &mut Running {
        self.run.as_mut().expect("a task that runs")
    }

    /// Has its deadline passed?
    pub(super) fn is_late(&self, now: u64) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Its run as it is named by number.
    pub(super) fn name_of_run(&self, no: TaskNo) -> Run {
        Run { task: no, attempt: self.attempt }
    }
}

impl Running {
    /// A run that begins now.
    pub(super) fn new(worker: WorkerNo, now: u64) -> Self {
        Self {
            worker,
            begun: now,
            renewed_until: 0,
            next_look: now,
            missed: None,
            life: now,
            silent: false,
            unkillable: None,
            phase_number: 0,
            checkpoint_number: 0,
            charge: None,
        }
    }

    /// Until when it is known to be alive, by its claim or its last beat.
    pub(super) fn lease_until(&self, lease: u64) -> u64 {
        self.renewed_until.max(self.begun + lease)
    }
}
