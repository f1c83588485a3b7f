//! State and place agree, and the counts add up: section 8 of the design, read from the keys themselves.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_common::keys::LEVELS;
use leasehold_common::name::TaskId;
use leasehold_common::state::TaskState;
use leasehold_common::store::Places;
use serde::Deserialize;

use super::Queue;

/// A row of `Q:events`: tasks of which the same is told.
#[derive(Deserialize)]
struct Row(String, String, f64, #[serde(with = "serde_bytes")] Vec<u8>, String);

/// A transition, a mark (`from` and `to` are the same) or a removal (`to` is empty).
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The task.
    pub id: String,
    /// The state before, empty for a new task.
    pub from: String,
    /// The state after.
    pub to: String,
    /// The attempt.
    pub attempt: f64,
    /// Why, or by whom.
    pub why: Vec<u8>,
}

impl Queue {
    /// All events, entry by entry.
    pub fn events(&self) -> Vec<Vec<Move>> {
        let entries: Vec<EventEntry> = self.redis(&["XRANGE", &self.key("events"), "-", "+"]);
        entries.iter().map(moves).collect()
    }

    /// The events of one task, as `from>to`.
    pub fn moves(&self, task: &str) -> Vec<String> {
        let all = self.events().into_iter().flatten().filter(|m| m.id == task);
        all.map(|m| format!("{}>{}", m.from, m.to)).collect()
    }
}

/// An entry of `Q:events` as `XRANGE` gives it.
pub type EventEntry = (String, Vec<Vec<u8>>);

/// What an entry tells, in its order.
pub fn moves((_, fields): &EventEntry) -> Vec<Move> {
    let rows: Vec<Row> = rmp_serde::from_slice(&fields[5]).expect("events can be read");
    rows.into_iter().flat_map(moves_of).collect()
}

fn moves_of(Row(from, to, attempt, why, ids): Row) -> Vec<Move> {
    let one =
        |id: &str| Move { id: id.to_owned(), from: from.clone(), to: to.clone(), attempt, why: why.clone() };
    ids.split('\n').map(one).collect()
}

/// What is wrong with a queue; empty when nothing is.
pub async fn breaches(queue: &Queue) -> Vec<String> {
    let mut found = Vec::new();
    let all: Vec<String> = queue.redis(&["KEYS", &format!("{}*", queue.keys().prefix())]);
    let ids = known_ids(queue, &all);
    let mut tally = Tally::default();
    let ids: Vec<TaskId> = ids.iter().filter_map(|id| TaskId::new(id.as_str()).ok()).collect();
    let chunks: Vec<&[TaskId]> = if ids.is_empty() { vec![&[]] } else { ids.chunks(100).collect() };
    let mut facts = None;
    for chunk in chunks {
        let look = queue.store.inspect(&queue.name, chunk).await.expect("inspect").expect("registered");
        for places in &look.tasks {
            judge(places, &mut tally, &mut found);
        }
        facts = Some(look.facts);
    }
    let facts = facts.expect("one look");
    let mut equal = |what: &str, one: i64, other: i64| {
        if one != other {
            found.push(format!("{what}: {one} is not {other}"));
        }
    };
    equal("entries of the ready streams = queued", facts.queued(), tally.queued);
    equal("Q:running = running + aborting", facts.number("running"), tally.running);
    equal("Q:scheduled = scheduled", facts.number("scheduled"), tally.scheduled);
    equal("done indexes = ended", facts.ended(), tally.ended);
    equal("Q:waiting = waiting", facts.number("waiting"), tally.waiting);
    let live = tally.queued + tally.running + tally.scheduled + tally.waiting;
    let accounted = live + tally.ended + facts.total("gone");
    equal("enqueued = live + ended + gone", facts.total("enqueued"), accounted);
    equal("Q:never", facts.number("never"), 0);
    found.extend(facts.wrong_types.iter().map(|key| format!("{key} has a wrong type")));
    found.extend(illegal_moves(&queue.events()));
    for hash in all.iter().filter_map(|key| key.split_once(":lane:")).map(|(_, hash)| hash) {
        lane_order(queue, hash, &mut found).await;
    }
    found
}

/// Those of a lane that were let go are its first ones, and no more than its limit says, unless it fell.
async fn lane_order(queue: &Queue, hash: &str, found: &mut Vec<String>) {
    let ids: Vec<String> = queue.redis(&["ZRANGE", &queue.key(&format!("lane:{hash}")), "0", "-1"]);
    let ids: Vec<TaskId> = ids.iter().filter_map(|id| TaskId::new(id.as_str()).ok()).collect();
    let records = queue.store.records(&queue.name, &ids).await.expect("records");
    let waits: Vec<bool> =
        records.iter().map(|r| matches!(r, Some(Ok(r)) if r.state == TaskState::Waiting)).collect();
    let let_go = waits.iter().take_while(|waits| !**waits).count();
    if waits[let_go..].iter().any(|waits| !waits) {
        found.push(format!("lane {hash}: {ids:?} wait {waits:?}, not in order"));
    }
    let row: Option<String> = queue.redis(&["HGET", &queue.key("lanes"), hash]);
    let limit = row.as_deref().and_then(|row| row.split([' ', '<']).next()?.parse().ok()).unwrap_or(1);
    let (let_go, mut known) = (let_go as u64, queue.let_go.borrow_mut());
    let most = known.insert(hash.to_owned(), let_go).unwrap_or_default();
    if let_go > most.max(limit) {
        found.push(format!("lane {hash}: {let_go} were let go, of {limit} that may"));
    }
}

/// Ids named anywhere.
fn known_ids(queue: &Queue, keys: &[String]) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let owned = queue.keys();
    for key in keys {
        let suffix = owned.suffix_of(key).expect("a key of the queue");
        let Some((part, rest)) = suffix.split_once(':') else { continue };
        if !matches!(part, "ready" | "done" | "claim" | "beat" | "lane" | "lane-ends" | "owner") {
            ids.insert(rest.to_owned());
        }
    }
    let done = TaskState::ALL.iter().filter(|s| s.is_terminal()).map(|s| format!("done:{s}"));
    let live = ["running", "scheduled", "waiting", "deadlines"].map(str::to_owned);
    let grouped = keys.iter().filter_map(|key| owned.suffix_of(key)).map(str::to_owned);
    let grouped =
        grouped.filter(|s| ["lane:", "lane-ends:", "owner:"].iter().any(|kind| s.starts_with(kind)));
    for zset in done.chain(live).chain(grouped) {
        ids.extend(queue.redis::<Vec<String>>(&["ZRANGE", &queue.key(&zset), "0", "-1"]));
    }
    for level in LEVELS {
        let stream = queue.key(&format!("ready:{level}"));
        let entries: Vec<(String, Vec<String>)> = queue.redis(&["XRANGE", &stream, "-", "+"]);
        ids.extend(entries.into_iter().map(|(_, fields)| fields[1].clone()));
    }
    ids
}

#[derive(Default)]
struct Tally {
    queued: i64,
    running: i64,
    scheduled: i64,
    waiting: i64,
    ended: i64,
}

fn judge(places: &Places, tally: &mut Tally, found: &mut Vec<String>) {
    let id = &places.id;
    let record = match &places.record {
        Some(Ok(record)) => record,
        Some(Err(e)) => return found.push(format!("{id}: {e}")),
        None => return found.push(format!("{id}: keys or places without a record: {places:?}")),
    };
    let state = record.state;
    let mut must = |what: &str, fact: bool, wanted: bool| {
        if fact != wanted {
            found.push(format!("{id} is {state}: {what} is {fact}"));
        }
    };
    must("in Q:running", places.running.is_some(), state.has_run());
    must("in Q:scheduled", places.scheduled.is_some(), state == TaskState::Scheduled);
    must("in Q:waiting", places.waiting.is_some(), state == TaskState::Waiting);
    must("in Q:deadlines", places.deadline.is_some(), record.deadline_ms.is_some() && !state.is_terminal());
    must("among its owner's", places.owned, record.owner.is_some());
    let ran = record.attempt > 0 && state == TaskState::Scheduled;
    let in_lane = ran || !(state.is_terminal() || state == TaskState::Scheduled);
    if ran || state != TaskState::Scheduled {
        must("in its lane", places.lane_rank.is_some(), record.lane.is_some() && in_lane);
    }
    if state == TaskState::Waiting {
        must("behind those of its lane that may go", places.lane_rank >= Some(places.lane_limit), true);
    }
    must("its entry", places.entry, state == TaskState::Queued);
    must("in the index of its end", places.done == [state], state.is_terminal());
    must("in an index of ended tasks", places.done.is_empty(), !state.is_terminal());
    must("owned", record.incarnation.is_some(), state.has_run());
    must("remembered as gone", places.gone, false);
    if let Some(lease) = &places.lease {
        let fence = (record.run.as_ref(), record.incarnation.as_ref());
        let names = matches!(fence, (Some(run), Some(inc)) if lease.starts_with(&format!("{run} {inc}")));
        must("a lease of its fence", names, true);
    }
    match state {
        TaskState::Queued => tally.queued += 1,
        TaskState::Running | TaskState::Aborting => tally.running += 1,
        TaskState::Scheduled => tally.scheduled += 1,
        TaskState::Waiting => tally.waiting += 1,
        _ => tally.ended += 1,
    }
}

/// What is wrong with the entries of an event stream: every event must be legal by itself, and begin where the task's
/// last one ended.
pub fn illegal_moves(entries: &[Vec<Move>]) -> Vec<String> {
    let mut found = Vec::new();
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for entry in entries {
        if entry.is_empty() || entry.len() > 50 {
            found.push(format!("an event entry of {} transitions", entry.len()));
        }
        for step in entry {
            if step.why.starts_with(b"dropped") {
                continue;
            }
            let was = last.insert(step.id.clone(), step.to.clone()).unwrap_or_default();
            // What is discarded at its end leaves no event of its removal.
            let ended = was.parse::<TaskState>().is_ok_and(TaskState::is_terminal);
            if was != step.from && !(ended && step.from.is_empty()) {
                found.push(format!("{step:?} after {was:?}"));
            }
            let (from, to) = (step.from.parse::<TaskState>().ok(), step.to.parse::<TaskState>().ok());
            let legal = match (from, to) {
                (Some(from), Some(to)) => from == to || from.can_transition_to(to),
                (None, Some(to)) => {
                    matches!(to, TaskState::Queued | TaskState::Scheduled | TaskState::Waiting)
                }
                (Some(_), None) => step.to.is_empty(),
                (None, None) => false,
            };
            if !legal {
                found.push(format!("an illegal transition {step:?}"));
            }
        }
    }
    found
}
