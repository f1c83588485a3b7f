//! What an idle worker says to Redis.

use std::sync::Arc;

use super::Found;
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::ours::Counter;
use crate::plan::Row;
use crate::relay::Relay;
use crate::spread::Spread;

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let mut found = Found::default();
    let watched = lab.plan.scale.idle;
    let Some(relay) = Relay::before(&lab.server.url, &lab.tracker).await? else {
        lab.warn(
            "idle: left out, since this Redis is reached over TLS, where nothing can be counted on the way",
        );
        return Ok(found);
    };
    let ours = lab.ours("idle").await?;
    let counter = Counter::of(1);
    let mut working = ours.start(ours.counting_at(&relay.url, &Arc::clone(&counter)).await?);
    ours.settle_in().await?;
    lab.say(&format!("idle: watching a worker for {} s", watched.as_secs()));
    let before = relay.counts();
    working.until("the watch", watched * 2, tokio::time::sleep(watched)).await?;
    let after = relay.counts();
    working.stop().await?;
    lab.tidy("a worker was idle").await?;

    let seconds = watched.as_secs_f64();
    let since =
        |name: &str, calls: u64| (calls - before.get(name).copied().unwrap_or_default()) as f64 / seconds;
    let rates: Vec<(&String, f64)> = after.iter().map(|(name, calls)| (name, since(name, *calls))).collect();
    found.figures.push(Figure::new(
        Row::Idle,
        "idle-commands",
        "idle worker: commands per queue",
        Unit::PerSecond,
        Spread::only(rates.iter().map(|(_, rate)| rate).sum()),
        Goal::AtMost(2.0, None),
    ));
    for (name, rate) in rates.into_iter().filter(|(_, rate)| *rate > 0.0) {
        found.details.push(Detail::ours(Row::Idle, format!("of them {name}"), Unit::PerSecond, rate));
    }
    Ok(found)
}
