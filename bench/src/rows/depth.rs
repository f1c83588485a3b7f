//! A deep queue against a shallow one, in turn: no rate and no size may depend on how much is queued.

use super::Found;
use crate::clock::Lap;
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::ours::Ours;
use crate::plan::Row;
use crate::raw::Raw;
use crate::spread::Spread;

/// The part of the shallow depth that is enqueued and drained in a round.
const PART: f64 = 0.8;
/// Bytes that a queued task may take, to see whether all of them fit.
pub(super) const EACH: f64 = 1000.0;
/// Turns of a round: they are short.
const TURNS: usize = 2;
/// How far the deep queue may fall behind.
const BAR: f64 = 0.15;

/// One round on one queue.
#[derive(Debug, Clone, Copy)]
struct Turn {
    fill: Lap,
    drain: Lap,
}

impl Turn {
    fn redis_us(&self) -> f64 {
        self.fill.redis_us() + self.drain.redis_us()
    }
}

/// The turns on the deep and on the shallow queue.
type Pairs = Vec<(Turn, Turn)>;

/// A queue that keeps its depth: what a turn adds, it takes.
struct Standing<Q> {
    queue: Q,
    bytes: f64,
}

async fn standing_raw<'a>(lab: &'a Lab<'a>, name: &str, depth: usize) -> Result<Standing<Raw<'a>>> {
    let queue = lab.raw(name).await?;
    let empty = lab.server.settled_memory().await?;
    queue.fill(depth).await?;
    let bytes = (lab.server.settled_memory().await? - empty) / depth as f64;
    Ok(Standing { queue, bytes })
}

async fn standing<'a>(lab: &'a Lab<'a>, name: &'static str, depth: usize) -> Result<Standing<Ours<'a>>> {
    let queue = lab.ours(name).await?;
    let empty = lab.server.settled_memory().await?;
    queue.fill(depth).await?;
    queue.sweep_to_cap().await?;
    let bytes = (lab.server.settled_memory().await? - empty) / depth as f64;
    Ok(Standing { queue, bytes })
}

async fn raw_turn(queue: &Raw<'_>, part: usize) -> Result<Turn> {
    Ok(Turn { fill: queue.measured_fill(part).await?, drain: queue.measured_take(part).await? })
}

async fn turn(queue: &Ours<'_>, part: usize) -> Result<Turn> {
    let fill = queue.measured_fill(part).await?;
    let drain = queue.drain_part(part).await?;
    Ok(Turn { fill, drain })
}

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let (shallow, deep) = lab.plan.scale.depths;
    let part = (shallow as f64 * PART) as usize;
    if !lab.has_room(deep as f64 * EACH).await? {
        lab.warn(format!("depth: left out, since {deep} tasks do not fit below the maxmemory of this Redis"));
        return Ok(Found::default());
    }
    lab.say(&format!("depth: filling {deep} entries of raw streams"));
    let few = standing_raw(lab, "shallow", shallow - part).await?;
    let many = standing_raw(lab, "deep", deep - part).await?;
    raw_turn(&few.queue, part).await?;
    let mut raw: Pairs = Vec::new();
    lab.say("depth: raw turns");
    for _ in 0..lab.plan.rounds * TURNS {
        let shallow = raw_turn(&few.queue, part).await?;
        raw.push((raw_turn(&many.queue, part).await?, shallow));
    }
    let raw_bytes = (many.bytes, few.bytes);
    lab.wipe().await?;

    lab.say(&format!("depth: filling {deep} tasks"));
    let few = standing(lab, "shallow", shallow).await?;
    let many = standing(lab, "deep", deep - part).await?;
    few.queue.drain_part(part).await?;
    let mut ours: Pairs = Vec::new();
    lab.say("depth: turns of ours");
    for _ in 0..lab.plan.rounds * TURNS {
        let shallow = turn(&few.queue, part).await?;
        ours.push((turn(&many.queue, part).await?, shallow));
    }
    lab.say("depth: looking at every invariant");
    lab.tidy("a deep queue was used").await?;
    Ok(tell(lab, &ours, &raw, (many.bytes, few.bytes), raw_bytes))
}

fn tell(lab: &Lab<'_>, ours: &Pairs, raw: &Pairs, bytes: (f64, f64), raw_bytes: (f64, f64)) -> Found {
    let (shallow, deep) = lab.plan.scale.depths;
    let what = |of: &str| format!("{deep} queued / {shallow} queued: {of}");
    let (fast, dear) = (Goal::AtLeast(1.0 - BAR, None), Goal::AtMost(1.0 + BAR, None));
    let fill = |turn: &Turn| turn.fill.rate();
    let drain = |turn: &Turn| turn.drain.rate();
    let rows: [(&'static str, &str, Spread, Spread, Goal); 4] = [
        (
            "depth-enqueue",
            "enqueue rate",
            Spread::ratios(ours, fill, fill),
            Spread::ratios(raw, fill, fill),
            fast,
        ),
        (
            "depth-drain",
            "drain rate",
            Spread::ratios(ours, drain, drain),
            Spread::ratios(raw, drain, drain),
            fast,
        ),
        (
            "depth-cpu",
            "Redis CPU per task",
            Spread::ratios(ours, Turn::redis_us, Turn::redis_us),
            Spread::ratios(raw, Turn::redis_us, Turn::redis_us),
            dear,
        ),
        (
            "depth-bytes",
            "bytes per task",
            Spread::only(bytes.0 / bytes.1),
            Spread::only(raw_bytes.0 / raw_bytes.1),
            dear,
        ),
    ];
    let mut found = Found::default();
    for (name, title, ours, raw, goal) in rows {
        found.figures.push(Figure::new(Row::Depth, name, what(title), Unit::Ratio, ours, goal));
        found.details.push(Detail::both(Row::Depth, what(title), Unit::Ratio, ours.median, raw.median));
    }
    let title = format!("memory per entry at {deep}");
    found.details.push(Detail::both(Row::Depth, title, Unit::Bytes, bytes.0, raw_bytes.0));
    found
}
