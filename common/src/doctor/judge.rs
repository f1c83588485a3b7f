//! What an atomic look at one task means: its record and its places in, verdicts out. No I/O.

use std::time::Duration;

use super::report::Severity;
use crate::error::Error;
use crate::name::TaskId;
use crate::record::TaskRecord;
use crate::state::TaskState;
use crate::store::{Inspection, Places};
use crate::time::{display_duration, display_time};

/// What is late by less is not late: sweeps are a second apart at most, and a page of them takes its time.
pub(super) const SLACK_MS: i64 = 5_000;
/// A reaper whose last sweep is older does not sweep.
const SWEEPING_MS: i64 = 3_000;

/// One thing that a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) severity: Severity,
    pub(super) code: &'static str,
    pub(super) id: Option<TaskId>,
    pub(super) message: String,
    /// It counts only if a second look finds it too, with the same mark.
    pub(super) doubtful: bool,
    pub(super) mark: u64,
    /// The row that it is about, as a repair takes it.
    pub(super) place: Option<String>,
}

impl Verdict {
    pub(super) fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Self { severity, code, id: None, message: message.into(), doubtful: false, mark: 0, place: None }
    }

    pub(super) fn breach(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Breach, code, message)
    }

    pub(super) fn doubtful(mut self) -> Self {
        self.doubtful = true;
        self
    }

    pub(super) fn marked(mut self, mark: u64) -> Self {
        self.mark = mark;
        self
    }

    pub(super) fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Do two looks tell of the same thing?
    pub(super) fn is_again(&self, earlier: &Self) -> bool {
        (self.code, &self.id, self.mark) == (earlier.code, &earlier.id, earlier.mark)
    }
}

/// The moment of a look, in ms by Redis's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) now: i64,
    /// T.
    pub(super) lease: i64,
    /// How long ago a reaper swept; none = never.
    pub(super) swept_ago: Option<i64>,
    /// A reaper sweeps, and has done so for long enough to have met every bound.
    pub(super) sweeping: bool,
    /// The watch clock.
    watch: i64,
}

fn ms(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(super) fn lasting(millis: i64) -> String {
    display_duration(Duration::from_millis(millis.unsigned_abs()))
}

impl Moment {
    pub(super) fn of(look: &Inspection) -> Self {
        let (now, lease) = (ms(look.now_ms), ms(crate::time::as_ms(look.lease)));
        let fact = |name: &str| Some(look.facts.number(name)).filter(|n| *n > 0);
        let swept_ago = fact("pulse.last").map(|last| now - last);
        let settled = now - fact("pulse.gap_at").unwrap_or(0) > 2 * lease + SLACK_MS;
        let sweeping = settled && swept_ago.is_some_and(|ago| (0..=SWEEPING_MS).contains(&ago));
        Self { now, lease, swept_ago, sweeping, watch: look.facts.number("pulse.watch") }
    }

    fn beat(&self) -> i64 {
        self.lease / 3
    }

    /// What a sweep would have put right: a breach while one sweeps, else a warning.
    fn late(&self, code: &'static str, what: &str) -> Verdict {
        let verdict = if self.sweeping {
            Verdict::breach(code, format!("{what}, although a reaper sweeps: look at the reaper's log"))
        } else {
            let message =
                format!("{what}: no reaper has swept for long enough; start one (leasehold reaper)");
            Verdict::new(Severity::Warning, code, message)
        };
        verdict.doubtful()
    }
}

/// Judges one task.
pub(super) fn task(moment: &Moment, places: &Places) -> Vec<Verdict> {
    let mut found = match &places.record {
        None => without_record(places),
        Some(Err(error)) => vec![unreadable(error)],
        Some(Ok(record)) => {
            let mut found = place(record, places);
            found.extend(body(record, places));
            found.extend(lease(moment, record, places));
            found.extend(time(moment, record, places));
            found.extend(lane::judge(record, places));
            found.extend(lane::indexes(moment, record, places));
            found
        }
    };
    for verdict in &mut found {
        verdict.id = Some(places.id.clone());
    }
    found
}

fn without_record(p: &Places) -> Vec<Verdict> {
    let mut places = p.done.iter().map(|state| format!("done:{state}")).collect::<Vec<_>>();
    if p.running.is_some() {
        places.push("running".to_owned());
    }
    if p.scheduled.is_some() {
        places.push("scheduled".to_owned());
    }
    if p.waiting.is_some() {
        places.push("waiting".to_owned());
    }
    if p.deadline.is_some() {
        places.push("deadlines".to_owned());
    }
    if places.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "{} names a task that has no record: the task was lost (data loss, or a foreign write); \
         `leasehold doctor --repair` removes what is left of it",
        places.join(" and ")
    );
    vec![Verdict::breach("index-without-record", message)]
}

fn unreadable(error: &Error) -> Verdict {
    match error {
        Error::NewerFormat { found, .. } => Verdict::breach(
            "newer-format",
            format!("its record has format {found}, which this release does not read: upgrade this process"),
        ),
        _ => Verdict::breach(
            "record-unreadable",
            format!(
                "{error}: nothing touches it. Restore it from a backup; or give it up: `UNLINK` its task key \
                 (`...:task:<id>`), and `leasehold doctor --repair` removes what is left of it"
            ),
        ),
    }
}

/// State and place agree, and the task is in no other state's place.
fn place(record: &TaskRecord, p: &Places) -> Vec<Verdict> {
    let state = record.state;
    let mut found = Vec::new();
    let mut missing = |code, there: bool, what: &str, next: &str| {
        if !there {
            found.push(Verdict::breach(code, format!("it is {state}, but {what}: {next}")));
        }
    };
    let abort = "it would wait for ever; abort it, then retry it";
    match state {
        TaskState::Scheduled => {
            missing("missing-from-scheduled", p.scheduled.is_some(), "the schedule does not name it", abort);
        }
        TaskState::Queued => {
            missing("missing-entry", p.entry, "no entry of a ready stream is its own", abort);
        }
        TaskState::Running | TaskState::Aborting => {
            let next = "no reaper looks at it; abort it, which puts it back";
            missing("missing-from-running", p.running.is_some(), "the running index does not name it", next);
            let fence = record.run.is_some() && record.incarnation.is_some();
            missing("fence-missing", fence, "no run owns it", "abort it, then retry it");
        }
        TaskState::Completed | TaskState::Failed | TaskState::TimedOut | TaskState::Aborted => {
            let there = p.done.contains(&state);
            let next = "it is kept for ever; delete it, or retry it";
            missing("missing-from-done", there, "the list of its state does not name it", next);
        }
        TaskState::Waiting => {
            missing(
                "missing-from-waiting",
                p.waiting.is_some(),
                "the list of those that wait lacks it",
                abort,
            );
        }
    }
    found.extend(elsewhere(record, p));
    found
}

fn elsewhere(record: &TaskRecord, p: &Places) -> Vec<Verdict> {
    let state = record.state;
    let mut found = Vec::new();
    let mut forbidden = |code, there: bool, what: &str, next: &str| {
        if there {
            found.push(Verdict::breach(code, format!("it is {state}, but {what}: {next}")));
        }
    };
    let swept = "a reaper drops the row at its next look; if this stays, none sweeps";
    forbidden("also-in-running", p.running.is_some() && !state.has_run(), "in the running index too", swept);
    let scheduled = p.scheduled.is_some() && state != TaskState::Scheduled;
    forbidden("also-in-scheduled", scheduled, "in the schedule too", swept);
    let waiting = p.waiting.is_some() && state != TaskState::Waiting;
    forbidden("also-in-waiting", waiting, "in the list of those that wait too", "abort and retry it");
    let entry = p.entry && state != TaskState::Queued;
    forbidden("also-an-entry", entry, "in a ready stream too", "the next claim drops the entry");
    let done = p.done.iter().any(|d| *d != state);
    forbidden("also-in-done", done, "in another state's list of ended tasks too", "cleanup drops the row");
    let again = "the id was removed and is there again; it is forgotten a minute later";
    forbidden("gone-but-there", p.gone, "its id is noted as removed", again);
    found
}

/// Inline or apart, never both; never none for a task that may still run.
fn body(record: &TaskRecord, p: &Places) -> Option<Verdict> {
    let apart = p.body_type == "string";
    match (&record.body, apart) {
        (Some(_), true) => Some(Verdict::breach(
            "body-twice",
            "its body lies in the record and beside it: run `UNLINK` on its body key",
        )),
        (None, false) if !record.state.is_terminal() => Some(Verdict::breach(
            "body-missing",
            "its body is missing: the next claim ends it as failed (rejected); enqueue it anew",
        )),
        _ => None,
    }
}

/// A lease names its record's fence; its absence is no breach.
fn lease(moment: &Moment, record: &TaskRecord, p: &Places) -> Option<Verdict> {
    let value = p.lease.as_deref()?;
    let owner = record.run.as_ref().zip(record.incarnation.as_ref()).filter(|_| record.state.has_run());
    let Some((run, incarnation)) = owner else {
        let message = format!("it is {}, yet there is a lease: it ends by itself", record.state);
        return Some(Verdict::breach("lease-of-no-run", message));
    };
    let rest = value.strip_prefix(&format!("{run} {incarnation}"));
    // It may say that the run is asked to stop, or that its record is to be looked at.
    let words = [" stop", " look"];
    let rest = rest.map(|rest| words.iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest));
    let driven = match rest {
        Some("") => false,
        Some(expiry) if expiry.starts_with(' ') => true,
        _ => {
            let message =
                "its lease names another run than its record: the next heartbeat of its owner renews it";
            return Some(Verdict::breach("lease-of-another-run", message));
        }
    };
    // A driven clock keeps the expiry in the value; else no lease is longer than T, and a sweep clamps it.
    (!driven && p.lease_ms > moment.lease + moment.beat()).then(|| {
        let message = format!("its lease ends in {} only: a sweep shortens it", lasting(p.lease_ms));
        Verdict::new(Severity::Warning, "lease-too-long", message).doubtful()
    })
}

/// Nothing is due, dead or past its end for longer than its bound.
fn time(moment: &Moment, record: &TaskRecord, p: &Places) -> Vec<Verdict> {
    let mut found = Vec::new();
    let late_by = |score: f64| moment.now - score as i64;
    if let Some(pids) = &record.unkillable {
        let message =
            format!("killed, and still alive: {pids}; end them, or `leasehold task abort --abandon`");
        found.push(Verdict::new(Severity::Warning, "unkillable", message));
    }
    if let Some(at) = p.deadline.filter(|at| late_by(*at) > SLACK_MS) {
        found.push(
            moment.late("deadline-overdue", &format!("its deadline passed {} ago", lasting(late_by(at)))),
        );
    }
    if let Some(due) = p.scheduled.filter(|_| record.state == TaskState::Scheduled) {
        if late_by(due) > SLACK_MS {
            found.push(moment.late("due-not-promoted", &format!("it was due {} ago", lasting(late_by(due)))));
        }
        if record.due_ms.is_some_and(|at| at as f64 != due) {
            let at = display_time(due as u64);
            let message = format!(
                "the schedule says {at}, its record another time: `leasehold doctor --repair` goes by the record"
            );
            found.push(Verdict::breach("due-time-differs", message));
        }
    }
    if !record.state.has_run() {
        return found;
    }
    if let Some(look) = p.running {
        if -late_by(look) > moment.lease + moment.beat() {
            let message = format!("its next look is {} away: a sweep brings it near", lasting(late_by(look)));
            found.push(Verdict::breach("look-too-far", message).doubtful());
        }
        if late_by(look) > SLACK_MS {
            found.push(
                moment.late("look-overdue", &format!("a look at it was due {} ago", lasting(late_by(look)))),
            );
        }
    }
    let suspended = record.unkillable.is_some();
    let hard_end = record.stop.as_ref().filter(|_| !suspended).map_or(i64::MAX, |stop| ms(stop.hard_end_ms));
    if moment.now.saturating_sub(hard_end) > SLACK_MS {
        let by = lasting(moment.now - hard_end);
        found.push(moment.late("hard-end-passed", &format!("it is past its hard end by {by}")));
    }
    if p.owner_dead {
        found.push(moment.late("owner-dead", "its worker is recorded dead, and it runs still by its record"));
    }
    let missed = record.missed_at.filter(|_| p.lease.is_none()).map_or(0, |at| moment.watch - at);
    if missed > moment.lease + SLACK_MS {
        let message = format!("its owner has been dead for {}", lasting(missed));
        found.push(moment.late("owner-dead", &message));
    }
    found
}

mod lane;
#[cfg(test)]
mod tests;
