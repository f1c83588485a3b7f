//! Lanes and owners: what belongs together, in order.

use redis::Pipeline;

use super::Store;
use super::read::{first, get, ids};
use super::records::{Listed, Records, those};
use super::views::LIVE_BAND;
use crate::error::{Error, Result};
use crate::name::{Lane, Owner, QueueName, TaskId};
use crate::record::TaskRecord;
use crate::script;
use crate::transport::ScriptCall;

/// Most tasks of a lane that may run at a time.
pub const MOST_AT_A_TIME: u32 = 256;

/// The last ends that a lane remembers: as many as `lua/lib/lane.lua` keeps.
pub const LANE_ENDS: usize = 25;

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
    pub live: Records,
    /// Of each of these that can be read, its place in what was asked for, from 0; one between that cannot has one too.
    pub places: Vec<usize>,
    /// The last ones that ended, newest first.
    pub ended: Records,
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
    /// Any error of Redis.
    pub async fn lane(&self, queue: &QueueName, lane: &Lane, count: usize) -> Result<Gathering> {
        let keys = self.keys(queue);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZCARD").arg(keys.lane(lane));
        pipeline.cmd("ZRANGE").arg(keys.lane(lane)).arg(0).arg(count.max(1) - 1);
        pipeline.cmd("ZRANGE").arg(keys.lane_ends(lane)).arg(0).arg(count.max(1) - 1).arg("REV");
        let mut values = self.commands(&pipeline).await?.into_iter();
        let mut next = || values.next().ok_or_else(|| Error::Protocol("no answer".into()));
        let (total, members, ended) = (get(next()?)?, ids(get(next()?)?), ids(get(next()?)?));
        let (members, ended) = (self.listed(queue, members).await?, self.listed(queue, ended).await?);
        Ok(Gathering {
            total,
            places: places(&members),
            live: those(members, is_live),
            ended: those(ended, |r| r.state.is_terminal()),
        })
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
    /// Any error of Redis.
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
        let page = pipeline.cmd("ZRANGE").arg(&key).arg(start).arg(start + count.max(1) - 1);
        page.arg("REV").arg("WITHSCORES");
        let mut values = self.commands(&pipeline).await?.into_iter();
        let mut next = || values.next().ok_or_else(|| Error::Protocol("no answer".into()));
        let (total, rows): (u64, Vec<(String, f64)>) = (get(next()?)?, get(next()?)?);
        let rows = rows.into_iter().filter_map(|(id, score)| Some((TaskId::new(id).ok()?, score)));
        let (ids, scores): (Vec<TaskId>, Vec<f64>) = rows.unzip();
        let listed = self.listed(queue, ids).await?;
        // A record says whether its task lives; of one that cannot be read its place in the index does.
        let (live, ended): (Vec<_>, Vec<_>) =
            listed.into_iter().zip(scores).partition(|((_, found), score)| match found {
                Some(Ok(record)) => !record.state.is_terminal(),
                _ => *score >= LIVE_BAND,
            });
        let bare = |rows: Vec<(_, f64)>| rows.into_iter().map(|(row, _)| row).collect::<Vec<_>>();
        let (live, ended) = (bare(live), bare(ended));
        Ok(Gathering {
            total,
            places: places(&live),
            live: those(live, |_| true),
            ended: those(ended, |_| true),
        })
    }
}

/// Where those are that live and can be read.
fn places(listed: &Listed) -> Vec<usize> {
    let lives = |found: &Option<Result<_>>| matches!(found, Some(Ok(record)) if is_live(record));
    listed.iter().enumerate().filter(|(_, (_, found))| lives(found)).map(|(at, _)| at).collect()
}

fn is_live(record: &TaskRecord) -> bool {
    !record.state.is_terminal()
}

/// A row of `Q:lanes`: the limit, a space, the text.
/// `<limit> <text>`; behind the limit may stand how many were let go under a higher one.
fn lane_row(row: &[u8]) -> Option<(Lane, u32)> {
    let (limit, text) = std::str::from_utf8(row).ok()?.split_once(' ')?;
    let limit = limit.split('<').next()?;
    Some((Lane::new(text).ok()?, limit.parse().ok()?))
}
