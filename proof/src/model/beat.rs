//! Heartbeats: they renew leases and carry the answer back.

use leasehold_common::store::BeatAnswer;

use super::Model;
use crate::words::{Run, TaskNo, WorkerNo};

impl Model {
    /// One run's heartbeat. One whose lease lapsed but which owns its task still takes the lease up again.
    pub(super) fn beat(&mut self, worker: WorkerNo, run: Run) -> BeatAnswer {
        let Some(task) = self.tasks.get(&run.task) else {
            return if self.is_gone(run.task) { BeatAnswer::Gone } else { BeatAnswer::Lost };
        };
        if task.is_owned(worker, run) {
            return self.renew(run.task);
        }
        task.left_by(worker, run).map_or(BeatAnswer::Lost, BeatAnswer::Ended)
    }

    fn renew(&mut self, no: TaskNo) -> BeatAnswer {
        let (now, lease) = (self.now, self.rules.lease);
        self.task_mut(no).running_mut().missed = None;
        self.stop_if_due(no);
        self.note_silence(no);
        if self.task(no).stop.is_none() {
            self.task_mut(no).running_mut().renewed_until = now + lease;
            return BeatAnswer::Ok;
        }
        self.renew_stopped(no);
        let stop = self.task(no).stop.as_ref().expect("it was asked to stop");
        BeatAnswer::Stop { cause: stop.cause, hard_end_ms: stop.hard_end, by: stop.by.to_owned() }
    }

    /// A run that is asked to stop is renewed until its hard end and not beyond, but for a gap that the stop could not
    /// know of, and for one that the system does not end.
    fn renew_stopped(&mut self, no: TaskNo) {
        let (now, lease) = (self.now, self.rules.lease);
        let unkillable = self.is_unkillable(no);
        let hard_end = |model: &Self| model.task(no).stop.as_ref().map_or(0, |stop| stop.hard_end);
        if now >= hard_end(self) && !unkillable {
            let (pulse, _) = self.pulse.advanced(now, &self.rules);
            self.allow_for_gap(no, pulse.gap_at());
        }
        let until = if unkillable { now + lease } else { hard_end(self).min(now + lease) };
        if until > now {
            self.task_mut(no).running_mut().renewed_until = until;
        }
    }
}
