//! What people are shown beside records: how long things are kept, who an owner's tasks are, the rest of a lane.

use std::time::Duration;

use redis::Pipeline;

use super::Store;
use super::read::{first, get, ids};
use super::records::{Records, those};
use crate::error::{Error, Result};
use crate::name::{Lane, Owner, QueueName};
use crate::state::TaskState;

/// Where the running tasks of an owner begin in its index, and where those that live: the bands of `lua/lib/record.lua`.
const RUNNING_BAND: f64 = 3e15;
pub(super) const LIVE_BAND: f64 = 2e15;

/// The tasks of an owner by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerTally {
    /// Running or aborting.
    pub running: u64,
    /// All that have not ended.
    pub live: u64,
    /// Ended and kept.
    pub ended: u64,
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
    /// Any error of Redis.
    pub async fn lane_page(
        &self,
        queue: &QueueName,
        lane: &Lane,
        start: usize,
        count: usize,
    ) -> Result<Option<Records>> {
        let mut pipeline = Pipeline::new();
        let key = self.keys(queue).lane(lane);
        pipeline.cmd("ZRANGE").arg(key).arg(start).arg(start + count.max(1) - 1);
        let ids = ids(get(first(self.commands(&pipeline).await?)?)?);
        if ids.is_empty() {
            return Ok(None);
        }
        Ok(Some(those(self.listed(queue, ids).await?, |_| true)))
    }

    /// How many tasks an owner has.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn owner_tally(&self, queue: &QueueName, owner: &Owner) -> Result<OwnerTally> {
        let key = self.keys(queue).owner(owner);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZCOUNT").arg(&key).arg(RUNNING_BAND).arg("+inf");
        pipeline.cmd("ZCOUNT").arg(&key).arg(LIVE_BAND).arg("+inf");
        pipeline.cmd("ZCARD").arg(&key);
        let mut values = self.commands(&pipeline).await?.into_iter();
        let mut next = || values.next().ok_or_else(|| Error::Protocol("no answer".into()));
        let (running, live, all): (u64, u64, u64) = (get(next()?)?, get(next()?)?, get(next()?)?);
        Ok(OwnerTally { running, live, ended: all.saturating_sub(live) })
    }

    /// Up to `count` tasks of an owner that have ended, the last first, from place `start` on.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn owner_ends(
        &self,
        queue: &QueueName,
        owner: &Owner,
        start: usize,
        count: usize,
    ) -> Result<Records> {
        let mut pipeline = Pipeline::new();
        let ended = pipeline.cmd("ZRANGE").arg(self.keys(queue).owner(owner));
        ended.arg(format!("({LIVE_BAND}")).arg("-inf").arg("BYSCORE").arg("REV");
        ended.arg("LIMIT").arg(start).arg(count);
        let ended = ids(get(first(self.commands(&pipeline).await?)?)?);
        Ok(those(self.listed(queue, ended).await?, |r| r.state.is_terminal()))
    }
}
