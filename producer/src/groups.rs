//! Lanes and owners: what belongs together, how it stands, and what is in it.

use std::time::Duration;

use crate::error::Result;
use crate::{
    Body, Gathering, Lane, LaneRow, Owner, OwnerTally, Producer, QueueName, Records, TaskId, TaskKind,
    TaskRecord, TaskState,
};

/// Pages that a view by kind reads at most before it ends with a next one: kinds are in bodies.
const PAGES: usize = 10;

/// What an owner or a lane is at, by its own tasks alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// A task of it runs.
    Running,
    /// None runs but such as were aborted and have not ended yet.
    Aborting,
    /// None runs, and the one that ended last failed or timed out.
    Failed,
    /// None runs, and none has ended, or the last one did so by its result or an abort.
    Idle,
    /// None was found that says it, and not all could be looked at: more have ended than are remembered or looked
    /// through, or the record of one that runs cannot be read.
    Unknown,
}

impl Activity {
    /// The name as the CLI and JSON spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Aborting => "aborting",
            Self::Failed => "failed",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
        }
    }
}

/// How an owner or a lane stands: by the task that runs, else by the one that ended last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    /// What it is at.
    pub activity: Activity,
    /// The task that says so; none where nothing ran yet.
    pub task: Option<TaskId>,
    /// When that task's current or last run began, ms by Redis's clock.
    pub started_ms: Option<u64>,
    /// When it ended, ms; none while it runs.
    pub ended_ms: Option<u64>,
    /// How long it has run, or ran.
    pub runtime: Option<Duration>,
    /// How the task that ended last did so: a kill or a failure stays one.
    pub last_outcome: Option<TaskState>,
}

impl GroupStatus {
    /// Of these tasks; `now_ms` is Redis's time. Those that only wait say nothing of it.
    #[must_use]
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a TaskRecord>, now_ms: u64) -> Self {
        let (mut active, mut last): (Option<&TaskRecord>, Option<&TaskRecord>) = (None, None);
        // What runs goes before what is being aborted, and of two the one that began last.
        let rank = |r: &TaskRecord| (r.state == TaskState::Running, r.started_ms);
        for task in tasks {
            if task.state.has_run() && active.is_none_or(|known| rank(task) > rank(known)) {
                active = Some(task);
            } else if task.state.is_terminal() && last.is_none_or(|known| task.ended_ms > known.ended_ms) {
                last = Some(task);
            }
        }
        let last_outcome = last.map(|task| task.state);
        let activity = match (active.map(|task| task.state), last_outcome) {
            (Some(TaskState::Running), _) => Activity::Running,
            (Some(_), _) => Activity::Aborting,
            (None, Some(TaskState::Failed | TaskState::TimedOut)) => Activity::Failed,
            (None, _) => Activity::Idle,
        };
        let shown = active.or(last);
        let started_ms = shown.and_then(|task| task.started_ms);
        let ended_ms = shown.and_then(|task| task.ended_ms);
        let until = ended_ms.unwrap_or(now_ms);
        let runtime = started_ms.map(|from| Duration::from_millis(until.saturating_sub(from)));
        Self { activity, task: shown.map(|t| t.id.clone()), started_ms, ended_ms, runtime, last_outcome }
    }

    /// The same where something that runs, or the last end, may be out of sight: what is not seen is no `idle`.
    pub(crate) fn where_hidden(mut self, active: bool, ends: bool) -> Self {
        let idle = matches!(self.activity, Activity::Failed | Activity::Idle);
        if idle && (active || (ends && self.last_outcome.is_none())) {
            self.activity = Activity::Unknown;
        }
        self
    }
}

/// An owner with some of its tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnerView {
    /// How it stands; of tasks of the kind asked for.
    pub status: GroupStatus,
    /// Its tasks by number, of all kinds.
    pub tally: OwnerTally,
    /// A page of its tasks, of the kind asked for, with their bodies: what runs first, then the newest that live, then the
    /// last ends.
    pub tasks: Vec<(TaskRecord, Option<Body>)>,
    /// Those of this page, and of the last ends that the status was looked for in, whose records cannot be read.
    pub unreadable: Vec<TaskId>,
    /// Where the next page begins; none at the end.
    pub next: Option<usize>,
}

impl Producer {
    /// The lanes of a queue that have tasks, or a limit that somebody set: up to `count`, by name.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn lanes(&self, queue: &QueueName, count: usize) -> Result<Vec<LaneRow>> {
        self.repeat(|| self.store().lanes(queue, count)).await
    }

    /// The first `count` members of a lane, in order, and its last ends (25 at most), newest first.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn lane(&self, queue: &QueueName, lane: &Lane, count: usize) -> Result<Gathering> {
        self.repeat(|| self.store().lane(queue, lane, count)).await
    }

    /// Up to `count` members of a lane from place `start` on, in order: maybe fewer. None past its end.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn lane_page(
        &self,
        queue: &QueueName,
        lane: &Lane,
        start: usize,
        count: usize,
    ) -> Result<Option<Records>> {
        self.repeat(|| self.store().lane_page(queue, lane, start, count)).await
    }

    /// How many tasks of a lane may run at a time: 1 unless somebody set another number.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn lane_limit(&self, queue: &QueueName, lane: &Lane) -> Result<u32> {
        self.repeat(|| self.store().lane_limit(queue, lane)).await
    }

    /// Sets how many tasks of a lane may run at a time, 1 to 256, and lets those go that this admits. Returns the number
    /// before. A lower one holds for tasks that come: who was let go stays so.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a limit out of range; any error of Redis.
    pub async fn set_lane_limit(&self, queue: &QueueName, lane: &Lane, limit: u32) -> Result<u32> {
        self.repeat(|| self.store().set_lane_limit(queue, lane, limit)).await
    }

    /// How many members of a lane have their place before a task's; none if it has no place there.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn ahead_in_lane(&self, queue: &QueueName, lane: &Lane, id: &TaskId) -> Result<Option<u64>> {
        self.repeat(|| self.store().ahead_in_lane(queue, lane, id)).await
    }

    /// Up to `count` tasks of an owner from place `start` on: what runs first, then the newest that live, then the last
    /// ends.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn owned(
        &self,
        queue: &QueueName,
        owner: &Owner,
        start: usize,
        count: usize,
    ) -> Result<Gathering> {
        self.repeat(|| self.store().owned(queue, owner, start, count)).await
    }

    /// How an owner stands and a page of its tasks, `count` (1 to 1,000) from place `start` on, of `kind` alone if one is
    /// named. It costs as much as it shows; by kind ten pages at most, and a page may then be short and have a next one. The
    /// status is no matter of the page: by kind it reads on, over the last 1,000 ends at most.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn owner_view(
        &self,
        queue: &QueueName,
        owner: &Owner,
        kind: Option<TaskKind>,
        start: usize,
        count: usize,
    ) -> Result<OwnerView> {
        let count = count.clamp(1, 1000);
        let tally = self.repeat(|| self.store().owner_tally(queue, owner)).await?;
        let (status, mut unreadable) = self.owner_status(queue, owner, kind, &tally).await?;
        let fits = |body: &Option<Body>| kind.is_none_or(|k| body.as_ref().is_some_and(|b| b.kind == k));
        let (mut tasks, mut place, mut total) = (Vec::new(), start, 0);
        for _ in 0..PAGES {
            let wanted = count - tasks.len();
            let Gathering { live, ended, total: all, .. } = self.owned(queue, owner, place, wanted).await?;
            (place, total) = (place + wanted, all);
            let mut found = live;
            found.append(ended);
            let bodies = self.bodies(queue, &found.tasks).await?;
            tasks.extend(found.tasks.into_iter().zip(bodies).filter(|(_, body)| fits(body)));
            unreadable.extend(found.unreadable);
            if tasks.len() >= count || place as u64 >= total {
                break;
            }
        }
        unreadable.sort();
        unreadable.dedup();
        Ok(OwnerView { status, tally, tasks, unreadable, next: ((place as u64) < total).then_some(place) })
    }

    /// What the last run that left a checkpoint left for the next; none without.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn checkpoint(&self, queue: &QueueName, id: &TaskId) -> Result<Option<Vec<u8>>> {
        self.repeat(|| self.store().checkpoint(queue, id)).await
    }

    /// How long a queue keeps tasks that ended in a state; zero = not at all, none where nothing says so.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn retention(&self, queue: &QueueName, state: TaskState) -> Result<Option<Duration>> {
        self.repeat(|| self.store().retention(queue, state)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, state: TaskState, started: u64, ended: Option<u64>) -> TaskRecord {
        let mut task = TaskRecord::sample(TaskId::new(name).unwrap(), state);
        (task.started_ms, task.ended_ms) = (Some(started), ended);
        task
    }

    #[test]
    fn r29_a_status_is_that_of_the_active_task_else_of_the_last_that_ended() {
        let running = task("a", TaskState::Running, 4000, None);
        let aborting = task("b", TaskState::Aborting, 5000, None);
        let failed = task("c", TaskState::TimedOut, 1000, Some(3000));
        let killed = task("d", TaskState::Aborted, 3500, Some(3700));
        let of = |tasks: &[&TaskRecord]| GroupStatus::of(tasks.iter().copied(), 10_000);
        let status = of(&[&failed, &aborting, &running]);
        assert_eq!((status.activity, status.task.as_ref()), (Activity::Running, Some(&running.id)));
        assert_eq!((status.started_ms, status.ended_ms), (Some(4000), None));
        assert_eq!(status.runtime, Some(Duration::from_secs(6)));
        assert_eq!(status.last_outcome, Some(TaskState::TimedOut));
        assert_eq!(of(&[&aborting, &failed]).activity, Activity::Aborting);
        let status = of(&[&failed]);
        assert_eq!((status.activity, status.ended_ms), (Activity::Failed, Some(3000)));
        assert_eq!(status.runtime, Some(Duration::from_secs(2)));
        // A kill is no "done": how it ended is told.
        let status = of(&[&failed, &killed]);
        assert_eq!((status.activity, status.last_outcome), (Activity::Idle, Some(TaskState::Aborted)));
        let waiting = TaskRecord::sample(TaskId::new("e").unwrap(), TaskState::Queued);
        assert_eq!(of(&[&waiting]).activity, Activity::Idle);
        assert_eq!(of(&[&waiting, &failed]).activity, Activity::Failed);
    }
}
