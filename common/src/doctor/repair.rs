//! Mending what an examination found. Each is looked at again inside the step that mends it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::report::{Report, Severity};
use crate::error::Result;
use crate::name::QueueName;
use crate::store::{Repaired, Spot, Store};

/// Who a record names as the one that repaired it.
const BY: &str = "doctor";

/// What was mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// Its queue.
    pub queue: QueueName,
    /// The task; or the row, where that names none; or `totals`.
    pub id: String,
    /// What was done; none when its record cannot be read, so that nothing was.
    pub done: Option<String>,
}

/// Mends the tasks and rows that a report has findings of, and the totals of their queues. What is sound by now is left
/// alone and not told of.
///
/// # Errors
/// Any error of Redis; what was mended before stands.
pub async fn repair(store: &Store, report: &Report) -> Result<Vec<Repair>> {
    let mut spots: BTreeMap<&QueueName, BTreeSet<Spot>> = BTreeMap::new();
    for finding in &report.findings {
        let Some(queue) = &finding.queue else { continue };
        // A queue without single findings may have lost tasks with all their rows.
        let of_queue = spots.entry(queue);
        if let Some(id) = &finding.id {
            of_queue.or_default().insert(Spot { id: Some(id.clone()), place: String::new() });
        } else if finding.severity == Severity::Breach {
            of_queue.or_default();
        }
    }
    for (queue, row) in &report.rows {
        spots.entry(queue).or_default().insert(row.clone());
    }
    let mut repairs = Vec::new();
    for (queue, spots) in spots {
        if store
            .inspect(queue, &[])
            .await
            .is_ok_and(|look| look.is_some_and(|l| l.facts.wrong_types.is_empty()))
        {
            let spots: Vec<Spot> = spots.into_iter().collect();
            let mut answers = store.repair_spots(queue, &spots, BY).await?;
            answers.extend(store.repair_spots(queue, &[Spot::totals()], BY).await?);
            repairs.extend(answers.into_iter().filter_map(|(spot, answer)| told(queue, spot, answer)));
        }
    }
    Ok(repairs)
}

fn told(queue: &QueueName, spot: Spot, answer: Repaired) -> Option<Repair> {
    let done = match answer {
        Repaired::Sound => return None,
        Repaired::Mended(what) | Repaired::Removed(what) => Some(what),
        Repaired::Corrupt => None,
    };
    let id = spot.id.map_or(spot.place, |id| id.to_string());
    Some(Repair { queue: queue.clone(), id, done })
}
