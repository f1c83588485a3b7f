//! Where tasks lie, and how they get from one place to the next. Every transition goes through `enter`.

use leasehold_common::state::TaskState;

use super::level::Level;
use super::task::Task;
use super::{GONE_MS, Model};
use crate::words::TaskNo;

impl Model {
    fn enter(&mut self, no: TaskNo, state: TaskState) -> &mut Task {
        let task = self.task_mut(no);
        task.state = state;
        task.rev += 1;
        task.due = None;
        task.ended = None;
        task
    }

    /// Its time has not come.
    pub(super) fn schedule(&mut self, no: TaskNo, due: u64) {
        self.enter(no, TaskState::Scheduled).due = Some(due);
    }

    /// At the tail of a ready stream.
    pub(super) fn queue(&mut self, no: TaskNo, level: Level) {
        self.enter(no, TaskState::Queued);
        self.ready.entry(level).or_default().push(no);
    }

    /// Queued, or waiting if its lane has no room for it. Who has a place there already was let go before, and is not
    /// held back again.
    pub(super) fn make_ready(&mut self, no: TaskNo, level: Level) {
        if self.must_wait(no) {
            self.enter(no, TaskState::Waiting);
        } else {
            self.queue(no, level);
        }
    }

    /// Claimed.
    pub(super) fn enter_run(&mut self, no: TaskNo) {
        self.leave_ready(no);
        self.enter(no, TaskState::Running);
    }

    /// Its run is asked to end by a person.
    pub(super) fn enter_abort(&mut self, no: TaskNo) {
        self.enter(no, TaskState::Aborting);
    }

    fn leave_ready(&mut self, no: TaskNo) {
        self.ready.retain(|_, level| {
            level.retain(|queued| *queued != no);
            !level.is_empty()
        });
    }

    /// Ends a task. Its place in the lane goes to the next; what the queue does not keep is removed at once.
    pub(super) fn end(&mut self, no: TaskNo, state: TaskState) {
        self.leave_ready(no);
        let now = self.now;
        self.enter(no, state).ended = Some(now);
        self.leave_lane(no);
        if self.rules.retention(state) == 0 {
            self.remove(no, now);
        }
    }

    /// Removes a task that ended at this time; its id is remembered while that is less than a minute ago.
    pub(super) fn remove(&mut self, no: TaskNo, ended: u64) {
        self.tasks.remove(&no);
        if self.now - ended < GONE_MS {
            self.gone.insert(no, self.now);
        }
    }

    /// What is due leaves the schedule. Returns how many did.
    pub(super) fn promote(&mut self) -> u64 {
        let due = self.due(|task| task.due);
        for no in &due {
            let level = self.rules.level(*no);
            self.make_ready(*no, level);
        }
        due.len() as u64
    }
}
