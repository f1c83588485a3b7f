//! Lanes and owners: what belongs together, in order.

use redis::Pipeline;

use super::Store;
use super::read::{first, get};
use crate::error::{Error, Result};
use crate::name::{Lane, Owner, QueueName, TaskId};
use crate::record::TaskRecord;
use crate::script;
use crate::transport::ScriptCall;

/// Most tasks of a lane that may run at a time.
pub const MOST_AT_A_TIME: u32 = 256;

/// A lane as a list tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneRow {
    /// Its text.
    pub lane: Lane,
    /// How many of its tasks may run at a time.
    pub limit: u32,
    /// Tasks that have a place in it: queued, running, waiting for their turn or for their next attempt.
    pub members: u64,
}

/// Tasks that belong together, the interesting ones first.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathering {
    /// How many there are in all, of a lane those that have a place in it.
    pub total: u64,
    /// Some of those that live: of a lane in its order; of an owner what runs first, then the newest.
    pub live: Vec<TaskRecord>,
    /// The last ones that ended, newest first.
    pub ended: Vec<TaskRecord>,
}

impl Store {
    /// Sets how many tasks of a lane may run at a time, 1 to 256, and lets those go that this admits. Returns the limit
    /// before. A lower limit holds for tasks that come: who was let go stays so.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit out of range; any error of Redis.
    pub async fn set_lane_limit(&self, queue: &QueueName, lane: &Lane, limit: u32) -> Result<u32> {
        if !(1..=MOST_AT_A_TIME).contains(&limit) {
            return Err(Error::invalid("limit", format!("{limit} is not 1 to {MOST_AT_A_TIME}")));
        }
        let call =
            ScriptCall::new(&script::LANE, &self.keys(queue)).arg(lane.as_str()).arg(limit.to_string());
        let mut reply = self.ok(queue, call).await?;
        reply.number()?;
        Ok(u32::try_from(reply.number()?).unwrap_or(MOST_AT_A_TIME))
    }

    /// The lanes of a queue that have tasks, or a limit that somebody set: up to `count`, by name.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn lanes(&self, queue: &QueueName, count: usize) -> Result<Vec<LaneRow>> {
        let keys = self.keys(queue);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HVALS").arg(keys.lanes());
        let rows: Vec<Vec<u8>> = get(first(self.commands(&pipeline).await?)?)?;
        let mut lanes: Vec<(Lane, u32)> = rows.iter().filter_map(|row| lane_row(row)).collect();
        lanes.sort();
        lanes.truncate(count);
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = Pipeline::new();
        for (lane, _) in &lanes {
            pipeline.cmd("ZCARD").arg(keys.lane(lane));
        }
        let members = self.commands(&pipeline).await?;
        lanes
            .into_iter()
            .zip(members)
            .map(|((lane, limit), members)| Ok(LaneRow { lane, limit, members: get(members)? }))
            .collect()
    }

    /// A lane's limit; 1 unless somebody set another.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn lane_limit(&self, queue: &QueueName, lane: &Lane) -> Result<u32> {
        let keys = self.keys(queue);
        let field = keys.lane(lane);
        let hash = field.rsplit(':').next().unwrap_or_default();
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HGET").arg(keys.lanes()).arg(hash);
        let row: Option<Vec<u8>> = get(first(self.commands(&pipeline).await?)?)?;
        Ok(row.and_then(|row| lane_row(&row)).map_or(1, |(_, limit)| limit))
    }

    /// The first `count` members of a lane, in order, and its last ends.
    ///
    /// # Errors
    /// Any error of Redis; a record that cannot be read.
    pub async fn lane(&self, queue: &QueueName, lane: &Lane, count: usize) -> Result<Gathering> {
        let keys = self.keys(queue);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZCARD").arg(keys.lane(lane));
        pipeline.cmd("ZRANGE").arg(keys.lane(lane)).arg(0).arg(count.max(1) - 1);
        pipeline.cmd("ZRANGE").arg(keys.lane_ends(lane)).arg(0).arg(count.max(1) - 1).arg("REV");
        let mut values = self.commands(&pipeline).await?.into_iter();
        let mut next = || values.next().ok_or_else(|| Error::Protocol("no answer".into()));
        let (total, members, ended) = (get(next()?)?, ids(get(next()?)?), ids(get(next()?)?));
        let live = self.those(queue, &members, |r| !r.state.is_terminal()).await?;
        let ended = self.those(queue, &ended, |r| r.state.is_terminal()).await?;
        Ok(Gathering { total, live, ended })
    }

    /// How many members of a lane have their place before a task's; none if it has no place.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn ahead_in_lane(&self, queue: &QueueName, lane: &Lane, id: &TaskId) -> Result<Option<u64>> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZRANK").arg(self.keys(queue).lane(lane)).arg(id.as_str());
        get(first(self.commands(&pipeline).await?)?)
    }

    /// Up to `count` tasks of an owner from `start` on: what runs first, then the newest that live, then the last ends.
    ///
    /// # Errors
    /// Any error of Redis; a record that cannot be read.
    pub async fn owned(
        &self,
        queue: &QueueName,
        owner: &Owner,
        start: usize,
        count: usize,
    ) -> Result<Gathering> {
        let key = self.keys(queue).owner(owner);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZCARD").arg(&key);
        pipeline.cmd("ZRANGE").arg(&key).arg(start).arg(start + count.max(1) - 1).arg("REV");
        let mut values = self.commands(&pipeline).await?.into_iter();
        let mut next = || values.next().ok_or_else(|| Error::Protocol("no answer".into()));
        let (total, members) = (get(next()?)?, ids(get(next()?)?));
        let tasks = self.those(queue, &members, |_| true).await?;
        let (ended, live) = tasks.into_iter().partition(|r| r.state.is_terminal());
        Ok(Gathering { total, live, ended })
    }

    async fn those(
        &self,
        queue: &QueueName,
        ids: &[TaskId],
        keep: impl Fn(&TaskRecord) -> bool,
    ) -> Result<Vec<TaskRecord>> {
        Ok(self.records(queue, ids).await?.into_iter().flatten().filter(keep).collect())
    }
}

fn ids(texts: Vec<String>) -> Vec<TaskId> {
    texts.into_iter().filter_map(|id| TaskId::new(id).ok()).collect()
}

/// A row of `Q:lanes`: the limit, a space, the text.
fn lane_row(row: &[u8]) -> Option<(Lane, u32)> {
    let (limit, text) = std::str::from_utf8(row).ok()?.split_once(' ')?;
    Some((Lane::new(text).ok()?, limit.parse().ok()?))
}
