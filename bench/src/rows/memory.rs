//! Bytes of a queued task and of a kept finished one: differences of `used_memory`, everything that belongs to the
//! queue included (its events, say).

use super::Found;
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::plan::Row;
use crate::spread::Spread;

/// Bytes per task.
#[derive(Debug, Clone, Copy)]
struct Bytes {
    raw: f64,
    queued: f64,
    kept: f64,
}

async fn once(lab: &Lab<'_>, tasks: usize) -> Result<Bytes> {
    let per_task = |from: f64, to: f64| (to - from) / tasks as f64;
    let raw = lab.raw("memory").await?;
    let empty = lab.server.settled_memory().await?;
    raw.fill(tasks).await?;
    let full = lab.server.settled_memory().await?;
    lab.wipe().await?;
    let raw = per_task(empty, full);

    let ours = lab.ours("memory").await?;
    let empty = lab.server.settled_memory().await?;
    ours.fill(tasks).await?;
    let queued = lab.server.settled_memory().await?;
    ours.drain(tasks).await?;
    let kept = lab.server.settled_memory().await?;
    lab.tidy("tasks were kept").await?;
    Ok(Bytes { raw, queued: per_task(empty, queued), kept: per_task(empty, kept) })
}

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    once(lab, (lab.plan.tasks / 10).max(1)).await?;
    let mut rounds = Vec::new();
    for round in 0..lab.plan.rounds.min(3) {
        lab.say(&format!("memory: round {}", round + 1));
        rounds.push(once(lab, lab.plan.tasks).await?);
    }
    let spread = |of: fn(&Bytes) -> f64| Spread::of(rounds.iter().map(of));
    let mut found = Found::default();
    found.figures.extend([
        Figure::new(
            Row::Queued,
            "bytes-queued",
            "Redis memory per queued task of 200 bytes payload",
            Unit::Bytes,
            spread(|bytes| bytes.queued),
            Goal::AtMost(520.0, Some(450.0)),
        ),
        Figure::new(
            Row::Kept,
            "bytes-kept",
            "memory per kept finished task (with its payload)",
            Unit::Bytes,
            spread(|bytes| bytes.kept),
            Goal::AtMost(750.0, Some(600.0)),
        ),
    ]);
    let (ours, raw) = (spread(|bytes| bytes.queued).median, spread(|bytes| bytes.raw).median);
    found.details.push(Detail::both(Row::Queued, "memory per entry", Unit::Bytes, ours, raw));
    Ok(found)
}
