//! How an owner or a lane stands: found apart from any page that is shown, and within a bound.

use leasehold_common::store::LANE_ENDS;

use crate::error::Result;
use crate::{
    GroupStatus, Lane, MOST_AT_A_TIME, Owner, OwnerTally, Producer, QueueName, Records, TaskId, TaskKind,
    TaskRecord, TaskState,
};

/// Runs and ends of an owner that are looked through at most, each, for the one that says how it stands.
pub const LOOKED_THROUGH: usize = 1000;
/// Those read at once where their kind is looked for, and else.
const BY_KIND: usize = 100;
const OF_ALL: usize = 10;

/// What was found of those that say how a group stands.
#[derive(Debug, Default)]
struct Found {
    told: Vec<TaskRecord>,
    unreadable: Vec<TaskId>,
    /// Something that runs, or an end, may be out of sight.
    hidden: (bool, bool),
}

impl Found {
    fn has(&self, state: impl Fn(TaskState) -> bool) -> bool {
        self.told.iter().any(|record| state(record.state))
    }

    fn status(&self, now_ms: u64) -> GroupStatus {
        GroupStatus::of(&self.told, now_ms).where_hidden(self.hidden.0, self.hidden.1)
    }
}

impl Producer {
    /// How an owner stands, and what could not be read on the way to it.
    pub(crate) async fn owner_status(
        &self,
        queue: &QueueName,
        owner: &Owner,
        kind: Option<TaskKind>,
        tally: &OwnerTally,
    ) -> Result<(GroupStatus, Vec<TaskId>)> {
        let now = self.now_ms().await?;
        let page = if kind.is_some() { BY_KIND } else { OF_ALL };
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let (running, ended) = (count(tally.running), count(tally.ended));
        let mut found = Found { hidden: (running > LOOKED_THROUGH, false), ..Found::default() };
        for start in (0..running.min(LOOKED_THROUGH)).step_by(page) {
            let Records { tasks, unreadable } =
                self.owned(queue, owner, start, page.min(running - start)).await?.live;
            found.hidden.0 |= !unreadable.is_empty();
            found.unreadable.extend(unreadable);
            found.told.extend(self.of_kind(queue, tasks, kind).await?);
            // What began last comes first.
            if found.has(|state| state == TaskState::Running) {
                break;
            }
        }
        for start in (0..ended.min(LOOKED_THROUGH)).step_by(page) {
            let Records { tasks, unreadable } =
                self.repeat(|| self.store().owner_ends(queue, owner, start, page)).await?;
            found.unreadable.extend(unreadable);
            found.told.extend(self.of_kind(queue, tasks, kind).await?);
            if found.has(TaskState::is_terminal) {
                break;
            }
        }
        found.hidden.1 = ended > LOOKED_THROUGH && !found.has(TaskState::is_terminal);
        Ok((found.status(now), found.unreadable))
    }

    /// How a lane stands, by its own tasks, of `kind` alone if one is named. A lane remembers its last 25 ends: what ended
    /// before them is out of sight.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn lane_status(
        &self,
        queue: &QueueName,
        lane: &Lane,
        kind: Option<TaskKind>,
    ) -> Result<GroupStatus> {
        let now = self.now_ms().await?;
        let limit = self.lane_limit(queue, lane).await? as usize;
        let mut found = Found::default();
        // Those let go are its first, and more than the limit where that fell.
        for (start, count) in [(0, limit), (limit, MOST_AT_A_TIME as usize)] {
            let page = self.lane_page(queue, lane, start, count).await?.unwrap_or_default();
            found.hidden.0 |= start == 0 && !page.unreadable.is_empty();
            let begun: Vec<TaskRecord> = page.tasks.iter().filter(|r| r.state.has_run()).cloned().collect();
            found.told.extend(self.of_kind(queue, begun, kind).await?);
            if page.tasks.iter().any(|record| record.state == TaskState::Waiting) {
                break;
            }
        }
        let ended = self.lane(queue, lane, LANE_ENDS).await?.ended;
        let remembered = ended.tasks.len() + ended.unreadable.len();
        found.told.extend(self.of_kind(queue, ended.tasks, kind).await?);
        found.hidden.1 = remembered >= LANE_ENDS && !found.has(TaskState::is_terminal);
        Ok(found.status(now))
    }

    async fn of_kind(
        &self,
        queue: &QueueName,
        records: Vec<TaskRecord>,
        kind: Option<TaskKind>,
    ) -> Result<Vec<TaskRecord>> {
        let Some(kind) = kind else { return Ok(records) };
        let bodies = self.bodies(queue, &records).await?;
        let fits =
            records.into_iter().zip(bodies).filter(|(_, body)| body.as_ref().is_some_and(|b| b.kind == kind));
        Ok(fits.map(|(record, _)| record).collect())
    }
}
