//! A person aborts: a task that does not run ends at once, a run is asked to end.

use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::AbortAnswer;

use super::Model;
use super::ending::Voice;
use super::task::Stop;
use crate::words::TaskNo;

/// Who aborts.
const PERSON: &str = "me";

impl Model {
    /// One request. The same again only answers, also after a retry.
    pub(super) fn abort(
        &mut self,
        no: TaskNo,
        request: u32,
        grace: Option<u64>,
        abandon: bool,
    ) -> AbortAnswer {
        let Some(task) = self.tasks.get(&no) else { return AbortAnswer::NotFound };
        if let Some((_, state)) = task.aborted_before.filter(|(before, _)| *before == request) {
            return if state == TaskState::Aborted {
                AbortAnswer::Ended(state)
            } else {
                AbortAnswer::Already(state)
            };
        }
        match task.state {
            TaskState::Scheduled | TaskState::Waiting | TaskState::Queued => self.abort_unowned(no, request),
            TaskState::Running | TaskState::Aborting => self.abort_run(no, request, grace, abandon),
            TaskState::Completed | TaskState::Failed | TaskState::TimedOut | TaskState::Aborted => {
                let asked = task.stop.as_ref().is_some_and(|stop| stop.request == Some(request));
                let ended_by_it =
                    task.state == TaskState::Aborted || task.failure == Some(FailureKind::Abandoned);
                if asked && ended_by_it {
                    AbortAnswer::Ended(task.state)
                } else {
                    AbortAnswer::Already(task.state)
                }
            }
        }
    }

    fn abort_unowned(&mut self, no: TaskNo, request: u32) -> AbortAnswer {
        let (cause, now) = (StopCause::Abort, self.now);
        let stop = Stop {
            cause,
            earlier: None,
            at: now,
            grace: 0,
            hard_end: now,
            by: PERSON,
            request: Some(request),
        };
        let task = self.task_mut(no);
        task.stop = Some(stop);
        // An abort is no failure, whatever went wrong before it.
        task.failure = None;
        self.end(no, TaskState::Aborted);
        AbortAnswer::Ended(TaskState::Aborted)
    }

    fn abort_run(&mut self, no: TaskNo, request: u32, grace: Option<u64>, abandon: bool) -> AbortAnswer {
        let asked = self.task(no).stop.as_ref().is_some_and(|stop| stop.request == Some(request));
        if !asked {
            let grace = grace.unwrap_or_else(|| self.rules.grace(no));
            // What a gap has given back of an earlier stop's time, this one may shorten, but not to nothing.
            let (pulse, _) = self.pulse.advanced(self.now, &self.rules);
            self.allow_for_gap(no, pulse.gap_at());
            self.request_stop(no, StopCause::Abort, grace, PERSON);
            let task = self.task_mut(no);
            if let Some(stop) = &mut task.stop {
                stop.request.get_or_insert(request);
            }
            if task.state == TaskState::Running {
                self.enter_abort(no);
            }
        }
        if self.is_proven_dead(no) {
            return AbortAnswer::Ended(self.reclaim(no));
        }
        if abandon && self.is_unkillable(no) {
            if let Some(stop) = &mut self.task_mut(no).stop {
                stop.request = Some(request);
            }
            return AbortAnswer::Ended(self.end_failed(no, Voice::Others, FailureKind::Abandoned));
        }
        let (now, beat, margin) = (self.now, self.rules.beat, self.rules.hard_end(0, 0));
        let task = self.task_mut(no);
        let hard_end_ms = task.stop.as_ref().map_or(0, |stop| stop.hard_end);
        task.running_mut().next_look = hard_end_ms.min(now + beat);
        AbortAnswer::Requested { kill_at_ms: hard_end_ms.saturating_sub(margin), hard_end_ms }
    }

    /// Its incarnation is declared dead, or the two looks at its missing lease are complete.
    fn is_proven_dead(&self, no: TaskNo) -> bool {
        let run = self.task(no).running();
        let looked_twice = |missed| self.pulse.suspicion_left(missed, &self.rules) == 0;
        let has_lease = run.lease_until(self.rules.lease) > self.now;
        self.hands[run.worker].dead || (!has_lease && run.missed.is_some_and(looked_twice))
    }
}
