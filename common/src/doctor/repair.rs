//! Mending what an examination found of single tasks. Each is looked at again inside the step that mends it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::report::Report;
use crate::error::Result;
use crate::name::{QueueName, TaskId};
use crate::store::{Repaired, Store};

/// Who a record names as the one that repaired it.
const BY: &str = "doctor";

/// What was mended of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// Its queue.
    pub queue: QueueName,
    /// The task.
    pub id: TaskId,
    /// What was done; none when its record cannot be read, so that nothing was.
    pub done: Option<String>,
}

/// Mends the tasks that a report has findings of. Those that are sound by now are left alone and not told of.
///
/// # Errors
/// Any error of Redis; what was mended before stands.
pub async fn repair(store: &Store, report: &Report) -> Result<Vec<Repair>> {
    let mut tasks: BTreeMap<&QueueName, BTreeSet<&TaskId>> = BTreeMap::new();
    for finding in &report.findings {
        if let (Some(queue), Some(id)) = (&finding.queue, &finding.id) {
            tasks.entry(queue).or_default().insert(id);
        }
    }
    let mut repairs = Vec::new();
    for (queue, ids) in tasks {
        let ids: Vec<TaskId> = ids.into_iter().cloned().collect();
        for (id, repaired) in ids.iter().zip(store.repair(queue, &ids, BY).await?) {
            let done = match repaired {
                Repaired::Sound => continue,
                Repaired::Mended(what) | Repaired::Removed(what) => Some(what),
                Repaired::Corrupt => None,
            };
            repairs.push(Repair { queue: queue.clone(), id: id.clone(), done });
        }
    }
    Ok(repairs)
}
