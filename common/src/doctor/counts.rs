//! What an atomic look at a queue means: its counts, its reaper, its workers. No I/O.

use super::judge::{Moment, Verdict, lasting};
use super::report::Severity;
use crate::name::QueueName;
use crate::store::{QueueFacts, WorkerInfo};

/// Entries are trimmed by whole nodes of the stream: the cap of `lua/lib/ledger.lua` and some nodes.
const EVENTS_MOST: i64 = 101_000;
/// r15: said within 30 s.
const NO_REAPER_MS: i64 = 30_000;
/// An idle worker claims every 2 s at the latest.
const CLAIMED_WITHIN_MS: i64 = 4_000;

/// Judges the counts of a queue.
pub(super) fn queue(moment: &Moment, facts: &QueueFacts) -> Vec<Verdict> {
    let mut found = Vec::new();
    if facts.number("never") != 0 {
        let message = "the key that must never exist does: something foreign made it; remove it (`UNLINK`)";
        found.push(Verdict::breach("never-exists", message));
    }
    if facts.number("events") > EVENTS_MOST {
        let message = format!("{} events are kept, over the cap of {EVENTS_MOST}", facts.number("events"));
        found.push(Verdict::breach("events-over-cap", message));
    }
    if facts.wrong_types.is_empty() {
        found.extend(totals(facts));
    }
    let tasks = live(facts) + facts.ended();
    let silent = moment.swept_ago.is_none_or(|ago| ago > NO_REAPER_MS);
    if tasks > 0 && silent {
        let since = moment.swept_ago.map_or_else(|| "ever".to_owned(), |ago| format!("for {}", lasting(ago)));
        let message = format!(
            "no reaper has swept this queue {since}: dead runs are not reclaimed; start one \
             (leasehold reaper, or worker --with-reaper)"
        );
        found.push(Verdict::new(Severity::Warning, "no-reaper", message));
    }
    found
}

/// Tasks that have not ended.
pub(super) fn live(facts: &QueueFacts) -> i64 {
    facts.queued() + facts.number("scheduled") + facts.number("waiting") + facts.number("running")
}

/// enqueued + restored = live + ended + gone.
fn totals(facts: &QueueFacts) -> Option<Verdict> {
    let came = facts.total("enqueued") + facts.total("restored");
    let (live, ended, gone) = (live(facts), facts.ended(), facts.total("gone"));
    (came != live + ended + gone).then(|| {
        let message = format!(
            "{came} tasks came, but {live} live, {ended} ended and {gone} are gone ({} in all): rows or totals \
             were lost or doubled; the findings of single tasks say which",
            live + ended + gone
        );
        Verdict::breach("totals-do-not-add-up", message).doubtful()
    })
}

/// Judges what lies in another slot than the queue: a doubt until a second look agrees.
pub(super) fn service(
    moment: &Moment,
    facts: &QueueFacts,
    queue: &QueueName,
    workers: &[WorkerInfo],
) -> Vec<Verdict> {
    let mut found = Vec::new();
    let (live, mut serving) = (live(facts), workers.iter().filter(|w| slots(w, queue) > 0));
    if live > 0 && serving.clone().next().is_none() {
        let message =
            format!("{live} tasks and no live worker: start one (leasehold worker --queue {queue}=4)");
        found.push(Verdict::new(Severity::Warning, "no-worker", message).doubtful());
    }
    let oldest = facts.oldest_queued_ms().unwrap_or(u64::MAX);
    let waited = moment.now.saturating_sub(i64::try_from(oldest).unwrap_or(i64::MAX));
    if waited > CLAIMED_WITHIN_MS
        && let Some(idle) = serving.find(|w| w.running == 0 && w.status == "running")
    {
        let message = format!(
            "the oldest queued task waits for {} while worker {} is idle: look at that worker's log",
            lasting(waited),
            idle.name
        );
        found.push(Verdict::new(Severity::Warning, "queued-too-long", message).doubtful().marked(oldest));
    }
    found
}

/// Slots that a worker has for a queue.
pub(super) fn slots(worker: &WorkerInfo, queue: &QueueName) -> usize {
    worker.queues.get(queue).copied().unwrap_or_default()
}
