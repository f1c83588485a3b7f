//! Many tasks that run at once, with a reaper: what their heartbeats and sweeps cost Redis.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Found;
use crate::clock::Clock;
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::ours::{Counter, patience};
use crate::plan::Row;
use crate::spread::Spread;

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let (tasks, watched) = lab.plan.scale.leases;
    let quiet = watched / 5;
    lab.say("leases: watching an idle Redis");
    lab.server.calm().await?;
    let clock = Clock::start(lab).await?;
    tokio::time::sleep(quiet).await;
    let idle = clock.stop(0).await?;

    lab.say(&format!("leases: starting {tasks} tasks"));
    let ours = lab.ours("leases").await?;
    ours.fill(tasks).await?;
    let (started, release) = (Counter::of(tasks), CancellationToken::new());
    let (counter, waiting) = (Arc::clone(&started), release.clone());
    let worker = ours
        .worker(tasks, move |_| {
            counter.count();
            waiting.clone().cancelled_owned()
        })
        .await?;
    let reaper = ours.reaper()?;
    let mut working = ours.start(worker);
    working.until("the start of all tasks", patience(tasks), started.reached()).await?;
    // A beat later every run is among those that are beaten for.
    tokio::time::sleep(quiet).await;

    lab.say(&format!("leases: watching {tasks} running tasks for {} s", watched.as_secs()));
    let clock = Clock::start_load(lab, "heartbeats and sweeps").await?;
    let watch = async { tokio::time::sleep(watched).await };
    working.until("the watch", watched * 2 + patience(0), watch).await?;
    let busy = clock.stop(tasks).await?;
    release.cancel();
    ours.empty_within(&mut working, tasks).await?;
    working.stop().await?;
    reaper.stop().await?;
    lab.tidy("many tasks ran at once").await?;

    let share = |lap: crate::clock::Lap| lap.redis / lap.wall * 100.0;
    let mut found = Found::default();
    found.figures.push(Figure::new(
        Row::Leases,
        "leases-cpu",
        format!("{tasks} running tasks under lease: Redis CPU of heartbeats and sweeps, of one core"),
        Unit::Percent,
        Spread::only(share(busy)),
        Goal::AtMost(3.0, Some(1.0)),
    ));
    found.details.push(Detail::ours(Row::Leases, "Redis CPU of an idle Redis", Unit::Percent, share(idle)));
    Ok(found)
}
