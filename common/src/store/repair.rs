//! Putting tasks back where their records say that they are.

use std::collections::BTreeMap;

use super::Store;
use crate::error::Result;
use crate::name::{QueueName, TaskId};
use crate::script;
use crate::transport::ScriptCall;

/// Most items of one repair.
const ITEMS: usize = 100;

/// What a repair made of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// All was right: nothing was changed.
    Sound,
    /// This was done; the task's record and the event stream tell of it.
    Mended(String),
    /// It had no record: what was left of it was removed.
    Removed(String),
    /// The record cannot be read: nothing was changed.
    Corrupt,
}

/// What is to be looked at again: a task, or a row somewhere that names it, or none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    /// The task; none where the row names none.
    pub(crate) id: Option<TaskId>,
    /// As `lua/repair.lua` takes it: empty for the task itself.
    pub(crate) place: String,
}

impl Spot {
    /// The sums of the queue.
    pub(crate) fn totals() -> Self {
        Self { id: None, place: "totals".to_owned() }
    }
}

impl Store {
    /// Looks at tasks again and mends what is wrong with their places; closes runs whose owner is proven dead. When all are
    /// mended, those of their lanes go whose turn it is. `by` is told to people.
    ///
    /// # Errors
    /// Any error of Redis; repairs of earlier batches stand, and a repeat finds them sound.
    pub async fn repair(&self, queue: &QueueName, ids: &[TaskId], by: &str) -> Result<Vec<Repaired>> {
        let spots: Vec<Spot> =
            ids.iter().map(|id| Spot { id: Some(id.clone()), place: String::new() }).collect();
        let mut answers = self.repair_spots(queue, &spots, by).await?;
        answers.truncate(ids.len());
        Ok(answers.into_iter().map(|(_, repaired)| repaired).collect())
    }

    /// The same for rows as well; what was done of lanes comes behind what was asked for.
    pub(crate) async fn repair_spots(
        &self,
        queue: &QueueName,
        spots: &[Spot],
        by: &str,
    ) -> Result<Vec<(Spot, Repaired)>> {
        let mut answers = Vec::with_capacity(spots.len());
        // Lanes last, when every task has its place again: each with those that do not belong there, or one that does.
        let (lane_rows, tasks): (Vec<&Spot>, Vec<&Spot>) =
            spots.iter().partition(|spot| spot.place.starts_with("lane:"));
        let mut lanes = BTreeMap::new();
        for batch in tasks.chunks(ITEMS) {
            for (spot, repaired, lane) in self.repair_batch(queue, batch, by).await? {
                if !lane.is_empty() {
                    lanes.insert(format!("lane:{lane}"), spot.id.clone());
                }
                answers.push((spot, repaired));
            }
        }
        let mut last: Vec<Spot> = lane_rows.into_iter().cloned().collect();
        last.extend(lanes.into_iter().map(|(place, id)| Spot { id, place }));
        for batch in last.iter().collect::<Vec<_>>().chunks(ITEMS) {
            let mended = self.repair_batch(queue, batch, by).await?;
            answers.extend(mended.into_iter().map(|(spot, repaired, _)| (spot, repaired)));
        }
        Ok(answers)
    }

    async fn repair_batch(
        &self,
        queue: &QueueName,
        batch: &[&Spot],
        by: &str,
    ) -> Result<Vec<(Spot, Repaired, String)>> {
        let mut call = ScriptCall::new(&script::REPAIR, &self.keys(queue)).arg(crate::text::head(by, 64));
        for spot in batch {
            call.push(spot.id.as_ref().map_or("", TaskId::as_str));
            call.push(spot.place.as_str());
        }
        let mut reply = self.ok(queue, call).await?;
        reply.number()?;
        let mut answers = Vec::with_capacity(batch.len());
        for spot in batch {
            let (tag, what, lane) = (reply.text()?, reply.shown()?, reply.text()?);
            let repaired = match tag.as_str() {
                "sound" => Repaired::Sound,
                "repaired" => Repaired::Mended(what),
                "removed" => Repaired::Removed(what),
                "corrupt" => Repaired::Corrupt,
                _ => return Err(reply.unknown_tag(&tag)),
            };
            answers.push(((*spot).clone(), repaired, lane));
        }
        Ok(answers)
    }
}
