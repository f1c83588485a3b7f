//! What must hold of every step: the verdicts of a history checker, judged where they happen.

use leasehold_common::state::TaskState;
use leasehold_common::store::{BeatAnswer, FinishAnswer, SpendAnswer, UpdateAnswer};
use leasehold_tests::queue::{Move, moves};

use super::mind::Mind;
use super::plan::Plan;
use super::state::Records;
use crate::caller::Made;
use crate::view::{Record, View};
use crate::words::{Answer, Call, Run, TaskNo, WorkerNo};

/// One step: what was before, the call that was made at the time of `after`, and what is now.
pub struct Change<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// What the clients knew before.
    pub mind: &'a Mind,
    /// The keys before.
    pub before: (&'a View, &'a Records),
    /// The call and its answer; none where only time has passed.
    pub call: &'a Call,
    /// Its answer.
    pub made: &'a Made,
    /// The keys after.
    pub after: (&'a View, &'a Records),
}

impl Change<'_> {
    /// What is wrong with the step; empty when nothing is.
    pub fn breaches(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.fenced(&mut found);
        self.nothing_is_handed_out_twice(&mut found);
        self.tokens_grow(&mut found);
        self.told_moves_are_legal(&mut found);
        for (no, old) in self.before.1 {
            match self.after.1.get(no) {
                Some(new) => self.task(*no, old, new, &mut found),
                None if !old.state.is_terminal() && !self.discards() => {
                    found.push(format!("lost: t{no} was {}, and is no more", old.state));
                }
                None => {}
            }
        }
        self.lanes(&mut found);
        found
    }

    /// Does this queue keep nothing of some ends?
    fn discards(&self) -> bool {
        let s = &self.plan.world.settings;
        s.retain_completed.is_zero() || s.retain_aborted.is_zero()
    }

    fn owns(&self, worker: WorkerNo, run: Run) -> bool {
        let held = self.mind.workers[worker].held.iter().find(|holding| holding.run == run);
        let record = self.before.1.get(&run.task);
        let inc = format!("inc-w{worker}");
        held.zip(record).is_some_and(|(held, record)| record.owned_by(held.id.as_str(), &inc))
    }

    /// Fence first: a run that does not own its task changes nothing, and one that does is not told that it lost it.
    fn fenced(&self, found: &mut Vec<String>) {
        let (worker, runs, accepted, lost) = match (self.call, &self.made.answer) {
            (Call::Finish { worker, run, .. }, Answer::Finished(answer)) => {
                let accepted = matches!(answer, FinishAnswer::Accepted(_));
                (*worker, vec![*run], accepted, *answer == FinishAnswer::Lost)
            }
            (Call::Beat { worker, runs, .. }, Answer::Beats(answers)) => {
                let accepted = answers.iter().any(|a| matches!(a, BeatAnswer::Ok | BeatAnswer::Stop { .. }));
                (*worker, runs.clone(), accepted, answers.contains(&BeatAnswer::Lost) && runs.len() == 1)
            }
            (
                Call::Phase { worker, run, .. }
                | Call::Checkpoint { worker, run, .. }
                | Call::Unkillable { worker, run },
                Answer::Told(answer),
            ) => (*worker, vec![*run], *answer == UpdateAnswer::Ok, *answer == UpdateAnswer::Lost),
            (Call::Spend { worker, run, .. }, Answer::Spent(answer)) => {
                let accepted = matches!(answer, SpendAnswer::Taken { .. } | SpendAnswer::Exceeded { .. });
                (*worker, vec![*run], accepted, *answer == SpendAnswer::Lost)
            }
            _ => return,
        };
        let owns = runs.iter().any(|run| self.owns(worker, *run));
        if accepted && !owns {
            found.push(format!("ghost: {:?} was accepted of a run that owns nothing", self.call));
        }
        if !owns && !self.nothing_changed() {
            found.push(format!("ghost: {:?} by a stale fence changed something", self.call));
        }
        if owns && lost {
            found.push(format!("{:?} by the owner was answered lost", self.call));
        }
    }

    fn nothing_changed(&self) -> bool {
        let kept = |view: &View| {
            let keys = view.keys.iter().filter(|(suffix, held)| !is_volatile(suffix, held.parts.len()));
            keys.map(|(suffix, held)| (suffix.clone(), held.clone())).collect::<Vec<_>>()
        };
        kept(self.before.0) == kept(self.after.0)
    }

    /// A claim starts what was nobody's, or gives its own worker again what is that worker's still.
    fn nothing_is_handed_out_twice(&self, found: &mut Vec<String>) {
        let (Call::Claim { worker, .. }, Answer::Claimed(starts)) = (self.call, &self.made.answer) else {
            return;
        };
        let inc = format!("inc-w{worker}");
        let mut met = Vec::new();
        for (start, told) in starts.iter().zip(&self.made.handed_out) {
            let no = start.run.task;
            let name = format!("t{no} (attempt {})", start.run.attempt);
            let (old, new) = (self.before.1.get(&no), self.after.1.get(&no));
            let again = old.is_some_and(|old| old.owned_by(told.id.as_str(), &inc));
            if old.is_some_and(|old| old.state.has_run()) && !again {
                found.push(format!("two owners: {name} was handed to {inc} while another run owned it"));
            }
            if !new.is_some_and(|new| new.owned_by(told.id.as_str(), &inc)) {
                found.push(format!("{name} was handed to {inc}, which does not own it"));
            }
            if met.contains(&no) {
                found.push(format!("{name} was handed out twice in one answer"));
            }
            met.push(no);
        }
    }

    fn tokens_grow(&self, found: &mut Vec<String>) {
        let token = |view: &View| view.number("token").unwrap_or_default();
        let (old, new) = (token(self.before.0), token(self.after.0));
        if new < old {
            found.push(format!("the token fell from {old} to {new}"));
        }
        for (no, record) in self.after.1 {
            let begun = self.before.1.get(no).is_none_or(|was| was.attempt < record.attempt);
            if record.attempt > 0 && begun && (record.token <= old || record.token > new) {
                found.push(format!("t{no} began with the token {}, after {old}, up to {new}", record.token));
            }
        }
    }

    /// The events of this step lead from each state to the next by legal transitions alone.
    fn told_moves_are_legal(&self, found: &mut Vec<String>) {
        let events = self.after.0.keys.get("events");
        let packed = events.into_iter().flat_map(|held| held.parts.chunks_exact(2));
        let all: Vec<Move> = packed.flat_map(|entry| told(&entry[1])).collect();
        for no in 0..self.plan.world.tasks.len() {
            let id = format!("t{no}");
            let (old, new) = (self.before.1.get(&no), self.after.1.get(&no));
            let name = |record: Option<&Record>| record.map_or(String::new(), |r| r.state.to_string());
            let (mut at, mut raised) = (name(old), 0);
            for step in all.iter().filter(|step| step.id == id) {
                if step.why.starts_with(b"dropped") || step.from != at || !legal(step) {
                    found.push(format!("illegal transition: {step:?} while it was {at:?}"));
                }
                raised += u64::from(step.from != step.to && !step.to.is_empty());
                at.clone_from(&step.to);
            }
            let discarded = new.is_none() && at.parse().is_ok_and(TaskState::is_terminal);
            if at != name(new) && !discarded {
                found.push(format!("{id} is {:?}, and its events end at {at:?}", name(new)));
            }
            if let (Some(old), Some(new)) = (old, new)
                && new.rev != old.rev + raised
            {
                found.push(format!("{id} has rev {} after {} and {raised} transitions", new.rev, old.rev));
            }
        }
    }

    /// What may become of one task in one step.
    fn task(&self, no: TaskNo, old: &Record, new: &Record, found: &mut Vec<String>) {
        let by_person = matches!(self.call, Call::Retry { .. });
        if old.state.is_terminal() && old != new && !by_person {
            found.push(format!("mutated terminal: t{no} was {old:?} and is {new:?}"));
        }
        if new.fixed != old.fixed {
            found.push(format!("what never changes of t{no} has changed"));
        }
        if by_person {
            return;
        }
        let claims = new.attempt - old.attempt.min(new.attempt);
        let may_claim = matches!(self.call, Call::Claim { .. });
        if new.attempt < old.attempt || claims > u64::from(may_claim) {
            found.push(format!("t{no} went from attempt {} to {}", old.attempt, new.attempt));
        }
        let grew = |old: u64, new: u64| new < old || new > old + 1;
        if grew(old.failures, new.failures) || grew(old.reclaims, new.reclaims) {
            found.push(format!(
                "t{no} went from {} failures, {} reclaims to {}, {}",
                old.failures, old.reclaims, new.failures, new.reclaims
            ));
        }
        self.reclaimed(no, old, new, found);
        self.late(no, old, new, found);
    }

    /// A sweep takes an owner for dead only by two looks, a beat of the watch clock apart, while no lease lasts; it takes
    /// a run from an owner that may live only past the hard end of its stop.
    fn reclaimed(&self, no: TaskNo, old: &Record, new: &Record, found: &mut Vec<String>) {
        let taken = old.state.has_run() && (!new.state.has_run() || new.attempt > old.attempt);
        if !taken || !matches!(self.call, Call::Sweep) {
            return;
        }
        let now = self.after.0.now();
        if old.rare.sp.as_ref().is_some_and(|stop| stop.he <= now as f64) {
            return;
        }
        let watch = self.after.0.count("pulse", "watch") as f64;
        let leased = self.before.0.lease_until(&format!("t{no}"), old).filter(|until| *until > now);
        if let Some(until) = leased {
            found.push(format!("t{no} was taken from its run under a lease until {until}, at {now}"));
        }
        if old.rare.ml.is_none_or(|missed| watch - missed < self.plan.beat_ms() as f64) {
            found.push(format!("t{no} was taken from its run without a second look a beat after the first"));
        }
    }

    /// No deadline ends a task before its time.
    fn late(&self, no: TaskNo, old: &Record, new: &Record, found: &mut Vec<String>) {
        let now = self.after.0.now() as f64;
        let ended = !old.state.is_terminal() && new.state.is_terminal();
        let by_deadline = new.rare.fk.is_some_and(|kind| kind.as_str() == "deadline");
        if ended && by_deadline && old.rare.dl.is_some_and(|at| now < at) {
            found.push(format!("early deadline: t{no} ended at {now}, due {:?}", old.rare.dl));
        }
    }

    /// Members keep their order, and no more are let go than may be.
    fn lanes(&self, found: &mut Vec<String>) {
        for (suffix, _) in self.after.0.named("lane:") {
            let key = format!("lane:{suffix}");
            let members = |view: &View| view.scores(&key).map(|(id, _)| id).collect::<Vec<_>>();
            let (old, new) = (members(self.before.0), members(self.after.0));
            let kept: Vec<&String> = old.iter().filter(|id| new.contains(id)).collect();
            // One that was removed and enqueued again within a step has a new place; no call does that.
            if !new.iter().collect::<Vec<_>>().starts_with(&kept) {
                found.push(format!("the lane went from {old:?} to {new:?}: out of order"));
            }
            let row = self.after.0.field("lanes", suffix).unwrap_or_default();
            let limit = row.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(1);
            let let_go = |members: &[String], records: &Records| {
                let goes = |id: &&String| {
                    let record = records.get(&crate::view::task_no(id));
                    record.is_some_and(|record| record.state != TaskState::Waiting)
                };
                members.iter().filter(goes).count()
            };
            let (was, is) = (let_go(&old, self.before.1), let_go(&new, self.after.1));
            if is > was.max(limit) {
                found.push(format!("lane overlap: {is} of {new:?} were let go, of {limit} that may"));
            }
        }
    }
}

/// Keys that say nothing of any task.
pub fn is_volatile(suffix: &str, parts: usize) -> bool {
    let empty_stream = suffix.starts_with("ready:") && parts == 0;
    empty_stream || matches!(suffix, "wake" | "watch" | "events" | "config")
}

/// What an entry of `Q:events` tells.
fn told(packed: &[u8]) -> Vec<Move> {
    let fields = ["at", "", "to", "", "e"].map(|name| name.as_bytes().to_vec());
    moves(&(String::new(), fields.into_iter().chain([packed.to_vec()]).collect()))
}

/// Is it a transition of the table, or a mark on a task?
fn legal(step: &Move) -> bool {
    let (from, to) = (step.from.parse::<TaskState>().ok(), step.to.parse::<TaskState>().ok());
    match (from, to) {
        (Some(from), Some(to)) => from == to || from.can_transition_to(to),
        (None, Some(to)) => matches!(to, TaskState::Queued | TaskState::Scheduled | TaskState::Waiting),
        (Some(from), None) => step.to.is_empty() && from.is_terminal(),
        (None, None) => false,
    }
}
