//! What people are shown beside records: how long things are kept, who an owner's tasks are, the rest of a lane.

use std::time::Duration;

use redis::Pipeline;

use super::Store;
use super::read::{first, get};
use crate::error::{Error, Result};
use crate::name::{Lane, Owner, QueueName, TaskId};
use crate::record::TaskRecord;
use crate::state::TaskState;

/// Where the running tasks of an owner begin in its index, and where those that live: the bands of `lua/lib/record.lua`.
const RUNNING_BAND: &str = "3e15";
const LIVE_BAND: &str = "2e15";

/// The tasks of an owner by number, and the last ends.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnerTally {
    /// Running or aborting.
    pub running: u64,
    /// All that have not ended.
    pub live: u64,
    /// Ended and kept.
    pub ended: u64,
    /// The tasks that ended last, newest first.
    pub last_ends: Vec<TaskRecord>,
}

impl Store {
    /// How long a queue keeps tasks that ended in a state: zero = not at all; none for a state that is no end, or a queue
    /// that is not registered.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn retention(&self, queue: &QueueName, state: TaskState) -> Result<Option<Duration>> {
        if !state.is_terminal() {
            return Ok(None);
        }
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HGET").arg(self.keys(queue).config()).arg(format!("retain_{state}"));
        let ms: Option<u64> = get(first(self.commands(&pipeline).await?)?)?;
        Ok(ms.map(Duration::from_millis))
    }

    /// Up to `count` members of a lane from place `start` on, in order; fewer, even none, where some are no tasks any more.
    /// None past its end.
    ///
    /// # Errors
    /// Any error of Redis; a record that cannot be read.
    pub async fn lane_page(
        &self,
        queue: &QueueName,
        lane: &Lane,
        start: usize,
        count: usize,
    ) -> Result<Option<Vec<TaskRecord>>> {
        let mut pipeline = Pipeline::new();
        let key = self.keys(queue).lane(lane);
        pipeline.cmd("ZRANGE").arg(key).arg(start).arg(start + count.max(1) - 1);
        let ids = ids(get(first(self.commands(&pipeline).await?)?)?);
        if ids.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.records(queue, &ids).await?.into_iter().flatten().collect()))
    }

    /// How many tasks an owner has, and the `count` that ended last.
    ///
    /// # Errors
    /// Any error of Redis; a record that cannot be read.
    pub async fn owner_tally(&self, queue: &QueueName, owner: &Owner, count: usize) -> Result<OwnerTally> {
        let key = self.keys(queue).owner(owner);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZCOUNT").arg(&key).arg(RUNNING_BAND).arg("+inf");
        pipeline.cmd("ZCOUNT").arg(&key).arg(LIVE_BAND).arg("+inf");
        pipeline.cmd("ZCARD").arg(&key);
        let ended = pipeline.cmd("ZRANGE").arg(&key).arg(format!("({LIVE_BAND}")).arg("-inf").arg("BYSCORE");
        ended.arg("REV").arg("LIMIT").arg(0).arg(count);
        let mut values = self.commands(&pipeline).await?.into_iter();
        let mut next = || values.next().ok_or_else(|| Error::Protocol("no answer".into()));
        let (running, live, all): (u64, u64, u64) = (get(next()?)?, get(next()?)?, get(next()?)?);
        let ids = ids(get(next()?)?);
        let records = self.records(queue, &ids).await?;
        let last_ends = records.into_iter().flatten().filter(|r| r.state.is_terminal()).collect();
        Ok(OwnerTally { running, live, ended: all.saturating_sub(live), last_ends })
    }
}

fn ids(texts: Vec<String>) -> Vec<TaskId> {
    texts.into_iter().filter_map(|id| TaskId::new(id).ok()).collect()
}
