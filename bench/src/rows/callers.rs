//! Single enqueues, each awaited, by 64 callers on one connection.

use super::Found;
use crate::clock::Lap;
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::plan::Row;
use crate::spread::Spread;

const CALLERS: usize = 64;

async fn raw(lab: &Lab<'_>, each: usize) -> Result<Lap> {
    let lap = lab.raw("callers").await?.callers(CALLERS, each).await?;
    lab.wipe().await?;
    Ok(lap)
}

async fn ours(lab: &Lab<'_>, each: usize) -> Result<Lap> {
    let lap = lab.ours("callers").await?.callers(CALLERS, each).await?;
    lab.tidy("tasks were enqueued one by one").await?;
    Ok(lap)
}

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let each = (lab.plan.tasks / CALLERS).max(1);
    raw(lab, each.div_ceil(10)).await?;
    ours(lab, each.div_ceil(10)).await?;
    let mut pairs = Vec::new();
    for round in 0..lab.plan.rounds {
        lab.round("single enqueues", round);
        let raw = raw(lab, each).await?;
        pairs.push((ours(lab, each).await?, raw));
    }
    let mut found = Found::default();
    found.figures.push(Figure::new(
        Row::Enqueue,
        "single-enqueue",
        "single awaited enqueue, 64 callers / raw XADD, 64 callers",
        Unit::Ratio,
        Spread::ratios(&pairs, Lap::rate, Lap::rate),
        Goal::AtLeast(0.5, Some(0.7)),
    ));
    let ours = Spread::of(pairs.iter().map(|(ours, _)| ours.rate())).median;
    let raw = Spread::of(pairs.iter().map(|(_, raw)| raw.rate())).median;
    found.details.push(Detail::both(Row::Enqueue, "single enqueues, 64 callers", Unit::Rate, ours, raw));
    Ok(found)
}
