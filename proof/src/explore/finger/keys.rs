//! The keys of a view in a fingerprint.

use std::collections::BTreeMap;

use leasehold_common::keys::LEVELS;
use leasehold_common::state::TaskState;
use serde::Deserialize;

use super::super::plan::Plan;
use super::super::state::{Records, records};
use super::{FAR_MS, Ink, signed, whole};
use crate::view::{Record, View, task_no};
use crate::words::TaskNo;

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

/// Writes the keys of one view.
pub(super) struct Scribe<'a> {
    ink: &'a mut Ink,
    view: &'a View,
    now: i64,
    records: Records,
    /// Run ids by the order in which they are met.
    names: BTreeMap<String, usize>,
}

impl<'a> Scribe<'a> {
    pub(super) fn new(ink: &'a mut Ink, view: &'a View, now: u64) -> Self {
        let records = records(view).expect("records that can be read");
        Self { ink, view, now: signed(now), records, names: BTreeMap::new() }
    }

    pub(super) fn write(&mut self, plan: &Plan) {
        self.pulse();
        self.ink.count(self.records.len());
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
        self.ink.text("lanes");
        self.lanes();
        self.ink.text("gone");
        self.gone();
        self.ink.text("claims");
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
            return self.ink.number(self.now - gap_at);
        }
        self.ink.number(-1);
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
        self.ink.flag(rare.le.is_some());
        if let Some((run, inc, left)) = &rare.le {
            self.name(run);
            self.ink.text(inc);
            self.ink.text(left);
        }
        self.ink.text(rare.fk.map_or("", |kind| kind.as_str()));
        self.ink.flag(rare.ar.is_some());
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
        self.ink.count(rare.bu.len());
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
        self.ink.flag(rare.ub.is_some());
        if let Some((number, tag, left)) = &rare.ub {
            self.ink.number(whole(*number));
            self.ink.text(tag);
            self.ink.text(left);
        }
        self.ink.flag(rare.ph.is_some());
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
        let until = self.view.lease_until(&id, record);
        self.ink.number(until.map_or(i64::MIN, |until| signed(until) - self.now));
        for kind in ["body", "result", "note", "checkpoint", "errors", "phases"] {
            self.ink.flag(self.view.keys.contains_key(format!("{kind}:{id}").as_str()));
        }
    }

    fn lanes(&mut self) {
        for (hash, row) in self.view.pairs("lanes") {
            self.ink.text(&row);
            self.ink.count(self.view.scores(&format!("lane:{hash}")).count());
            for (id, _) in self.view.scores(&format!("lane:{hash}")) {
                self.ink.count(task_no(&id));
            }
            let mut ends: Vec<TaskNo> =
                self.view.scores(&format!("lane-ends:{hash}")).map(|(id, _)| task_no(&id)).collect();
            ends.sort_unstable();
            self.ink.count(ends.len());
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
            // It counts only while it names the run of the record.
            let names = |(id, run): &(String, String)| {
                self.records.get(&task_no(id)).is_some_and(|record| record.owned_by(run, inc))
            };
            let current = memory.chance.as_ref().filter(|chance| names(chance));
            self.ink.count(current.map_or(0, |(id, _)| task_no(id) + 1));
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
