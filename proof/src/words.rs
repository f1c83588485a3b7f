//! The words that the model, the explorer and the random walks share: small worlds, the calls that are made in them, the
//! answers, and what can be seen of a queue afterwards.
//!
//! Tasks, workers and runs go by numbers, so that two states that differ only in ids are the same. Times are ms of the
//! driven clock. Whoever plays a [`Call`], the [`Oracle`] or the scripts, must give the same [`Answer`] and show the same
//! [`Seen`].

use std::collections::BTreeMap;

use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    AbortAnswer, BeatAnswer, DeleteAnswer, Enqueued, FinishAnswer, NewTask, Outcome, QueueSettings,
    RetryAnswer, RetryMode, SpendAnswer, UpdateAnswer,
};

/// A task of the world, by its place in [`World::tasks`].
pub type TaskNo = usize;
/// A worker's incarnation, by number from 0 on.
pub type WorkerNo = usize;

/// A run: the claim of a task that made it this attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The task.
    pub task: TaskNo,
    /// `attempt` as the claim answered it, from 1 on.
    pub attempt: u64,
}

/// What there is to play with.
#[derive(Debug, Clone)]
pub struct World {
    /// For people.
    pub name: &'static str,
    /// Settings of the one queue.
    pub settings: QueueSettings,
    /// Its tasks; their ids are `t0`, `t1` ..
    pub tasks: Vec<NewTask>,
    /// How many incarnations of workers there are.
    pub workers: usize,
}

/// One call of a script, by whoever makes it, or the passing of time.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// A producer enqueues tasks in one call.
    Enqueue(Vec<TaskNo>),
    /// The same id with another payload.
    EnqueueOther(TaskNo),
    /// A worker claims up to `want` under `number` (`closing`: its last claim).
    Claim { worker: WorkerNo, number: u64, want: usize, closing: bool },
    /// A run ends; its work was over before any stop reached it, or not.
    Finish { worker: WorkerNo, run: Run, outcome: Outcome, before_stop: bool },
    /// A worker renews leases. `stopping`: it stops them by itself.
    Beat { worker: WorkerNo, runs: Vec<Run>, stopping: bool },
    /// A run enters a phase, with a timeout in ms.
    Phase { worker: WorkerNo, run: Run, number: u64, name: &'static str, timeout: Option<u64> },
    /// A run spends of the budget `calls`.
    Spend { worker: WorkerNo, run: Run, number: u64, charge: u64 },
    /// A run leaves a checkpoint.
    Checkpoint { worker: WorkerNo, run: Run, number: u64 },
    /// A worker says that the system does not end a run's processes.
    Unkillable { worker: WorkerNo, run: Run },
    /// A person aborts; `request` is the same in a repeat; grace in ms, none = the task's own.
    Abort { task: TaskNo, request: u32, grace: Option<u64>, abandon: bool },
    /// A person retries the task that was seen with this `rev`.
    Retry { task: TaskNo, rev: u64, mode: RetryMode },
    /// A person deletes the task that was seen with this `rev`.
    Delete { task: TaskNo, rev: u64 },
    /// A person sets the limit of the lane of this task.
    Limit { task: TaskNo, limit: u32 },
    /// A reaper sweeps.
    Sweep,
    /// A reaper cleans up.
    Cleanup,
    /// A later start of a worker proves this incarnation dead.
    DeclareDead { worker: WorkerNo },
    /// Time passes.
    Pass { ms: u64 },
}

/// A task as a claim hands it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The run.
    pub run: Run,
    /// Failures so far.
    pub failures: u64,
    /// Reclaims so far.
    pub reclaims: u64,
    /// A stop that came before the answer did: cause and hard end.
    pub stop: Option<(StopCause, u64)>,
}

/// The answer to a [`Call`], as far as it does not depend on ids and tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To an enqueue.
    Enqueued(Vec<Enqueued>),
    /// To a claim.
    Claimed(Vec<Start>),
    /// A late duplicate of a claim.
    Stale,
    /// The incarnation has made its closing claim.
    Closed,
    /// The incarnation was declared dead.
    Dead,
    /// To a finish.
    Finished(FinishAnswer),
    /// To a beat, in its order.
    Beats(Vec<BeatAnswer>),
    /// To a phase, a checkpoint, or an unkillable.
    Told(UpdateAnswer),
    /// To a charge.
    Spent(SpendAnswer),
    /// To an abort.
    Aborted(AbortAnswer),
    /// To a retry.
    Retried(RetryAnswer),
    /// To a delete.
    Deleted(DeleteAnswer),
    /// To a new limit: the one before.
    Limited(u32),
    /// To a sweep: its counts.
    Swept { suspected: u64, reclaimed: u64, ended: u64, stopped: u64, promoted: u64, gap: bool },
    /// To a cleanup: how many went.
    Cleaned(u64),
    /// To a declaration: how many runs were reclaimed.
    Declared(u64),
    /// Time has passed.
    Passed,
}

/// A task as it can be seen.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenTask {
    /// Its state.
    pub state: TaskState,
    /// Raised by every transition.
    pub rev: u64,
    /// How often it was claimed.
    pub attempt: u64,
    /// Failures since it was enqueued or retried.
    pub failures: u64,
    /// Reclaims since then.
    pub reclaims: u64,
    /// Which worker owns its run; none while it has none.
    pub owner: Option<WorkerNo>,
    /// When it is due, while scheduled.
    pub due: Option<u64>,
    /// When it ended.
    pub ended: Option<u64>,
    /// Its deadline.
    pub deadline: Option<u64>,
    /// The stop of its current or last run: cause, when it was recorded, hard end.
    pub stop: Option<(StopCause, u64, u64)>,
    /// The kind of its last failure.
    pub failure: Option<FailureKind>,
    /// What it has spent of the budget `calls`.
    pub spent: Option<u64>,
    /// The phase that its current or last run entered last, and since when.
    pub phase: Option<(String, u64)>,
    /// There is a checkpoint.
    pub checkpoint: bool,
    /// A look of the reaper found no lease.
    pub suspected: bool,
    /// Until when its lease lasts, the claim being the first; none when it has lapsed or it has no run.
    pub lease_until: Option<u64>,
}

/// All that can be seen of a queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seen {
    /// Its tasks.
    pub tasks: BTreeMap<TaskNo, SeenTask>,
    /// The ready streams, `urgent again high normal low`, each in order; empty ones are left out.
    pub ready: BTreeMap<&'static str, Vec<TaskNo>>,
    /// The members of each lane by its text, in order, with its limit. Lanes without members have a row only where their
    /// limit is not 1.
    pub lanes: BTreeMap<String, (u32, Vec<TaskNo>)>,
    /// Ids that are remembered as gone: those removed less than a minute ago, in ascending order.
    pub gone: Vec<TaskNo>,
}

/// Whoever can say what a call must answer, and what must be seen after it.
pub trait Oracle {
    /// Makes the call.
    fn play(&mut self, call: &Call) -> Answer;
    /// What is to be seen now.
    fn seen(&self) -> Seen;
    /// The time, ms.
    fn now(&self) -> u64;
}
