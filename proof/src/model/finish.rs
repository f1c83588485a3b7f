//! A run says how it ended.

use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{FinishAnswer, Outcome, RetryAdvice};

use super::Model;
use super::ending::Voice;
use super::rules::ms;
use crate::words::{Run, TaskNo, WorkerNo};

impl Model {
    /// The end of one run. The run that ended last gets its answer again; a run whose task is another's changes nothing.
    pub(super) fn finish(
        &mut self,
        worker: WorkerNo,
        run: Run,
        outcome: &Outcome,
        before_stop: bool,
    ) -> FinishAnswer {
        let Some(task) = self.tasks.get(&run.task) else {
            return if self.is_gone(run.task) { FinishAnswer::Gone } else { FinishAnswer::Lost };
        };
        if task.is_owned(worker, run) {
            if before_stop {
                self.forget_late_bound(run.task, outcome);
            }
            return FinishAnswer::Accepted(self.end_run(run.task, outcome));
        }
        task.left_by(worker, run).map_or(FinishAnswer::Lost, FinishAnswer::Repeated)
    }

    /// A bound of time that passed after the work was over does not decide how it ended.
    fn forget_late_bound(&mut self, no: TaskNo, outcome: &Outcome) {
        let says_its_end =
            matches!(outcome, Outcome::Failed { .. } | Outcome::Snoozed(_) | Outcome::Unknown { .. });
        let stop = &mut self.task_mut(no).stop;
        let of_time = stop.as_ref().is_some_and(|stop| {
            use StopCause::{Deadline, PhaseTimeout, RunTimeout, Stalled};
            matches!(stop.cause, RunTimeout | PhaseTimeout | Stalled | Deadline)
        });
        if says_its_end && of_time {
            *stop = None;
        }
    }

    /// A result counts also after a stop, for the run had ended before it heard of it; but not after a refused charge, which
    /// it was told of at once. Of other ends the stop decides.
    fn end_run(&mut self, no: TaskNo, outcome: &Outcome) -> TaskState {
        let stop = self.task(no).stop.clone();
        let refused = stop.as_ref().is_some_and(|stop| {
            stop.cause == StopCause::BudgetExceeded || stop.earlier == Some(StopCause::BudgetExceeded)
        });
        match outcome {
            Outcome::Completed(_) if refused => self.end_stopped(no, Voice::Run, None, None),
            Outcome::Completed(_) => self.end_completed(no),
            Outcome::Stopped { cause, .. } => self.end_stopped(no, Voice::Run, Some(*cause), None),
            Outcome::Failed { .. } | Outcome::Snoozed(_) | Outcome::Released | Outcome::Unknown { .. }
                if stop.is_some() =>
            {
                self.end_stopped(no, Voice::Run, None, delay_of(outcome))
            }
            Outcome::Failed { kind, retry, .. } => {
                let fatal = *retry == RetryAdvice::Fatal;
                self.end_with_failure(no, Voice::Run, *kind, fatal, delay_of(outcome))
            }
            Outcome::Snoozed(delay) => self.again_after(no, Voice::Run, ms(*delay), self.rules.level(no)),
            Outcome::Released => self.release(no, Voice::Run),
            Outcome::Unknown { .. } => self.end_unknown(no),
        }
    }

    /// No worker that claimed it knew its name: handed back with growing delay, at no cost, but not for ever.
    fn end_unknown(&mut self, no: TaskNo) -> TaskState {
        const PATIENCE_MS: u64 = 300_000;
        let since = self.task(no).unknown_since.unwrap_or(self.now);
        let age = self.now - since;
        if age >= PATIENCE_MS {
            return self.end_failed(no, Voice::Run, FailureKind::Rejected);
        }
        let state = self.again_after(no, Voice::Run, age.clamp(1000, 30_000), self.rules.level(no));
        if let Some(task) = self.tasks.get_mut(&no).filter(|task| !task.state.is_terminal()) {
            task.unknown_since = Some(since);
        }
        state
    }
}

/// The delay that a run asks for before the next attempt.
fn delay_of(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Outcome::Failed { retry: RetryAdvice::After(delay), .. } | Outcome::Snoozed(delay) => {
            Some(ms(*delay))
        }
        _ => None,
    }
}
