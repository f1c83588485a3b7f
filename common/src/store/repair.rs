//! Putting tasks back where their records say that they are.

use super::Store;
use crate::error::Result;
use crate::name::{QueueName, TaskId};
use crate::script;
use crate::transport::ScriptCall;

/// Most tasks of one repair.
const TASKS: usize = 100;

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

impl Store {
    /// Looks at tasks again and mends what is wrong with their places; closes runs whose owner is proven dead. `by` is told
    /// to people.
    ///
    /// # Errors
    /// Any error of Redis; repairs of earlier batches stand, and a repeat finds them sound.
    pub async fn repair(&self, queue: &QueueName, ids: &[TaskId], by: &str) -> Result<Vec<Repaired>> {
        let mut answers = Vec::with_capacity(ids.len());
        for batch in ids.chunks(TASKS) {
            let mut call = ScriptCall::new(&script::REPAIR, &self.keys(queue)).arg(crate::text::head(by, 64));
            for id in batch {
                call.push(id.as_str());
            }
            let mut reply = self.ok(queue, call).await?;
            reply.number()?;
            while reply.has_more() {
                let (tag, what) = (reply.text()?, reply.shown()?);
                answers.push(match tag.as_str() {
                    "sound" => Repaired::Sound,
                    "repaired" => Repaired::Mended(what),
                    "removed" => Repaired::Removed(what),
                    "corrupt" => Repaired::Corrupt,
                    _ => return Err(reply.unknown_tag(&tag)),
                });
            }
        }
        Ok(answers)
    }
}
