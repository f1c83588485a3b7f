//! The words of explanations.

use std::time::Duration;

use leasehold_common::text::{head, printable};
use leasehold_common::time::{ago, as_ms, display_duration, display_seconds, display_time};

use crate::{Bounds, Failure, OnLeaseExpired, Priority, QueueName, Stop, StopCause, TaskRecord};

/// Bytes of a message that are quoted.
const QUOTED: usize = 200;

/// A moment, and how far from now it is.
pub(super) fn moment(ms: u64, now_ms: u64) -> String {
    format!("{} ({})", display_time(ms), ago(ms, now_ms))
}

/// Text from outside, short and in one line.
pub(super) fn quote(text: &str) -> String {
    let shown = head(text.trim(), QUOTED);
    printable(shown) + if shown.len() < text.trim().len() { ".." } else { "" }
}

/// `1 task`, `2 tasks`.
pub(super) fn several(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A failure in one line: its class, the phase that was blocked and for how long, the message.
pub(super) fn failure(failure: &Failure) -> String {
    let phase = failure.phase.as_ref().map(|phase| {
        let after = failure.phase_ms.map(|ms| format!(" after {}", display_seconds(ms)));
        format!(" in phase {phase}{}", after.unwrap_or_default())
    });
    let message = Some(quote(&failure.message)).filter(|m| !m.is_empty()).map(|m| format!(": {m}"));
    format!("{}{}{}", failure.kind.as_str(), phase.unwrap_or_default(), message.unwrap_or_default())
}

/// By whom and why, as far as somebody said so.
pub(super) fn by_whom(stop: &Stop) -> String {
    let by = stop.by.as_deref().filter(|by| !by.is_empty()).map(|by| format!(" by {}", quote(by)));
    let reason = stop.reason.as_deref().filter(|r| !r.is_empty()).map(|r| format!(" ({})", quote(r)));
    by.unwrap_or_default() + &reason.unwrap_or_default()
}

/// The worker of its current or last run.
pub(super) fn worker(record: &TaskRecord) -> String {
    record.worker.as_ref().map_or_else(|| "its worker".to_owned(), |worker| format!("worker {worker}"))
}

/// Nobody sees what dies, and nothing becomes due.
pub(super) fn no_reaper(queue: &QueueName, swept: Option<Duration>) -> String {
    let since = match swept {
        Some(ago) => format!("no reaper has swept queue {queue} for {}", display_duration(ago)),
        None => format!("no reaper has ever swept queue {queue}"),
    };
    format!(
        "But {since}: start `leasehold reaper` or a worker with --with-reaper, else bounds pass unnoticed."
    )
}

/// The priority whose stream this level is; none for the one of tasks that come back.
pub(super) fn is_again(level: &str) -> bool {
    level.parse::<Priority>().is_err()
}

/// The first bound of a run that will pass, and when, ms. What is in the body alone is known where that is at hand.
pub(super) fn next_bound(record: &TaskRecord, bounds: Option<&Bounds>) -> Option<(StopCause, u64)> {
    let started = record.started_ms?;
    let run = record.policy.run_timeout.map(|t| (StopCause::RunTimeout, started + as_ms(t)));
    let phase = record.phase.as_ref().filter(|phase| phase.ended_ms.is_none());
    let phase = phase.and_then(|p| Some((StopCause::PhaseTimeout, p.since_ms + p.timeout_ms?)));
    let stall = bounds.and_then(|bounds| bounds.stall_timeout).map(|timeout| {
        let life = record.last_event_ms.unwrap_or_default().max(started);
        (StopCause::Stalled, life + as_ms(timeout))
    });
    let deadline = record.deadline_ms.map(|ms| (StopCause::Deadline, ms));
    [run, phase, stall, deadline].into_iter().flatten().min_by_key(|(_, at)| *at)
}

/// May another attempt follow a run that ends by this cause?
pub(super) fn leaves_attempts(cause: StopCause, record: &TaskRecord) -> bool {
    match cause {
        StopCause::RunTimeout | StopCause::PhaseTimeout | StopCause::Stalled => {
            record.failures + 1 < u64::from(record.policy.max_attempts)
        }
        StopCause::Drain => !is_once(record),
        StopCause::Deadline | StopCause::BudgetExceeded | StopCause::Abort => false,
    }
}

/// Must it not be started twice?
fn is_once(record: &TaskRecord) -> bool {
    record.policy.on_lease_expired == OnLeaseExpired::Fail
}

/// What comes of a bound that passes.
pub(super) fn outcome_of(cause: StopCause, record: &TaskRecord) -> &'static str {
    let again = leaves_attempts(cause, record);
    match cause {
        StopCause::RunTimeout | StopCause::PhaseTimeout | StopCause::Stalled if !again => {
            "it then ends timed_out, for that spends its last attempt"
        }
        // The bound of `lua/lib/outcome.lua`: who cannot say that the work has ended leaves it in doubt.
        StopCause::RunTimeout | StopCause::PhaseTimeout | StopCause::Stalled if is_once(record) => {
            "that spends a failure: it is tried again if its worker says that the run has ended, and else ends timed_out, \
             for it must not be started twice"
        }
        StopCause::RunTimeout | StopCause::PhaseTimeout | StopCause::Stalled => {
            "that spends a failure, and it is tried again"
        }
        StopCause::Deadline => "it then ends timed_out for good",
        StopCause::BudgetExceeded => "it then ends failed for good",
        StopCause::Abort => "it then ends aborted",
        StopCause::Drain if again => "it is then queued again at the front, at no cost",
        StopCause::Drain => "it then ends aborted, for it must not be started twice",
    }
}

/// What comes of a run whose worker is dead.
pub(super) fn without_lease(record: &TaskRecord) -> &'static str {
    if record.stop.is_some() {
        "it ends as it was asked to"
    } else if is_once(record) {
        "it ends failed (lease_expired), for it must not be started twice"
    } else if record.reclaims >= u64::from(record.policy.max_reclaims) {
        "it ends failed (lease_expired), for it has lost as many workers as it may"
    } else {
        "it is reclaimed and queued again"
    }
}

/// Nobody claims anything.
pub(super) fn no_worker(queue: &QueueName) -> String {
    format!("No worker of queue {queue} lives: start one, such as `leasehold worker --queue {queue}=8`.")
}

/// How long a run has given no sign of life.
pub(super) fn silence(record: &TaskRecord, now_ms: u64) -> Option<String> {
    let since = record.silent_since_ms?;
    Some(format!("No output for {}s.", now_ms.saturating_sub(since) / 1000))
}
