//! Bytes of a queued task and of a kept finished one: differences of `used_memory` between an empty Redis and a full
//! one, everything included and nothing taken off: keys, indexes, counters, and the event log at its cap. There are
//! so many tasks that the log has reached its cap, and a reaper has swept it down to that, as in any queue that has
//! been in use for a while.

use leasehold_common::task::DEFAULT_QUEUE;

use super::Found;
use super::depth::EACH;
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::plan::Row;
use crate::spread::Spread;

/// Rounds at most: two differ by less than a byte.
const ROUNDS: usize = 2;

/// Transitions that an event log keeps once a reaper has swept.
const LOG_KEEPS: usize = 100_000;

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

    let ours = lab.ours(DEFAULT_QUEUE).await?;
    let empty = lab.server.settled_memory().await?;
    ours.fill(tasks).await?;
    ours.sweep_to_cap().await?;
    let queued = lab.server.settled_memory().await?;
    ours.drain(tasks).await?;
    ours.sweep_to_cap().await?;
    let kept = lab.server.settled_memory().await?;
    lab.tidy("tasks were kept").await?;
    Ok(Bytes { raw, queued: per_task(empty, queued), kept: per_task(empty, kept) })
}

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let tasks = lab.plan.scale.memory;
    if !lab.has_room(tasks as f64 * EACH).await? {
        lab.warn(format!(
            "memory: left out, since {tasks} tasks do not fit below the maxmemory of this Redis"
        ));
        return Ok(Found::default());
    }
    once(lab, (tasks / 100).max(1)).await?;
    let mut rounds = Vec::new();
    for round in 0..lab.plan.rounds.min(ROUNDS) {
        lab.say(&format!("memory of {tasks} tasks: round {}", round + 1));
        rounds.push(once(lab, tasks).await?);
    }
    let spread = |of: fn(&Bytes) -> f64| Spread::of(rounds.iter().map(of));
    let log = if tasks > LOG_KEEPS { "event log at its cap" } else { "event log below its cap" };
    let of = format!("of {tasks}, {log}, all included");
    let mut found = Found::default();
    let (queued, kept) = (spread(|bytes| bytes.queued), spread(|bytes| bytes.kept));
    found.figures.extend([
        Figure::new(
            Row::Queued,
            "bytes-queued",
            format!("Redis memory per queued task of 200 bytes payload ({of})"),
            Unit::Bytes,
            queued,
            Goal::AtMost(520.0, Some(450.0)),
        ),
        Figure::new(
            Row::Kept,
            "bytes-kept",
            format!("memory per kept finished task with its payload ({of})"),
            Unit::Bytes,
            kept,
            Goal::AtMost(750.0, Some(600.0)),
        ),
    ]);
    let raw = spread(|bytes| bytes.raw).median;
    let title = format!("memory per entry, {of}");
    found.details.push(Detail::both(Row::Queued, title, Unit::Bytes, queued.median, raw));
    Ok(found)
}
