//! How a queue stands: what is in it, who works on it, and what is missing.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_common::time::display_duration;

use crate::error::Result;
use crate::{Producer, QueueName, TaskState, WorkerInfo};

/// A queue that no reaper sweeps for so long is warned of.
const SWEEP_MISSED: Duration = Duration::from_secs(30);
/// Up to so many running tasks are looked at one by one, to tell aborting ones apart.
const TOLD_APART: u64 = 1000;

/// How a queue stands.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueStatus {
    /// The queue.
    pub queue: QueueName,
    /// Tasks by state. Over 1,000 running ones, aborting ones are counted among them.
    pub counts: BTreeMap<TaskState, u64>,
    /// How long the oldest queued task has been in its ready stream.
    pub oldest_queued: Option<Duration>,
    /// How long ago a reaper last swept it; since its registration if none ever did.
    pub last_sweep: Option<Duration>,
    /// Its lease T.
    pub lease: Duration,
    /// The living workers that take tasks from it, with their slots.
    pub workers: Vec<(WorkerInfo, usize)>,
    /// What is missing, for people: no reaper, no worker.
    pub warnings: Vec<String>,
}

impl QueueStatus {
    /// Tasks in a state.
    #[must_use]
    pub fn count(&self, state: TaskState) -> u64 {
        self.counts.get(&state).copied().unwrap_or_default()
    }

    /// Tasks that have not ended.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.counts.iter().filter(|(state, _)| !state.is_terminal()).map(|(_, n)| n).sum()
    }

    /// Slots of all living workers.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.workers.iter().map(|(_, slots)| slots).sum()
    }

    fn warn(&mut self) {
        let queue = &self.queue;
        if let Some(age) = self.last_sweep.filter(|age| *age > SWEEP_MISSED) {
            self.warnings.push(format!(
                "no reaper has swept queue {queue} for {}: lost workers go unnoticed; start `leasehold reaper` \
                 or a worker with --with-reaper",
                display_duration(age)
            ));
        }
        let live = self.live();
        if self.workers.is_empty() && live > 0 {
            self.warnings.push(format!(
                "no living worker for queue {queue}, which has {live} tasks; start `leasehold worker --queue \
                 {queue}=SLOTS`"
            ));
        }
    }
}

impl Producer {
    /// How a queue stands; none for a queue that was never registered.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn queue_status(&self, queue: &QueueName) -> Result<Option<QueueStatus>> {
        let Some(seen) = self.repeat(|| self.store().inspect(queue, &[])).await? else { return Ok(None) };
        let living = self.workers().await?;
        let fact = |name: &str| u64::try_from(seen.facts.number(name)).unwrap_or_default();
        let mut counts = BTreeMap::from([
            (TaskState::Scheduled, fact("scheduled")),
            (TaskState::Waiting, fact("waiting")),
            (TaskState::Queued, u64::try_from(seen.facts.queued()).unwrap_or_default()),
        ]);
        for state in TaskState::ALL.into_iter().filter(|state| state.is_terminal()) {
            counts.insert(state, fact(&format!("done:{state}")));
        }
        let owned = fact("running");
        let aborting = self.aborting(queue, owned).await?;
        counts.insert(TaskState::Running, owned - aborting);
        counts.insert(TaskState::Aborting, aborting);
        let ago = |ms: u64| Duration::from_millis(seen.now_ms.saturating_sub(ms));
        let slots = |worker: WorkerInfo| worker.queues.get(queue).copied().map(|slots| (worker, slots));
        let mut status = QueueStatus {
            queue: queue.clone(),
            counts,
            oldest_queued: seen.facts.oldest_queued_ms().map(ago),
            last_sweep: Some(fact("pulse.last")).filter(|ms| *ms > 0).map(ago),
            lease: seen.lease,
            workers: living.into_iter().filter_map(slots).collect(),
            warnings: Vec::new(),
        };
        status.warn();
        Ok(Some(status))
    }

    async fn aborting(&self, queue: &QueueName, owned: u64) -> Result<u64> {
        if owned == 0 || owned > TOLD_APART {
            return Ok(0);
        }
        let page = self.list(queue, TaskState::Aborting, None, 1000).await?;
        Ok((page.tasks.len() as u64).min(owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(queued: u64, swept: u64) -> QueueStatus {
        QueueStatus {
            queue: QueueName::new("q").unwrap(),
            counts: BTreeMap::from([(TaskState::Queued, queued), (TaskState::Completed, 7)]),
            oldest_queued: None,
            last_sweep: Some(Duration::from_secs(swept)),
            lease: Duration::from_secs(15),
            workers: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn warnings(mut status: QueueStatus) -> Vec<String> {
        status.warn();
        status.warnings
    }

    #[test]
    fn r15_a_missing_reaper_is_said_after_30_s_and_a_missing_worker_when_there_are_tasks() {
        assert!(warnings(status(0, 30)).is_empty());
        let missing = warnings(status(2, 31));
        assert!(missing[0].contains("no reaper has swept queue q for 31s"), "{missing:?}");
        assert!(missing[1].contains("no living worker for queue q, which has 2 tasks"), "{missing:?}");
    }
}
