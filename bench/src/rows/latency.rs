//! How long single script calls take while the other rows load Redis.

use std::collections::BTreeMap;

use super::{Found, flow};
use crate::error::Result;
use crate::figure::{Detail, Figure, Goal, Unit};
use crate::lab::Lab;
use crate::latency::Calls;
use crate::plan::Row;
use crate::spread::Spread;

/// Calls below which a share of a thousandth says nothing.
const ENOUGH: u64 = 5000;
/// Stretches of load at most, if the other rows made too little.
const LOADS: usize = 5;

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Found> {
    let mut found = Found::default();
    if !lab.server.own {
        lab.warn("latency: left out, since it would have to reset SLOWLOG and statistics of a Redis that is not its own");
        return Ok(found);
    }
    for _ in 0..LOADS {
        if sum(&lab.latency.calls()).all >= ENOUGH {
            break;
        }
        lab.say("latency: some more load");
        flow::load(lab).await?;
    }
    let loads = lab.latency.calls();
    let calls = sum(&loads);
    let quick = (calls.all - calls.slow.min(calls.all)) as f64 / calls.all.max(1) as f64 * 100.0;
    found.figures.extend([
        Figure::new(
            Row::Latency,
            "calls-under-5ms",
            "calls under load: share within 5 ms (SLOWLOG)",
            Unit::Percent,
            Spread::only(quick),
            Goal::AtLeast(99.9, None),
        ),
        Figure::new(
            Row::Latency,
            "longest-call",
            "calls under load: the longest",
            Unit::Ms,
            Spread::only(calls.longest_us / 1000.0),
            Goal::AtMost(20.0, Some(2.0)),
        ),
    ]);
    found.details.extend([
        Detail::ours(
            Row::Latency,
            "calls under load, p99.9 of the worst stretch",
            Unit::Ms,
            calls.p999_us / 1000.0,
        ),
        Detail::ours(Row::Latency, "calls under load, over 5 ms", Unit::Count, calls.slow as f64),
        Detail::ours(Row::Latency, "calls under load, all", Unit::Count, calls.all as f64),
    ]);
    for (load, calls) in loads {
        let longest = calls.longest_us / 1000.0;
        found.details.push(Detail::ours(Row::Latency, format!("longest call, {load}"), Unit::Ms, longest));
        if calls.slow > 0 {
            let title = format!("calls over 5 ms, {load}");
            found.details.push(Detail::ours(Row::Latency, title, Unit::Count, calls.slow as f64));
        }
    }
    Ok(found)
}

fn sum(loads: &BTreeMap<&'static str, Calls>) -> Calls {
    loads.values().fold(Calls::default(), |sum, calls| sum.and(*calls))
}
