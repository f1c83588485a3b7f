//! What must hold in every state: section 8 of the design, read from the keys themselves.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_common::keys::LEVELS;
use leasehold_common::policy::OnLeaseExpired;
use leasehold_common::record::StopCause;
use leasehold_common::state::TaskState;

use super::plan::Plan;
use super::state::Records;
use crate::view::{Record, View};

/// Indexes of ended tasks.
const DONE: [TaskState; 4] =
    [TaskState::Completed, TaskState::Failed, TaskState::TimedOut, TaskState::Aborted];
/// Kinds of keys that only a task with a record has.
const OF_A_TASK: [&str; 8] = ["lease", "body", "result", "errors", "log", "note", "phases", "checkpoint"];

/// One view, its indexes read once.
struct Judge<'a> {
    view: &'a View,
    records: &'a Records,
    scores: BTreeMap<&'static str, BTreeMap<String, f64>>,
    entries: BTreeMap<String, Vec<String>>,
    lanes: BTreeMap<String, (u64, Vec<String>)>,
    found: Vec<String>,
}

/// What is wrong with the keys; empty when nothing is.
pub fn judge(plan: &Plan, view: &View, records: &Records) -> Vec<String> {
    let mut judge = Judge::new(view, records);
    judge.nobody_elses();
    judge.counts();
    for (no, record) in records {
        judge.places(no, record);
        judge.bounds(plan, *no, record);
    }
    judge.order_in_lanes();
    judge.found
}

fn done_index(state: TaskState) -> &'static str {
    match state {
        TaskState::Completed => "done:completed",
        TaskState::Failed => "done:failed",
        TaskState::TimedOut => "done:timed_out",
        _ => "done:aborted",
    }
}

impl<'a> Judge<'a> {
    fn new(view: &'a View, records: &'a Records) -> Self {
        let names = ["running", "scheduled", "waiting", "deadlines", "gone"];
        let names = names.into_iter().chain(DONE.map(done_index));
        let scores = names.map(|name| (name, view.scores(name).collect())).collect();
        let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for level in LEVELS {
            for (entry, id) in view.ready(level) {
                entries.entry(id).or_default().push(format!("{level}:{entry}"));
            }
        }
        let lane = |(hash, row): (String, String)| {
            let limit = row.split(' ').next().and_then(|limit| limit.parse().ok()).unwrap_or(1);
            let members = view.scores(&format!("lane:{hash}")).map(|(id, _)| id).collect();
            (row.split_once(' ').map_or(row.clone(), |(_, text)| text.to_owned()), (limit, members))
        };
        let lanes = view.pairs("lanes").map(lane).collect();
        Self { view, records, scores, entries, lanes, found: Vec::new() }
    }

    fn find(&mut self, problem: String) {
        self.found.push(problem);
    }

    fn score(&self, index: &str, id: &str) -> Option<f64> {
        self.scores[index].get(id).copied()
    }

    /// Nothing of a task is anywhere without a record, but that it is remembered as gone.
    fn nobody_elses(&mut self) {
        let mut ids: BTreeSet<String> = BTreeSet::new();
        let indexes = self.scores.iter().filter(|(name, _)| **name != "gone");
        ids.extend(indexes.flat_map(|(_, index)| index.keys().cloned()));
        ids.extend(self.entries.keys().cloned());
        for prefix in ["lane:", "lane-ends:", "owner:"] {
            let members = self.view.named(prefix).flat_map(|(_, held)| held.parts.iter().step_by(2));
            ids.extend(members.map(|id| String::from_utf8_lossy(id).into_owned()));
        }
        for kind in OF_A_TASK {
            let prefix = format!("{kind}:");
            ids.extend(self.view.named(&prefix).map(|(id, _)| id.to_owned()));
        }
        let known: BTreeSet<String> = self.records.keys().map(|no| format!("t{no}")).collect();
        for id in ids.difference(&known) {
            self.found.push(format!("{id} has keys or places, and no record"));
        }
        if self.view.keys.contains_key("never") {
            self.find("Q:never is there".to_owned());
        }
    }

    fn counts(&mut self) {
        let total = |name| self.view.count("totals", name);
        let (enqueued, gone) = (total("enqueued"), total("gone"));
        let here = self.records.len() as u64;
        if enqueued != here + gone {
            self.find(format!("{enqueued} were enqueued, {here} are here, {gone} are gone"));
        }
    }

    fn must(&mut self, id: &str, record: &Record, what: &str, fact: bool, wanted: bool) {
        if fact != wanted {
            self.find(format!("{id} is {}: {what} is {fact}", record.state));
        }
    }

    /// State and place agree, and no task is in another state's place.
    fn places(&mut self, no: &usize, record: &Record) {
        let (id, state) = (&*format!("t{no}"), record.state);
        let (has_run, ended) = (state.has_run(), state.is_terminal());
        for (index, wanted) in [
            ("running", has_run),
            ("scheduled", state == TaskState::Scheduled),
            ("waiting", state == TaskState::Waiting),
            ("deadlines", record.rare.dl.is_some() && !ended),
            ("gone", false),
        ] {
            let there = self.score(index, id).is_some();
            self.must(id, record, &format!("in Q:{index}"), there, wanted);
        }
        for done in DONE {
            let there = self.score(done_index(done), id).is_some();
            self.must(id, record, &format!("in Q:{}", done_index(done)), there, state == done);
        }
        let entries = self.entries.get(id).cloned().unwrap_or_default();
        if state == TaskState::Queued && entries != [record.run.clone()] {
            self.find(format!("{id} is queued under {}, and its entries are {entries:?}", record.run));
        }
        self.must(id, record, "in a ready stream", !entries.is_empty(), state == TaskState::Queued);
        self.must(id, record, "owned", !record.inc.is_empty() && !record.run.is_empty() && has_run, has_run);
        self.must(id, record, "with its body", !record.fixed.is_empty(), true);
        if let Some(lane) = record.lane() {
            let rank = self.lanes.get(lane).and_then(|(_, ids)| ids.iter().position(|member| member == id));
            let ran = record.attempt > 0 && state == TaskState::Scheduled;
            if ran || state != TaskState::Scheduled {
                self.must(id, record, "in its lane", rank.is_some(), ran || !ended);
            }
            let limit = self.lanes.get(lane).map_or(1, |(limit, _)| *limit);
            if state == TaskState::Waiting {
                let behind = rank.is_some_and(|rank| rank as u64 >= limit);
                self.must(id, record, "behind those of its lane that may go", behind, true);
            }
        } else {
            self.must(id, record, "waiting without a lane", state == TaskState::Waiting, false);
        }
        if let Some(lease) = self.view.string(&format!("lease:{id}")) {
            let fence = format!("{} {} ", record.run, record.inc);
            let names = has_run && lease.starts_with(fence.as_bytes());
            self.must(id, record, "a lease of its fence", names, true);
        }
    }

    /// Counters are within their bounds, and looks are planned.
    fn bounds(&mut self, plan: &Plan, no: usize, record: &Record) {
        let (id, state) = (&*format!("t{no}"), record.state);
        let policy = &plan.world.tasks[no].body.policy;
        let (attempts, reclaims) = (u64::from(policy.max_attempts), u64::from(policy.max_reclaims));
        let live = u64::from(!state.is_terminal());
        if record.failures + live > attempts {
            self.find(format!("{id} is {state} after {} failures of {attempts}", record.failures));
        }
        let may_come_again = policy.on_lease_expired == OnLeaseExpired::Requeue;
        let most = if may_come_again { reclaims + 1 - live } else { 1 - live };
        if record.reclaims > most {
            self.find(format!("{id} is {state} after {} reclaims of {reclaims}", record.reclaims));
        }
        for (name, (most, spent)) in &record.rare.bu {
            if spent > most {
                self.find(format!("{id} has spent {spent} of {most} {name}"));
            }
        }
        if let Some(look) = self.score("running", id) {
            let latest = (self.view.now() + plan.lease_ms() + plan.beat_ms()) as f64;
            if look > latest {
                self.find(format!("the next look at {id} is {} ms late", look - latest));
            }
        }
        let cause = record.rare.sp.as_ref().map(|stop| stop.c);
        let asked = cause == Some(StopCause::Abort);
        self.must(id, record, "asked to abort", state.has_run() && asked, state == TaskState::Aborting);
    }

    /// Those that were let go are the first of their lane.
    fn order_in_lanes(&mut self) {
        let waits = |id: &String| {
            let no = crate::view::task_no(id);
            self.records.get(&no).is_some_and(|record| record.state == TaskState::Waiting)
        };
        let mut problems = Vec::new();
        for (lane, (_, ids)) in &self.lanes {
            let waits: Vec<bool> = ids.iter().map(waits).collect();
            if waits.windows(2).any(|pair| pair == [true, false]) {
                problems.push(format!("the lane {lane}: {ids:?} wait {waits:?}, not in order"));
            }
        }
        self.found.extend(problems);
    }
}
