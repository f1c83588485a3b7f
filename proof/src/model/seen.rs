//! The model in the shared words.

use leasehold_common::state::TaskState;

use super::Model;
use super::lane::Lane;
use super::task::Task;
use crate::words::{Seen, SeenTask, TaskNo};

impl Model {
    /// What is to be seen now.
    pub(super) fn see(&self) -> Seen {
        let tasks = self.tasks.iter().map(|(no, task)| (*no, self.see_task(*no, task))).collect();
        let lane = |(text, lane): (&String, &Lane)| (text.clone(), (lane.limit, lane.members.clone()));
        Seen {
            tasks,
            ready: self.ready.iter().map(|(level, queued)| (level.name(), queued.clone())).collect(),
            lanes: self.lanes.iter().map(lane).collect(),
            gone: self.gone.keys().copied().collect(),
        }
    }

    fn see_task(&self, no: TaskNo, task: &Task) -> SeenTask {
        let run = task.run.as_ref();
        debug_assert_eq!(run.is_some(), task.state.has_run(), "a run belongs to a task that runs");
        debug_assert_eq!(task.due.is_some(), task.state == TaskState::Scheduled, "due while it is scheduled");
        SeenTask {
            state: task.state,
            rev: task.rev,
            attempt: task.attempt,
            failures: task.failures,
            reclaims: task.reclaims,
            owner: run.map(|run| run.worker),
            due: task.due,
            ended: task.ended,
            deadline: task.deadline,
            stop: task.stop.as_ref().map(|stop| (stop.cause, stop.at, stop.hard_end)),
            failure: task.failure,
            spent: self.rules.budget(no).map(|_| task.spent),
            phase: task.phase.as_ref().map(|phase| (phase.name.to_owned(), phase.since)),
            checkpoint: task.checkpoint,
            suspected: run.is_some_and(|run| run.missed.is_some()),
            lease_until: run.map(|run| run.lease_until(self.rules.lease)).filter(|until| *until > self.now),
        }
    }
}
