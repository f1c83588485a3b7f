//! The fingerprint of a state: two states with the same one go on alike.
//!
//! Left out is what no script ever compares: events, statistics, totals (which are checked at each step), who was told
//! what, error texts, when a task was enqueued or a run that is over began. Replaced are:
//!
//! - **times** by their distance from now, or by whether they have passed where no script asks for more;
//! - **run ids** by which places name the same one: scripts compare them for equality alone;
//! - **tokens** by nothing: they only grow, which each step checks;
//! - **`rev`** by its distance from those that a client has named, `attempt` by nothing: a number that is given once is
//!   never given again (but after writes were lost, where distances above zero are kept);
//! - **numbers of claims** by their distance from the one that Redis remembers;
//! - **places in a stream or a lane** by their order;
//! - **the watch clock** by the distances to it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};

use leasehold_common::keys::LEVELS;
use leasehold_common::state::TaskState;
use serde::Deserialize;

use super::mind::{Holding, Mind};
use super::plan::Plan;
use super::state::{Records, State, records};
use crate::view::{Record, View, task_no};
use crate::words::TaskNo;

/// 128 bits that stand for a state.
pub type Finger = u128;

/// Later than any bound of a world, ms: what is further away is infinitely far away.
const FAR_MS: i64 = 3_600_000;

/// What `Q:claim:<incarnation>` holds.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Memory {
    /// The number of the last claim.
    pub n: i64,
    /// What it handed out.
    pub ids: String,
    /// It was the closing one.
    pub closed: bool,
    /// The run on its last chance.
    pub chance: Option<(String, String)>,
    /// Since when it is declared dead.
    pub dead: Option<f64>,
}

/// Collects what a fingerprint is made of.
#[derive(Default)]
struct Ink(Vec<u8>);

impl Ink {
    fn number(&mut self, n: i64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    fn count(&mut self, n: usize) {
        self.number(i64::try_from(n).expect("a small count"));
    }

    fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn finger(self) -> Finger {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(salt);
            hasher.write(&self.0);
            u128::from(hasher.finish())
        };
        half(1) << 64 | half(2)
    }
}

/// Writes the keys of one view.
struct Scribe<'a> {
    ink: &'a mut Ink,
    view: &'a View,
    now: i64,
    records: Records,
    /// Run ids by the order in which they are met.
    names: BTreeMap<String, usize>,
}

fn whole(n: f64) -> i64 {
    n as i64
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).expect("a time")
}

/// The fingerprint of a state.
///
/// # Panics
/// When a record cannot be read: the step that made it has been refused before.
pub fn finger(plan: &Plan, state: &State) -> Finger {
    let mut ink = Ink::default();
    let now = state.view.now();
    let mut views = vec![&state.view];
    views.extend(state.mark.as_ref().map(|mark| &mark.view));
    for view in &views {
        Scribe::new(&mut ink, view, now).write(plan);
    }
    mind(&mut ink, &state.mind, &views);
    ink.number(state.mark_age().map_or(-1, i64::from));
    ink.finger()
}

/// The fingerprint of the keys alone: of a state in which the clients are silent.
pub fn finger_of_keys(plan: &Plan, view: &View) -> Finger {
    let mut ink = Ink::default();
    Scribe::new(&mut ink, view, view.now()).write(plan);
    ink.finger()
}

impl<'a> Scribe<'a> {
    fn new(ink: &'a mut Ink, view: &'a View, now: u64) -> Self {
        let records = records(view).expect("records that can be read");
        Self { ink, view, now: signed(now), records, names: BTreeMap::new() }
    }

    fn write(&mut self, plan: &Plan) {
        self.pulse();
        for (no, record) in std::mem::take(&mut self.records) {
            self.ink.count(no);
            self.record(plan, &record);
            self.task_keys(no, &record);
            self.records.insert(no, record);
        }
        for level in LEVELS {
            for (entry, id) in self.view.ready(level) {
                self.ink.text(level);
                self.ink.count(task_no(&id));
                self.name(&format!("{level}:{entry}"));
            }
        }
        for zset in ["running", "scheduled", "deadlines"] {
            for (id, score) in self.view.scores(zset) {
                self.ink.text(zset);
                self.ink.count(task_no(&id));
                self.ink.number(whole(score) - self.now);
            }
        }
        self.lanes();
        self.gone();
        self.memories();
        // Every eighth start is taken lowest first.
        self.ink.number(signed(self.view.count("totals", "started") % 8));
    }

    fn pulse(&mut self) {
        let field = |name| signed(self.view.count("pulse", name));
        let (watch, lease) = (field("watch"), signed(self.view.lease_ms()));
        // Anything above the longest step is a gap, whatever its length.
        let silent = (self.now - field("last")).min(lease / 3 + 1);
        // A gap so far back counts for no look that is noted, nor for one to come.
        let gap = self.view.field("pulse", "gap").and_then(|gap| gap.parse().ok());
        let gap = (watch - gap.unwrap_or(watch - FAR_MS)).min(2 * lease);
        self.ink.number(silent);
        self.ink.number(gap);
        // Only a stop that was recorded before the gap asks when that was.
        let gap_at = field("gap_at");
        let asks = |record: &Record| record.rare.sp.as_ref().is_some_and(|stop| gap_at > whole(stop.at));
        if self.records.values().any(|record| record.state.has_run() && asks(record)) {
            self.ink.number(self.now - gap_at);
        }
    }

    /// Which of the run ids met so far this is.
    fn name(&mut self, run: &str) {
        let next = self.names.len() + 1;
        let number = if run.is_empty() { 0 } else { *self.names.entry(run.to_owned()).or_insert(next) };
        self.ink.count(number);
    }

    fn time(&mut self, at: Option<f64>) {
        self.ink.number(at.map_or(i64::MIN, |at| whole(at) - self.now));
    }

    fn record(&mut self, plan: &Plan, record: &Record) {
        let (state, rare) = (record.state, &record.rare);
        self.ink.text(state.as_str());
        self.ink.count(record.level.into());
        self.ink.number(signed(record.failures));
        self.ink.number(signed(record.reclaims));
        self.name(&record.run);
        self.ink.text(&record.inc);
        self.ink.flag(record.begun > 0);
        if state.has_run() {
            self.ink.number(signed(record.begun) - self.now);
        }
        let age = signed(record.at) - self.now;
        match state {
            TaskState::Scheduled => self.ink.number(age),
            _ if state.is_terminal() => self.ink.number(age.max(-plan.oldest_end_ms())),
            _ => {}
        }
        self.ink.flag(rare.ml.is_some());
        if let Some(missed) = rare.ml {
            let watched = signed(self.view.count("pulse", "watch")) - whole(missed);
            self.ink.number(watched.min(signed(self.view.lease_ms())));
        }
        self.stop(record);
        if let Some((run, inc, left)) = &rare.le {
            self.name(run);
            self.ink.text(inc);
            self.ink.text(left);
        }
        self.ink.text(rare.fk.map_or("", |kind| kind.as_str()));
        if let Some((request, end)) = &rare.ar {
            self.ink.text(request);
            self.ink.text(end);
        }
        self.bounds(record);
        self.ink.0.extend_from_slice(&record.fixed);
    }

    fn stop(&mut self, record: &Record) {
        let Some(stop) = &record.rare.sp else { return self.ink.flag(false) };
        self.ink.text(stop.c.as_str());
        self.ink.text(stop.rq.as_deref().unwrap_or_default());
        self.ink.text(stop.ec.map_or("", |cause| cause.as_str()));
        if record.state.has_run() {
            self.time(Some(stop.at));
            self.time(Some(stop.he));
            self.ink.number(whole(stop.g));
        }
    }

    fn bounds(&mut self, record: &Record) {
        let rare = &record.rare;
        // Whether it has passed is all that is asked once it has.
        self.time(rare.dl.map(|at| at.max(self.now as f64)));
        self.time(rare.un);
        self.ink.flag(rare.ck.is_some());
        for (name, (most, spent)) in &rare.bu {
            self.ink.text(name);
            self.ink.number(whole(*most));
            self.ink.number(whole(*spent));
        }
        if !record.state.has_run() {
            return;
        }
        for number in [rare.up, rare.uc, rare.us] {
            self.ink.number(number.map_or(0, whole));
        }
        if let Some((number, tag, left)) = &rare.ub {
            self.ink.number(whole(*number));
            self.ink.text(tag);
            self.ink.text(left);
        }
        if let Some(phase) = &rare.ph {
            self.ink.text(&phase.n);
            self.time(Some(phase.at));
            self.ink.number(whole(phase.tm));
        }
        self.ink.flag(rare.uk.is_some());
        self.time(rare.uk.as_ref().map(|(at, _)| *at));
        self.ink.flag(rare.sn.is_some());
        if rare.sa.is_some() || rare.si.is_some() {
            self.time(rare.la);
        }
    }

    fn task_keys(&mut self, no: TaskNo, record: &Record) {
        let id = format!("t{no}");
        let lease = self.view.string(&format!("lease:{id}"));
        self.ink.flag(lease.is_some());
        if let Some(until) = self.view.lease_until(&id, record) {
            self.ink.number(signed(until) - self.now);
        }
        for kind in ["body", "result", "note", "checkpoint", "errors", "phases"] {
            self.ink.flag(self.view.keys.contains_key(format!("{kind}:{id}").as_str()));
        }
    }

    fn lanes(&mut self) {
        for (hash, row) in self.view.pairs("lanes") {
            self.ink.text(&row);
            for (id, _) in self.view.scores(&format!("lane:{hash}")) {
                self.ink.count(task_no(&id));
            }
            self.ink.flag(true);
            let mut ends: Vec<TaskNo> =
                self.view.scores(&format!("lane-ends:{hash}")).map(|(id, _)| task_no(&id)).collect();
            ends.sort_unstable();
            ends.into_iter().for_each(|no| self.ink.count(no));
        }
    }

    fn gone(&mut self) {
        let mut gone: Vec<_> = self.view.scores("gone").collect();
        gone.sort_by(|a, b| a.0.cmp(&b.0));
        for (id, at) in gone.into_iter().filter(|(_, at)| self.now - whole(*at) < 60_000) {
            self.ink.count(task_no(&id));
            self.ink.number(whole(at) - self.now);
        }
    }

    /// What is remembered of claims, but their numbers, which are told beside what the workers know.
    fn memories(&mut self) {
        for (inc, held) in self.view.named("claim:") {
            let memory: Memory = rmp_serde::from_slice(&held.parts[0]).expect("what a claim remembers");
            self.ink.text(inc);
            self.ink.text(&memory.ids);
            self.ink.flag(memory.closed);
            self.ink.flag(memory.dead.is_some());
            if let Some((id, run)) = &memory.chance {
                // It counts only while it names the run of the record.
                let current = self.records.get(&task_no(id)).is_some_and(|record| record.owned_by(run, inc));
                self.ink.flag(current);
                self.ink.count(if current { task_no(id) } else { 0 });
            }
        }
        for (inc, held) in self.view.named("beat:") {
            // Compared with the begin of the incarnation's runs alone.
            let at: i64 =
                std::str::from_utf8(&held.parts[0]).ok().and_then(|n| n.parse().ok()).expect("a time");
            self.ink.flag(at == self.now);
            for (no, record) in self.records.iter().filter(|(_, r)| r.state.has_run() && r.inc == inc) {
                self.ink.count(*no);
                self.ink.flag(signed(record.begun) > at);
            }
        }
    }
}

fn mind(ink: &mut Ink, mind: &Mind, views: &[&View]) {
    let all: Vec<Records> =
        views.iter().map(|view| records(view).expect("records that can be read")).collect();
    for (no, worker) in mind.workers.iter().enumerate() {
        let inc = format!("inc-w{no}");
        for view in views {
            let memory = view.string(&format!("claim:{inc}"));
            let memory: Option<Memory> = memory.and_then(|packed| rmp_serde::from_slice(packed).ok());
            ink.number(memory.map_or(-FAR_MS, |memory| signed(worker.number) - memory.n));
        }
        ink.number(signed(worker.number.min(2)));
        ink.count(worker.asked.0);
        ink.flag(worker.asked.1);
        ink.flag(worker.open);
        let mut held: Vec<Vec<i64>> =
            worker.held.iter().map(|holding| holding_marks(holding, &inc, &all)).collect();
        held.sort_unstable();
        held.dedup();
        ink.count(held.len());
        held.into_iter().flatten().for_each(|n| ink.number(n));
    }
    for (no, rev) in mind.named_rev.iter().enumerate() {
        ink.number(rev.map_or(i64::MIN, |rev| rev_mark(rev, no, &all)));
    }
    for record in all.iter().flat_map(BTreeMap::values) {
        // A `rev` that was retried once is either named by a client, as above, or by nobody.
        ink.flag(record.rare.rr.is_some_and(|rr| mind.named_rev.contains(&Some(rr as u64))));
    }
    mind.enqueued.iter().for_each(|sent| ink.flag(*sent));
    mind.aborts.iter().for_each(|n| ink.number((*n).into()));
    ink.flag(mind.other);
    mind.dead.iter().for_each(|dead| ink.flag(*dead));
    for n in [mind.retries, mind.deletes, mind.limits, mind.faults, mind.failovers] {
        ink.number(n.into());
    }
}

/// What a run in hand is to Redis: all that stand for nothing any longer are the same.
fn holding_marks(holding: &Holding, inc: &str, views: &[Records]) -> Vec<i64> {
    let mut marks = vec![i64::try_from(holding.run.task).expect("a small number")];
    for records in views {
        let mark = records.get(&holding.run.task).map_or(0, |record| {
            let head = record.run == holding.id.as_str();
            let last = record.rare.le.as_ref().filter(|le| le.0 == holding.id.as_str());
            1 + i64::from(head)
                + 2 * i64::from(head && record.inc == inc)
                + 4 * i64::from(last.is_some())
                + 8 * i64::from(last.is_some_and(|le| le.1 == inc))
        });
        marks.push(mark);
    }
    marks.push(holding.said.map_or(-1, |said| i64::try_from(said).expect("a small number")));
    marks.push(i64::from(holding.over));
    marks.extend(holding.told.map(signed));
    marks
}

/// What a named `rev` is to Redis: the record's own or a later one (after writes were lost), the one that was retried
/// last, or an old one.
fn rev_mark(rev: u64, no: TaskNo, views: &[Records]) -> i64 {
    let mut mark = 0;
    for records in views {
        let one = records.get(&no).map_or(-3, |record| {
            if rev >= record.rev {
                signed(rev - record.rev)
            } else if record.rare.rr == Some(rev as f64) {
                -1
            } else {
                -2
            }
        });
        mark = mark * 1000 + one;
    }
    mark
}
