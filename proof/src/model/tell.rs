//! What a run tells of itself. A number not above the last one of its kind is a repeat: it gets its answer and changes
//! nothing.

use leasehold_common::record::StopCause;
use leasehold_common::store::{SpendAnswer, UpdateAnswer};

use super::Model;
use super::stop::LEASEHOLD;
use super::task::Phase;
use crate::words::{Run, WorkerNo};

impl Model {
    /// The fence: what a run is told that does not own its task.
    fn refused(&self, worker: WorkerNo, run: Run) -> Option<UpdateAnswer> {
        match self.tasks.get(&run.task) {
            None if self.is_gone(run.task) => Some(UpdateAnswer::Gone),
            Some(task) if task.is_owned(worker, run) => None,
            None | Some(_) => Some(UpdateAnswer::Lost),
        }
    }

    /// A phase begins, which ends the one before.
    pub(super) fn enter_phase(
        &mut self,
        worker: WorkerNo,
        run: Run,
        number: u64,
        name: &'static str,
        timeout: Option<u64>,
    ) -> UpdateAnswer {
        if let Some(refused) = self.refused(worker, run) {
            return refused;
        }
        let now = self.now;
        let task = self.task_mut(run.task);
        if number > task.running().phase_number {
            task.running_mut().phase_number = number;
            task.phase = Some(Phase { name, since: now, timeout });
            self.note_life(run.task);
            self.look_no_later(run.task);
        }
        UpdateAnswer::Ok
    }

    /// A charge is taken whole, or refused where it is above the rest: then the run has to end.
    pub(super) fn spend(&mut self, worker: WorkerNo, run: Run, number: u64, charge: u64) -> SpendAnswer {
        match self.refused(worker, run) {
            None => {}
            Some(UpdateAnswer::Gone) => return SpendAnswer::Gone,
            Some(_) => return SpendAnswer::Lost,
        }
        let task = self.task(run.task);
        if let Some((last, answer)) = &task.running().charge
            && number <= *last
        {
            return *answer;
        }
        let Some(most) = self.rules.budget(run.task) else { return SpendAnswer::Unknown };
        let rest = most - task.spent;
        let answer = if charge > rest {
            self.request_stop(run.task, StopCause::BudgetExceeded, self.rules.grace(run.task), LEASEHOLD);
            SpendAnswer::Exceeded { taken: 0, rest }
        } else {
            self.task_mut(run.task).spent += charge;
            SpendAnswer::Taken { rest: rest - charge }
        };
        self.task_mut(run.task).running_mut().charge = Some((number, answer));
        if charge > rest {
            self.look_no_later(run.task);
        }
        self.note_life(run.task);
        answer
    }

    /// Something is left for the next run.
    pub(super) fn leave_checkpoint(&mut self, worker: WorkerNo, run: Run, number: u64) -> UpdateAnswer {
        if let Some(refused) = self.refused(worker, run) {
            return refused;
        }
        let task = self.task_mut(run.task);
        if number > task.running().checkpoint_number {
            task.running_mut().checkpoint_number = number;
            task.checkpoint = true;
            self.note_life(run.task);
        }
        UpdateAnswer::Ok
    }

    /// The system does not end the run's processes.
    pub(super) fn tell_unkillable(&mut self, worker: WorkerNo, run: Run) -> UpdateAnswer {
        if let Some(refused) = self.refused(worker, run) {
            return refused;
        }
        let now = self.now;
        self.task_mut(run.task).running_mut().unkillable = Some(now);
        UpdateAnswer::Ok
    }
}
