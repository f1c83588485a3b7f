//! A producer's task is accepted, or known.

use leasehold_common::bounds::Deadline;
use leasehold_common::store::{Enqueued, KnownState, When};

use super::Model;
use super::rules::ms;
use super::task::Task;
use crate::words::TaskNo;

impl Model {
    /// Accepts a task, or says what there is under its id: identity comes before everything else. `other`: with another
    /// payload.
    pub(super) fn enqueue(&mut self, no: TaskNo, other: bool) -> Enqueued {
        if let Some(known) = self.tasks.get(&no) {
            let state = KnownState::Is(known.state);
            return if known.other == other { Enqueued::Exists(state) } else { Enqueued::Conflict(state) };
        }
        if self.is_gone(no) {
            return Enqueued::Exists(KnownState::Gone);
        }
        let mut task = Task::new(other);
        task.deadline = self.rules.body(no).bounds.deadline.map(|deadline| match deadline {
            Deadline::After(after) => self.now + ms(after),
            Deadline::At(at) => at,
        });
        self.tasks.insert(no, task);
        let due = match self.rules.new_task(no).when {
            When::Now => self.now,
            When::After(delay) => self.now + ms(delay),
            When::At(at) => at,
        };
        if due > self.now {
            self.schedule(no, due);
        } else {
            let level = self.rules.level(no);
            self.make_ready(no, level);
        }
        Enqueued::Created(self.task(no).state)
    }
}
