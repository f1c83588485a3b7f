//! How many calls clients send per task: exact counts.
//!
//! Script calls are counted by Redis, with producer and worker connected to it directly. Whatever else clients send
//! would be mixed there with what scripts call, so a second pass counts it on the way, through a relay; there the
//! script calls of both counts must agree.

use leasehold_common::store::{QueueSettings, Store};
use leasehold_common::transport::ConnectOptions;

use super::Found;
use crate::error::{Error, Result};
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::ours::Ours;
use crate::plan::Row;
use crate::relay::Relay;
use crate::spread::Spread;

const QUEUE: &str = "calls";

/// What one pass counted, per task.
#[derive(Debug, Clone, Copy)]
struct Pass {
    scripts: f64,
    others: f64,
}

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let tasks = lab.plan.tasks;
    let per_task = |calls: u64| calls as f64 / tasks as f64;
    let mut found = Found::default();
    let mut passes = Vec::new();
    for round in 0..lab.plan.rounds.min(3) {
        lab.say(&format!("counting calls: round {}", round + 1));
        let scripts = per_task(direct(lab, tasks).await?);
        let Some(others) = relayed(lab, tasks).await? else {
            lab.warn("calls: this Redis is reached over TLS, so only script calls are counted");
            passes.push(Pass { scripts, others: 0.0 });
            continue;
        };
        passes.push(Pass { scripts, others: per_task(others) });
    }
    let all = Spread::of(passes.iter().map(|pass| pass.scripts + pass.others));
    found.figures.push(Figure::new(
        Row::Calls,
        "client-calls",
        "script or command calls per task",
        Unit::Calls,
        all,
        Goal::AtMost(0.1, Some(0.05)),
    ));
    let median = |of: fn(&Pass) -> f64| Spread::of(passes.iter().map(of)).median;
    found.details.extend([
        Detail::ours(Row::Calls, "of them scripts", Unit::Calls, median(|pass| pass.scripts)),
        Detail::ours(Row::Calls, "of them other commands", Unit::Calls, median(|pass| pass.others)),
    ]);
    Ok(found)
}

/// Script calls of one pass, as Redis counts them.
async fn direct(lab: &Lab<'_>, tasks: usize) -> Result<u64> {
    let ours = lab.ours(QUEUE).await?;
    let before = lab.server.script_calls().await?;
    ours.run_through(&lab.server.url, tasks).await?;
    let calls = lab.server.script_calls().await?.saturating_sub(before);
    lab.tidy("calls were counted").await?;
    Ok(calls)
}

/// Calls of one pass that run no script, as the relay counts them; none where it cannot stand in between.
async fn relayed(lab: &Lab<'_>, tasks: usize) -> Result<Option<u64>> {
    let Some(relay) = Relay::before(&lab.server.url, &lab.tracker).await? else { return Ok(None) };
    let store = Store::open(&relay.url, lab.namespace.clone(), ConnectOptions::default())?;
    let ours = Ours::over(lab, QUEUE, QueueSettings::default(), store).await?;
    let (before, sent_before) = (lab.server.script_calls().await?, relay.counts());
    ours.run_through(&relay.url, tasks).await?;
    let by_redis = lab.server.script_calls().await?.saturating_sub(before);
    let (mut scripts, mut others) = (0, 0);
    for (name, calls) in relay.counts() {
        let calls = calls - sent_before.get(&name).copied().unwrap_or_default();
        if name.starts_with("eval") || name.starts_with("fcall") {
            scripts += calls;
        } else {
            others += calls;
        }
    }
    if lab.server.own && scripts != by_redis {
        let why = format!("the relay saw {scripts} script calls, Redis {by_redis}");
        return Err(Error::odd("counting calls", why));
    }
    lab.tidy("calls were counted").await?;
    Ok(Some(others))
}
