//! What does not change while a world is played: the settings of the queue and what its tasks ask for.

use std::time::Duration;

use leasehold_common::body::Body;
use leasehold_common::policy::OnLeaseExpired;
use leasehold_common::state::TaskState;
use leasehold_common::store::{NewTask, QueueSettings};

use super::level::Level;
use crate::words::{TaskNo, World};

/// The one budget that calls name.
const CALLS: &str = "calls";

/// Settings and tasks of a world. Times are ms.
#[derive(Debug, PartialEq)]
pub(super) struct Rules {
    /// How long a run lives without a sign of its worker: T.
    pub lease: u64,
    /// How often its worker gives one: B, a third of it.
    pub beat: u64,
    settings: QueueSettings,
    tasks: Vec<NewTask>,
}

/// A duration in ms.
pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Rules {
    pub(super) fn of(world: &World) -> Self {
        let lease = ms(world.settings.lease);
        Self { lease, beat: lease / 3, settings: world.settings, tasks: world.tasks.clone() }
    }

    /// What a producer enqueues under this number.
    pub(super) fn new_task(&self, no: TaskNo) -> &NewTask {
        &self.tasks[no]
    }

    /// What the task asks for.
    pub(super) fn body(&self, no: TaskNo) -> &Body {
        &self.tasks[no].body
    }

    /// The level in which it is queued.
    pub(super) fn level(&self, no: TaskNo) -> Level {
        Level::of(self.body(no).priority)
    }

    /// The text of its lane.
    pub(super) fn lane(&self, no: TaskNo) -> Option<String> {
        self.body(no).lane.as_ref().map(|lane| lane.as_str().to_owned())
    }

    /// What it may spend.
    pub(super) fn budget(&self, no: TaskNo) -> Option<u64> {
        self.body(no).bounds.budgets.iter().find(|(name, _)| name.as_str() == CALLS).map(|(_, most)| *most)
    }

    /// Must it not be started twice?
    pub(super) fn runs_once(&self, no: TaskNo) -> bool {
        self.body(no).policy.on_lease_expired == OnLeaseExpired::Fail
    }

    /// Between a stop and what kills the run.
    pub(super) fn grace(&self, no: TaskNo) -> u64 {
        ms(self.body(no).policy.stop_grace)
    }

    /// When nobody waits any longer for a run that was asked to stop: its grace, then a lease and a beat for its worker to
    /// say so.
    pub(super) fn hard_end(&self, stopped_at: u64, grace: u64) -> u64 {
        stopped_at + grace + self.lease + self.beat
    }

    /// How long a task that ended in this state is kept; 0 = not at all.
    pub(super) fn retention(&self, state: TaskState) -> u64 {
        let s = &self.settings;
        ms(match state {
            TaskState::Completed => s.retain_completed,
            TaskState::Failed => s.retain_failed,
            TaskState::TimedOut => s.retain_timed_out,
            TaskState::Aborted => s.retain_aborted,
            TaskState::Scheduled
            | TaskState::Waiting
            | TaskState::Queued
            | TaskState::Running
            | TaskState::Aborting => Duration::MAX,
        })
    }
}
