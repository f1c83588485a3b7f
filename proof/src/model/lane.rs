//! Lanes: tasks that take their turn, in order.
//!
//! A task takes its place when it could first be claimed, keeps it until it ends, and may go while it is among the
//! first `limit`. Who was let go is not held back again, also when the limit falls.

use leasehold_common::state::TaskState;

use super::Model;
use crate::words::TaskNo;

/// A lane.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lane {
    /// How many may go at a time.
    pub limit: u32,
    /// Its members in order.
    pub members: Vec<TaskNo>,
}

impl Lane {
    fn first(&self) -> impl Iterator<Item = TaskNo> {
        self.members.iter().copied().take(self.limit as usize)
    }
}

impl Model {
    fn lane_of(&mut self, no: TaskNo) -> Option<&mut Lane> {
        let text = self.rules.lane(no)?;
        Some(self.lanes.entry(text).or_insert(Lane { limit: 1, members: Vec::new() }))
    }

    /// Takes a place at the end of the task's lane unless it has one. True if it has to wait there.
    pub(super) fn must_wait(&mut self, no: TaskNo) -> bool {
        let Some(lane) = self.lane_of(no) else { return false };
        if lane.members.contains(&no) {
            return false;
        }
        lane.members.push(no);
        lane.first().all(|member| member != no)
    }

    /// The task has ended.
    pub(super) fn leave_lane(&mut self, no: TaskNo) {
        let Some(lane) = self.lane_of(no) else { return };
        lane.members.retain(|member| *member != no);
        self.admit(no);
        self.forget_lanes();
    }

    /// Nothing is kept of a lane without tasks, but a limit that somebody set.
    fn forget_lanes(&mut self) {
        self.lanes.retain(|_, lane| lane.limit != 1 || !lane.members.is_empty());
    }

    /// Lets those go whose turn it is in the lane of this task, each in its own level.
    fn admit(&mut self, of: TaskNo) {
        let first: Vec<TaskNo> = self.lane_of(of).map_or_else(Vec::new, |lane| lane.first().collect());
        for no in first {
            if self.task(no).state == TaskState::Waiting {
                let level = self.rules.level(no);
                self.queue(no, level);
            }
        }
    }

    /// A person sets the limit of the lane of this task. Returns the one before.
    pub(super) fn set_limit(&mut self, no: TaskNo, limit: u32) -> u32 {
        let lane = self.lane_of(no).expect("a task of a lane");
        let before = std::mem::replace(&mut lane.limit, limit);
        self.admit(no);
        self.forget_lanes();
        before
    }
}
