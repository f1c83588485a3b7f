//! When a run has had its time, and by which of its bounds.

use leasehold_common::record::StopCause;

use super::Model;
use super::rules::ms;
use crate::words::TaskNo;

/// Later than anything.
const NEVER: u64 = u64::MAX;

impl Model {
    /// The first of a run's bounds: when it passes, and which it is.
    fn next_bound(&self, no: TaskNo) -> Option<(u64, StopCause)> {
        let (task, body) = (self.task(no), self.rules.body(no));
        let run = task.running();
        let phase_end = task.phase.as_ref().and_then(|phase| Some(phase.since + phase.timeout?));
        let bounds = [
            (body.policy.run_timeout.map(|timeout| run.begun + ms(timeout)), StopCause::RunTimeout),
            (phase_end, StopCause::PhaseTimeout),
            (body.bounds.stall_timeout.map(|timeout| run.life + ms(timeout)), StopCause::Stalled),
            (task.deadline, StopCause::Deadline),
        ];
        // Of those that pass at the same moment the first in this list.
        bounds.into_iter().filter_map(|(at, cause)| Some((at?, cause))).min_by_key(|(at, _)| *at)
    }

    /// The bound that a run has passed, while nothing has asked it to stop.
    pub(super) fn passed_bound(&self, no: TaskNo) -> Option<StopCause> {
        if self.task(no).stop.is_some() {
            return None;
        }
        self.next_bound(no).filter(|(at, _)| self.now >= *at).map(|(_, cause)| cause)
    }

    /// When the silence of a run is to be told of.
    fn silence_at(&self, no: TaskNo) -> Option<u64> {
        let run = self.task(no).running();
        let notice = self.rules.body(no).bounds.silence_notice?;
        (!run.silent).then_some(run.life + ms(notice))
    }

    /// Tells of a silence, once.
    pub(super) fn note_silence(&mut self, no: TaskNo) {
        if self.silence_at(no).is_some_and(|at| self.now >= at) {
            self.task_mut(no).running_mut().silent = true;
        }
    }

    /// A sign of life ends a silence.
    pub(super) fn note_life(&mut self, no: TaskNo) {
        let now = self.now;
        let run = self.task_mut(no).running_mut();
        run.silent = false;
        run.life = now;
    }

    /// Until when nothing of a run becomes due: its hard end, its next bound, or its silence.
    pub(super) fn nothing_due_until(&self, no: TaskNo) -> u64 {
        if let Some(stop) = &self.task(no).stop {
            return stop.hard_end;
        }
        let bound = self.next_bound(no).map_or(NEVER, |(at, _)| at);
        bound.min(self.silence_at(no).unwrap_or(NEVER))
    }

    /// A bound may lie before the look that is planned.
    pub(super) fn look_no_later(&mut self, no: TaskNo) {
        let until = self.nothing_due_until(no);
        let run = self.task_mut(no).running_mut();
        run.next_look = run.next_look.min(until);
    }
}
