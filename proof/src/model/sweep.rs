//! The reaper: it looks at runs that are due for a look, ends what is late, promotes what is due. And what a worker does
//! that starts again: it declares its dead.

use super::Model;
use super::ending::Voice;
use crate::words::{Answer, TaskNo, WorkerNo};

/// What a sweep counts.
#[derive(Default)]
struct Counts {
    suspected: u64,
    reclaimed: u64,
    ended: u64,
    stopped: u64,
}

impl Model {
    /// One sweep.
    pub(super) fn sweep(&mut self) -> Answer {
        let (pulse, gap) = self.pulse.advanced(self.now, &self.rules);
        self.pulse = pulse;
        let mut counts = Counts::default();
        for no in self.due(|task| task.run.as_ref().map(|run| run.next_look)) {
            self.look(no, &mut counts);
        }
        // Runs past their deadline were asked to stop by the look above.
        for no in self.due(|task| task.deadline.filter(|_| task.run.is_none() && task.ended.is_none())) {
            self.end_late(no);
            counts.ended += 1;
        }
        let promoted = self.promote();
        let Counts { suspected, reclaimed, ended, stopped } = counts;
        Answer::Swept { suspected, reclaimed, ended, stopped, promoted, gap }
    }

    /// One look at a run: has it had its time, and does its worker live?
    fn look(&mut self, no: TaskNo, counts: &mut Counts) {
        let now = self.now;
        self.allow_for_gap(no, self.pulse.gap_at());
        counts.stopped += u64::from(self.stop_if_due(no));
        let lease_until = self.task(no).running().lease_until(self.rules.lease);
        let hard_end = self.task(no).stop.as_ref().map(|stop| stop.hard_end);
        let suspended = lease_until > now && self.is_unkillable(no);
        if hard_end.is_some_and(|at| now >= at) && !suspended {
            self.end_stopped(no, Voice::Others, None, None);
            counts.ended += 1;
        } else if lease_until <= now {
            self.miss_lease(no, hard_end, counts);
        } else {
            self.note_silence(no);
            let run = self.task_mut(no).running_mut();
            run.missed = None;
            let said = run.unkillable;
            let mut until = self.nothing_due_until(no);
            if until <= now && hard_end.is_some() {
                // Suspended, until the word that it cannot be ended grows old.
                until = said.unwrap_or(now) + self.rules.lease + self.rules.beat;
            }
            self.look_again(no, lease_until.min(until));
        }
    }

    /// The first look that misses a lease is no proof; one that still misses it long enough later is.
    fn miss_lease(&mut self, no: TaskNo, hard_end: Option<u64>, counts: &mut Counts) {
        let (now, beat, pulse) = (self.now, self.rules.beat, self.pulse);
        let run = self.task_mut(no).running_mut();
        counts.suspected += u64::from(run.missed.is_none());
        let missed = *run.missed.get_or_insert(pulse.watch);
        let left = pulse.suspicion_left(missed, &self.rules);
        if left == 0 {
            self.reclaim(no);
            counts.reclaimed += 1;
        } else {
            self.look_again(no, hard_end.unwrap_or(now + beat).min(now + left.min(beat)));
        }
    }

    fn look_again(&mut self, no: TaskNo, at: u64) {
        let (now, most) = (self.now, self.rules.lease + self.rules.beat);
        self.task_mut(no).running_mut().next_look = at.clamp(now + 1, now + most);
    }

    /// An incarnation is proved dead, with nothing of it alive: it is given nothing any more, and its runs are reclaimed
    /// without waiting for their leases. Returns how many were.
    pub(super) fn declare_dead(&mut self, worker: WorkerNo) -> u64 {
        self.hands[worker].dead = true;
        let mut runs: Vec<(u64, String, TaskNo)> = Vec::new();
        for (no, task) in &self.tasks {
            if let Some(run) = task.run.as_ref().filter(|run| run.worker == worker) {
                runs.push((run.next_look, format!("t{no}"), *no));
            }
        }
        runs.sort();
        for (_, _, no) in &runs {
            self.reclaim(*no);
        }
        runs.len() as u64
    }
}
