//! Why a task is where it is: since when, what keeps it there, who acts next and by when.
//!
//! [`explain`] is a pure function of what is known of the task and of [`Facts`] about its surroundings: the same facts give
//! the same text.

mod ended;
mod live;
mod words;

#[cfg(test)]
mod tests;

use std::time::Duration;

use leasehold_common::keys::LEVELS;

use crate::error::{Error, Result};
use crate::{Bounds, Producer, QueueName, TaskDetail, TaskId, TaskRecord, TaskState};
use words::moment;

/// Members of a lane that are told one by one.
const TOLD: usize = 3;
/// A reaper that has not swept for so long is away.
const AWAY: Duration = Duration::from_secs(10);
/// A reaper comes to a new queue within this time.
const SOON: Duration = Duration::from_secs(2);

/// What surrounds a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// The queue's time, ms.
    pub now_ms: u64,
    /// The queue's lease T.
    pub lease: Duration,
    /// Living workers of the queue.
    pub workers: usize,
    /// Their slots.
    pub slots: usize,
    /// How long ago a reaper swept the queue, of a new one since it was made; none if none ever did.
    pub swept: Option<Duration>,
    /// How many members of its lane have their place before it; none if it has no place in one.
    pub ahead_in_lane: Option<u64>,
    /// How many tasks of its lane may run at a time.
    pub lane_limit: u64,
    /// The first of those that have their turn in its lane, in order, with the bounds that their bodies keep; one more than
    /// is told where there are more.
    pub lane_turns: Vec<(TaskRecord, Option<Bounds>)>,
    /// Those among the first of its lane whose records cannot be read.
    pub lane_unreadable: Vec<TaskId>,
    /// How many queued tasks there are in the ready streams up to its own, itself among them.
    pub queued_up_to_it: u64,
    /// How long the queue keeps tasks of its state; none where nothing says so.
    pub retention: Option<Duration>,
}

/// Why a task is where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The queue.
    pub queue: QueueName,
    /// The task.
    pub id: TaskId,
    /// Its state.
    pub state: TaskState,
    /// Since when it is in this state, ms by Redis's clock; none where nothing says so.
    pub since_ms: Option<u64>,
    /// Why: sentences.
    pub why: String,
    /// Who acts next, and what happens then: sentences.
    pub next: String,
    /// By when that is at the latest, ms; none where no machine owes a step.
    pub by_ms: Option<u64>,
    now_ms: u64,
}

impl Explanation {
    /// All of it as one paragraph; what came from outside is made printable.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { queue, state, why, next, .. } = self;
        let id = leasehold_common::text::printable(self.id.as_str());
        let since = self.since_ms.map(|ms| format!(" since {}", moment(ms, self.now_ms))).unwrap_or_default();
        let gap = if why.is_empty() { "" } else { " " };
        format!("Task {id} of queue {queue} is {state}{since}. {why}{gap}{next}")
    }
}

/// What one kind of state has to say.
struct Said {
    since_ms: Option<u64>,
    why: Vec<String>,
    next: Vec<String>,
    by_ms: Option<u64>,
}

/// Explains where a task is.
#[must_use]
pub fn explain(queue: &QueueName, detail: &TaskDetail, facts: &Facts) -> Explanation {
    let record = &detail.record;
    let mut said = match record.state {
        TaskState::Scheduled => live::scheduled(detail, facts),
        TaskState::Waiting => live::waiting(record, facts),
        TaskState::Queued => live::queued(queue, record, facts),
        TaskState::Running => live::running(detail, facts),
        TaskState::Aborting => live::aborting(record, facts),
        TaskState::Completed | TaskState::Failed | TaskState::TimedOut | TaskState::Aborted => {
            ended::ended(detail, facts)
        }
    };
    if let Some(deadline) = record.deadline_ms {
        said.next.extend(live::deadline(detail, deadline, facts));
        let sooner = said.by_ms.is_none_or(|by| deadline < by);
        if sooner && !record.state.has_run() && !record.state.is_terminal() {
            said.by_ms = Some(deadline);
        }
    }
    if facts.workers == 0 && matches!(record.state, TaskState::Scheduled | TaskState::Waiting) {
        said.next.push(words::no_worker(queue));
    }
    if !record.state.is_terminal() && facts.swept.is_none_or(|ago| ago > AWAY) {
        said.next.push(words::no_reaper(queue, facts.swept));
    }
    Explanation {
        queue: queue.clone(),
        id: record.id.clone(),
        state: record.state,
        since_ms: said.since_ms,
        why: said.why.join(" "),
        next: said.next.join(" "),
        by_ms: said.by_ms,
        now_ms: facts.now_ms,
    }
}

impl Producer {
    /// What surrounds a task that was just read.
    ///
    /// # Errors
    /// [`Error::NotFound`] when its queue is not registered; any error of Redis.
    pub async fn facts(&self, queue: &QueueName, record: &TaskRecord) -> Result<Facts> {
        let ids = std::slice::from_ref(&record.id);
        let Some(look) = self.repeat(|| self.store().inspect(queue, ids)).await? else {
            return Err(Error::NotFound { queue: queue.clone(), id: record.id.clone() });
        };
        let mut facts = Facts { now_ms: look.now_ms, lease: look.lease, lane_limit: 1, ..Facts::default() };
        if record.state.is_terminal() {
            facts.retention = self.retention(queue, record.state).await?;
            return Ok(facts);
        }
        let fact = |name: &str| u64::try_from(look.facts.number(name)).unwrap_or_default();
        let swept = facts.now_ms.saturating_sub(fact("pulse.last"));
        // Registering a queue begins its pulse; its watch clock goes once a reaper came.
        let swept = Duration::from_millis(swept);
        facts.swept = (fact("pulse.watch") > 0 || swept < SOON).then_some(swept);
        let living = self.workers().await?;
        let slots = living.iter().filter_map(|worker| worker.queues.get(queue));
        (facts.workers, facts.slots) = slots.fold((0, 0), |(n, all), slots| (n + 1, all + slots));
        if let Some((level, _)) = record.queued_in() {
            let upto = LEVELS.iter().take(1 + LEVELS.iter().position(|l| *l == level).unwrap_or_default());
            facts.queued_up_to_it = upto.map(|level| fact(&format!("ready:{level}"))).sum();
        }
        if let Some(place) = look.tasks.first() {
            (facts.ahead_in_lane, facts.lane_limit) = (place.lane_rank, place.lane_limit);
        }
        if let Some(lane) = record.lane.as_ref().filter(|_| record.state == TaskState::Waiting) {
            let mut members = self.lane_page(queue, lane, 0, TOLD + 1).await?.unwrap_or_default();
            members.tasks.retain(|r| r.state != TaskState::Waiting);
            let bounds = self.bodies(queue, &members.tasks).await?.into_iter().map(|body| Some(body?.bounds));
            facts.lane_turns = members.tasks.into_iter().zip(bounds).collect();
            facts.lane_unreadable = members.unreadable;
        }
        Ok(facts)
    }

    /// Why a task is where it is; none for an unknown id.
    ///
    /// # Errors
    /// Any error of Redis; a record that cannot be read.
    pub async fn explain(&self, queue: &QueueName, id: &TaskId) -> Result<Option<Explanation>> {
        let Some(detail) = self.detail(queue, id).await? else { return Ok(None) };
        let facts = self.facts(queue, &detail.record).await?;
        Ok(Some(explain(queue, &detail, &facts)))
    }
}
