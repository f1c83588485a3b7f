//! From just before the call that enqueues to the handler's first line, with a worker that has nothing else to do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Found;
use crate::clock::{ms, nanos_of};
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::ours::{Counter, patience};
use crate::plan::Row;
use crate::spread::{Spread, quantile, ratio, sorted};

/// A hundred tasks a second.
const EVERY: Duration = Duration::from_millis(10);

/// Waits of one round in ms, ascending.
type Waits = Vec<f64>;

async fn raw(lab: &Lab<'_>, tasks: usize) -> Result<Waits> {
    let waits = lab.raw("pickup").await?.pickups(tasks, EVERY).await?;
    lab.wipe().await?;
    Ok(sorted(waits.into_iter().map(ms).collect()))
}

async fn ours(lab: &Lab<'_>, tasks: usize) -> Result<Waits> {
    let ours = lab.ours("pickup").await?;
    let (waits, epoch) = (Arc::new(Mutex::new(Vec::with_capacity(tasks))), lab.epoch);
    let counter = Counter::of(tasks);
    let (noted, counted) = (Arc::clone(&waits), Arc::clone(&counter));
    let worker = ours
        .worker(lab.plan.slots, move |job| {
            let wait = nanos_of(epoch).saturating_sub(job.mark());
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(wait);
            counted.count();
            std::future::ready(())
        })
        .await?;
    let mut working = ours.start(worker);
    ours.settle_in().await?;
    let mut pace = tokio::time::interval(EVERY);
    for _ in 0..tasks {
        pace.tick().await;
        ours.enqueue(nanos_of(epoch)).await?;
    }
    working.until("the last pick-up", patience(tasks), counter.reached()).await?;
    working.stop().await?;
    lab.tidy("tasks were picked up one by one").await?;
    let waits = std::mem::take(&mut *waits.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(sorted(waits.into_iter().map(ms).collect()))
}

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let tasks = lab.plan.scale.pickups;
    raw(lab, tasks.div_ceil(10)).await?;
    ours(lab, tasks.div_ceil(10)).await?;
    let mut pairs = Vec::new();
    for round in 0..lab.plan.rounds {
        lab.round("pick-up", round);
        let raw = raw(lab, tasks).await?;
        pairs.push((ours(lab, tasks).await?, raw));
    }
    let p50 = |waits: &Waits| quantile(waits, 0.5);
    let all_ours = sorted(pairs.iter().flat_map(|(ours, _)| ours.clone()).collect());
    let all_raw = sorted(pairs.iter().flat_map(|(_, raw)| raw.clone()).collect());
    let p99 = Spread {
        median: ratio(quantile(&all_ours, 0.99), p50(&all_raw)),
        ..Spread::ratios(&pairs, |ours| quantile(ours, 0.99), p50)
    };
    let mut found = Found::default();
    found.figures.extend([
        Figure::new(
            Row::Pickup,
            "pickup-p50",
            "pick-up, idle worker, 100 tasks/s: p50 / raw blocking XREADGROUP p50",
            Unit::Ratio,
            Spread::ratios(&pairs, p50, p50),
            Goal::AtMost(2.0, Some(1.3)),
        ),
        Figure::new(
            Row::Pickup,
            "pickup-p99",
            "the same: p99 / raw p50",
            Unit::Ratio,
            p99,
            Goal::AtMost(4.0, None),
        ),
    ]);
    for (title, q) in [("pick-up, p50", 0.5), ("pick-up, p99", 0.99)] {
        let (ours, raw) = (quantile(&all_ours, q), quantile(&all_raw, q));
        found.details.push(Detail::both(Row::Pickup, title, Unit::Ms, ours, raw));
    }
    Ok(found)
}
