//! Stops: a run is asked to end, and there is a moment past which nobody waits for it.

use leasehold_common::record::StopCause;

use super::Model;
use super::task::Stop;
use crate::words::TaskNo;

/// Who stops what has passed a bound.
pub(super) const LEASEHOLD: &str = "leasehold";

impl Model {
    /// Asks a run to end. The first cause stands, but an abort outranks all; a later stop may shorten the hard end, never
    /// extend it.
    pub(super) fn request_stop(&mut self, no: TaskNo, cause: StopCause, grace: u64, by: &'static str) {
        let (now, margin) = (self.now, self.rules.hard_end(0, 0));
        let mut ends = self.rules.hard_end(now, grace);
        let task = self.task_mut(no);
        if let Some(was) = &task.stop {
            ends = ends.min(was.hard_end);
        }
        match &mut task.stop {
            Some(was) if cause != StopCause::Abort || was.cause == StopCause::Abort => {
                if ends < was.hard_end {
                    was.hard_end = ends;
                    was.grace = ends.saturating_sub(margin + was.at);
                }
            }
            stop => {
                let grace = ends.saturating_sub(margin + now);
                let earlier = stop.as_ref().map(|was| was.cause);
                *stop = Some(Stop { cause, earlier, at: now, grace, hard_end: ends, by, request: None });
            }
        }
    }

    /// Asks a run to end that has passed a bound. True if it did.
    pub(super) fn stop_if_due(&mut self, no: TaskNo) -> bool {
        let Some(cause) = self.passed_bound(no) else { return false };
        self.request_stop(no, cause, self.rules.grace(no), LEASEHOLD);
        true
    }

    /// Has its worker said of late that the system does not end its processes? Then its hard end is suspended.
    pub(super) fn is_unkillable(&self, no: TaskNo) -> bool {
        let said = self.task(no).running().unkillable;
        said.is_some_and(|at| self.now - at < self.rules.lease + self.rules.beat)
    }

    /// When the reaper or Redis was away after the stop, the run has its time from then on.
    pub(super) fn allow_for_gap(&mut self, no: TaskNo, gap_at: Option<u64>) {
        let rules = self.rules.clone();
        if let (Some(stop), Some(gap_at)) = (&mut self.task_mut(no).stop, gap_at)
            && gap_at > stop.at
        {
            stop.hard_end = stop.hard_end.max(rules.hard_end(gap_at, stop.grace));
        }
    }
}
