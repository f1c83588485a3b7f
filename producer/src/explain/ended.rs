//! Tasks that have ended.

use leasehold_common::text::{printable, shell_word};
use leasehold_common::time::{as_ms, display_duration, display_seconds};

use super::words::{self, by_whom, moment, quote, worker};
use super::{Facts, Said};
use crate::{TaskDetail, TaskRecord, TaskState};

pub(super) fn ended(detail: &TaskDetail, facts: &Facts) -> Said {
    let (r, now) = (&detail.record, facts.now_ms);
    let mut why = vec![how(detail)];
    if let Some(reconciled) = &r.reconciled {
        let at = moment(reconciled.at_ms, now);
        let (by, reason) = (quote(&reconciled.by), quote(&reconciled.reason));
        why.push(format!("The end of a run was decided for it by {by} at {at}: {reason}."));
    }
    let id = shell_word(&printable(r.id.as_str()));
    let mut next =
        vec![format!("Nobody acts: it is final, unless you run it again with `leasehold task retry {id}`.")];
    if let Some(bytes) = r.checkpoint_bytes {
        next.push(format!(
            "It left a checkpoint of {bytes} bytes: `leasehold task resume {id}` goes on from there."
        ));
    }
    let removed = facts.retention.and_then(|kept| Some((kept, r.ended_ms? + as_ms(kept))));
    if let Some((kept, at)) = removed {
        let at = moment(at, now);
        next.push(format!("A reaper removes it at {at}, after {} of retention.", display_duration(kept)));
    }
    Said { since_ms: r.ended_ms, why, next, by_ms: removed.map(|(_, at)| at) }
}

fn how(detail: &TaskDetail) -> String {
    let r = &detail.record;
    let last = detail.last_failure();
    match r.state {
        TaskState::Completed => {
            format!("Attempt {} on {} gave a result{}.", r.attempt, worker(r), runtime(r))
        }
        TaskState::Failed | TaskState::TimedOut => {
            let reason = last.map_or_else(
                || r.failure_kind.map_or("no reason was kept", |kind| kind.as_str()).to_owned(),
                words::failure,
            );
            format!("{}{reason}.", run_of(r))
        }
        _ => {
            let by = r.stop.as_ref().map(by_whom).unwrap_or_default();
            let earlier = r.stop.as_ref().and_then(|stop| stop.earlier_cause);
            let earlier = earlier.map(|cause| format!(", after a {}", cause.as_str())).unwrap_or_default();
            let phase = blocked(r).map(|phase| format!(" {phase}")).unwrap_or_default();
            let detail =
                last.filter(|failure| failure.attempt == r.attempt && failure.kind.as_str() == "abort");
            let detail =
                detail.map(|f| format!("; its run ended with: {}", quote(&f.message))).unwrap_or_default();
            format!("It was aborted{by}{earlier}{phase}{detail}.")
        }
    }
}

fn runtime(r: &TaskRecord) -> String {
    let ms = r.started_ms.and_then(|from| r.ended_ms.map(|until| until.saturating_sub(from)));
    ms.map(|ms| format!(" after {}", display_seconds(ms))).unwrap_or_default()
}

/// Which run it was that ended so; nothing for a task that never ran.
fn run_of(r: &TaskRecord) -> String {
    if r.attempt == 0 {
        return "It never ran: ".to_owned();
    }
    let spent = match r.failures {
        0 => String::new(),
        n => format!(" (failure {n} of at most {})", r.policy.max_attempts),
    };
    format!("Attempt {} on {}{spent}: ", r.attempt, worker(r))
}

/// The phase that an abort interrupted, and for how long it had lasted.
fn blocked(r: &TaskRecord) -> Option<String> {
    let phase = r.phase.as_ref()?;
    let until = phase.ended_ms.or(r.ended_ms)?;
    // That of an earlier run was over before the abort came.
    if r.stop.as_ref().is_some_and(|stop| stop.at_ms > until) {
        return None;
    }
    let lasted = display_seconds(until.saturating_sub(phase.since_ms));
    Some(format!("in phase {} after {lasted}", phase.name))
}
