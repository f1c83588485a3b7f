//! A queue is filled, then drained: CPU of Redis and of the client, and the rate of the drain.

use super::Found;
use crate::clock::Lap;
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::plan::Row;
use crate::spread::Spread;

/// One side of a round.
#[derive(Debug, Clone, Copy)]
struct Side {
    fill: Lap,
    drain: Lap,
}

impl Side {
    fn redis_us(&self) -> f64 {
        self.fill.redis_us() + self.drain.redis_us()
    }

    fn client_us(&self) -> f64 {
        self.fill.client_us() + self.drain.client_us()
    }
}

/// Which results ours keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Results {
    Kept,
    Discarded,
}

async fn raw(lab: &Lab<'_>, tasks: usize) -> Result<Side> {
    let raw = lab.raw("cycle").await?;
    let side = Side { fill: raw.measured_fill(tasks).await?, drain: raw.measured_take(tasks).await? };
    lab.wipe().await?;
    Ok(side)
}

async fn ours(lab: &Lab<'_>, tasks: usize, results: Results) -> Result<Side> {
    let ours = match results {
        Results::Kept => lab.ours("cycle").await?,
        Results::Discarded => lab.discarding("cycle").await?,
    };
    let side = Side { fill: ours.measured_fill(tasks).await?, drain: ours.drain(tasks).await? };
    lab.tidy("a queue was filled and drained").await?;
    Ok(side)
}

/// Raw, ours with results kept, ours with results discarded, in turn.
pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let tasks = lab.plan.tasks;
    let (keeps, discards) = (lab.wants(&[Row::Cpu, Row::Drain, Row::Client]), lab.wants(&[Row::Discard]));
    lab.say("filling and draining: warming up");
    let warm = (tasks / 10).max(1);
    raw(lab, warm).await?;
    ours(lab, warm, Results::Kept).await?;
    let (mut kept, mut discarded) = (Vec::new(), Vec::new());
    for round in 0..lab.plan.rounds {
        lab.round("filling and draining", round);
        if keeps {
            let raw = raw(lab, tasks).await?;
            kept.push((ours(lab, tasks, Results::Kept).await?, raw));
        }
        if discards {
            let raw = raw(lab, tasks).await?;
            discarded.push((ours(lab, tasks, Results::Discarded).await?, raw));
        }
    }
    let mut found = Found::default();
    if keeps {
        tell_kept(&mut found, &kept);
    }
    if discards {
        tell_discarded(&mut found, &discarded);
    }
    Ok(found)
}

fn tell_kept(found: &mut Found, pairs: &[(Side, Side)]) {
    found.figures.extend([
        Figure::new(
            Row::Cpu,
            "redis-cpu-kept",
            "Redis CPU per task / raw, result kept",
            Unit::Ratio,
            Spread::ratios(pairs, Side::redis_us, Side::redis_us),
            Goal::AtMost(5.0, Some(3.5)),
        ),
        Figure::new(
            Row::Drain,
            "drain-rate",
            "drain rate / raw drain rate",
            Unit::Ratio,
            Spread::ratios(pairs, |ours| ours.drain.rate(), |raw| raw.drain.rate()),
            Goal::AtLeast(0.15, Some(0.25)),
        ),
        Figure::new(
            Row::Client,
            "client-cpu",
            "client CPU per task / raw client CPU",
            Unit::Ratio,
            Spread::ratios(pairs, Side::client_us, Side::client_us),
            Goal::AtMost(8.0, Some(5.0)),
        ),
    ]);
    found.details.extend([
        detail(Row::Cpu, "Redis CPU, enqueue", Unit::Us, pairs, |side| side.fill.redis_us()),
        detail(Row::Cpu, "Redis CPU, claim to finish", Unit::Us, pairs, |side| side.drain.redis_us()),
        detail(Row::Drain, "drain rate", Unit::Rate, pairs, |side| side.drain.rate()),
        detail(Row::Drain, "bulk enqueue rate", Unit::Rate, pairs, |side| side.fill.rate()),
        detail(Row::Client, "client CPU, enqueue", Unit::Us, pairs, |side| side.fill.client_us()),
        detail(Row::Client, "client CPU, claim to finish", Unit::Us, pairs, |side| side.drain.client_us()),
    ]);
}

fn tell_discarded(found: &mut Found, pairs: &[(Side, Side)]) {
    found.figures.push(Figure::new(
        Row::Discard,
        "redis-cpu-discarded",
        "Redis CPU per task / raw, discarded on completion",
        Unit::Ratio,
        Spread::ratios(pairs, Side::redis_us, Side::redis_us),
        Goal::AtMost(4.5, Some(3.0)),
    ));
    found.details.push(detail(
        Row::Discard,
        "Redis CPU, whole life, discarded",
        Unit::Us,
        pairs,
        Side::redis_us,
    ));
}

fn detail(row: Row, title: &str, unit: Unit, pairs: &[(Side, Side)], of: impl Fn(&Side) -> f64) -> Detail {
    let ours = Spread::of(pairs.iter().map(|(ours, _)| of(ours))).median;
    let raw = Spread::of(pairs.iter().map(|(_, raw)| of(raw))).median;
    Detail::both(row, title, unit, ours, raw)
}
