//! Producer and worker at once: from the first enqueue to the last finish.

use super::Found;
use crate::clock::Lap;
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::plan::Row;
use crate::spread::Spread;

async fn raw(lab: &Lab<'_>, tasks: usize) -> Result<Lap> {
    let lap = lab.raw("flow").await?.flow(tasks).await?;
    lab.wipe().await?;
    Ok(lap)
}

async fn ours(lab: &Lab<'_>, tasks: usize) -> Result<Lap> {
    let lap = lab.ours("flow").await?.flow(tasks).await?;
    lab.tidy("tasks flowed from producer to worker").await?;
    Ok(lap)
}

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let (tasks, warm) = (lab.plan.tasks, (lab.plan.tasks / 10).max(1));
    raw(lab, warm).await?;
    ours(lab, warm).await?;
    let mut pairs = Vec::new();
    for round in 0..lab.plan.rounds {
        lab.round("producer and worker at once", round);
        let raw = raw(lab, tasks).await?;
        pairs.push((ours(lab, tasks).await?, raw));
    }
    let mut found = Found::default();
    found.figures.push(Figure::new(
        Row::Flow,
        "end-to-end",
        "end to end (producer and worker at once) / raw",
        Unit::Ratio,
        Spread::ratios(&pairs, Lap::rate, Lap::rate),
        Goal::AtLeast(0.18, Some(0.25)),
    ));
    let ours = Spread::of(pairs.iter().map(|(ours, _)| ours.rate())).median;
    let raw = Spread::of(pairs.iter().map(|(_, raw)| raw.rate())).median;
    found.details.push(Detail::both(Row::Flow, "end to end", Unit::Rate, ours, raw));
    Ok(found)
}

/// Load for the latency row, when no other row has made any.
pub(super) async fn load(lab: &Lab<'_>) -> Result<()> {
    ours(lab, lab.plan.tasks).await.map(drop)
}
