//! How a run ends: the one place where results, failures, retries and reclaims are decided.

use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::state::TaskState;

use super::Model;
use super::level::Level;
use super::task::Last;
use crate::words::TaskNo;

/// Who says that a run has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Voice {
    /// Its worker: a repeat gets the answer again.
    Run,
    /// Others, since its worker is dead or too late: the run is lost.
    Others,
}

/// Where a task goes from its run.
enum Next {
    End(TaskState),
    Ready(Level),
    Scheduled(u64),
}

/// A bound of time ends as `timed_out`, all else as `failed`.
fn ends_as(kind: FailureKind) -> TaskState {
    match kind {
        FailureKind::RunTimeout
        | FailureKind::PhaseTimeout
        | FailureKind::Stalled
        | FailureKind::Deadline => TaskState::TimedOut,
        FailureKind::Error
        | FailureKind::ExitCode
        | FailureKind::Signal
        | FailureKind::LeaseExpired
        | FailureKind::InvalidResult
        | FailureKind::Rejected
        | FailureKind::BudgetExceeded
        | FailureKind::Abandoned
        | FailureKind::Abort => TaskState::Failed,
    }
}

impl Model {
    /// The run leaves its task, which goes on.
    fn leave_run(&mut self, no: TaskNo, voice: Voice, next: Next) -> TaskState {
        let task = self.task_mut(no);
        let (attempt, worker) = (task.attempt, task.running().worker);
        task.run = None;
        match next {
            Next::End(state) => {
                self.end(no, state);
                // It may be gone by now.
                let Some(task) = self.tasks.get_mut(&no) else { return state };
                task.last = Some(Last { attempt, worker, left: (voice == Voice::Run).then_some(state) });
                return state;
            }
            Next::Ready(level) => self.make_ready(no, level),
            Next::Scheduled(due) => self.schedule(no, due),
        }
        let task = self.task_mut(no);
        task.last = Some(Last { attempt, worker, left: (voice == Voice::Run).then_some(task.state) });
        task.state
    }

    /// With a result.
    pub(super) fn end_completed(&mut self, no: TaskNo) -> TaskState {
        self.task_mut(no).failure = None;
        self.leave_run(no, Voice::Run, Next::End(TaskState::Completed))
    }

    /// By an abort, which is no failure.
    fn end_aborted(&mut self, no: TaskNo, voice: Voice) -> TaskState {
        self.task_mut(no).failure = None;
        self.leave_run(no, voice, Next::End(TaskState::Aborted))
    }

    /// For good.
    pub(super) fn end_failed(&mut self, no: TaskNo, voice: Voice, kind: FailureKind) -> TaskState {
        self.task_mut(no).failure = Some(kind);
        self.leave_run(no, voice, Next::End(ends_as(kind)))
    }

    /// The next attempt after a delay, at `level` if at once. There is none past the deadline.
    pub(super) fn again_after(&mut self, no: TaskNo, voice: Voice, delay: u64, level: Level) -> TaskState {
        let now = self.now;
        if self.task(no).is_late(now) {
            return self.end_failed(no, voice, FailureKind::Deadline);
        }
        let task = self.task_mut(no);
        task.stop = None;
        task.unknown_since = None;
        self.leave_run(no, voice, if delay > 0 { Next::Scheduled(now + delay) } else { Next::Ready(level) })
    }

    /// A failure of the handler or of a bound: it spends an attempt.
    pub(super) fn end_with_failure(
        &mut self,
        no: TaskNo,
        voice: Voice,
        kind: FailureKind,
        fatal: bool,
        delay: Option<u64>,
    ) -> TaskState {
        let task = self.task_mut(no);
        task.failures += 1;
        task.failure = Some(kind);
        let failures = task.failures;
        if fatal || failures >= u64::from(self.rules.body(no).policy.max_attempts) {
            return self.end_failed(no, voice, kind);
        }
        let delay = delay.unwrap_or_else(|| self.backoff(no));
        self.again_after(no, voice, delay, self.rules.level(no))
    }

    /// Handed back by a stopping worker, in front and at no cost, unless it must not be started twice.
    pub(super) fn release(&mut self, no: TaskNo, voice: Voice) -> TaskState {
        if self.rules.runs_once(no) {
            return self.end_aborted(no, voice);
        }
        self.again_after(no, voice, 0, Level::Again)
    }

    /// The run was stopped, for the recorded cause, else for the one that its worker acted on. Where nobody can tell
    /// whether it has really ended, what must not be started twice is not.
    pub(super) fn end_stopped(
        &mut self,
        no: TaskNo,
        voice: Voice,
        acted_on: Option<StopCause>,
        delay: Option<u64>,
    ) -> TaskState {
        let recorded = self.task(no).stop.as_ref().map(|stop| stop.cause);
        let (kind, is_final) = match recorded.or(acted_on) {
            Some(StopCause::Abort) => return self.end_aborted(no, voice),
            Some(StopCause::Drain) | None => return self.release(no, voice),
            Some(StopCause::RunTimeout) => (FailureKind::RunTimeout, false),
            Some(StopCause::PhaseTimeout) => (FailureKind::PhaseTimeout, false),
            Some(StopCause::Stalled) => (FailureKind::Stalled, false),
            Some(StopCause::Deadline) => (FailureKind::Deadline, true),
            Some(StopCause::BudgetExceeded) => (FailureKind::BudgetExceeded, true),
        };
        let untold = voice == Voice::Others && self.rules.runs_once(no);
        self.end_with_failure(no, voice, kind, is_final || untold, delay)
    }

    /// Its worker is dead. A stop, or a bound that had passed, decides; else it runs again while it may.
    pub(super) fn reclaim(&mut self, no: TaskNo) -> TaskState {
        let bound = self.passed_bound(no);
        if bound.is_some() || self.task(no).stop.is_some() {
            return self.end_stopped(no, Voice::Others, bound, None);
        }
        let task = self.task_mut(no);
        task.reclaims += 1;
        task.failure = Some(FailureKind::LeaseExpired);
        let reclaims = task.reclaims;
        if self.rules.runs_once(no) || reclaims > u64::from(self.rules.body(no).policy.max_reclaims) {
            return self.end_failed(no, Voice::Others, FailureKind::LeaseExpired);
        }
        self.again_after(no, Voice::Others, 0, Level::Again)
    }

    /// The deadline passed while no run owned the task.
    pub(super) fn end_late(&mut self, no: TaskNo) {
        self.task_mut(no).failure = Some(FailureKind::Deadline);
        self.end(no, TaskState::TimedOut);
    }
}
