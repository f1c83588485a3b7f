//! One task for people: everything that is known of it.

use leasehold_common::body::Body;
use leasehold_common::origin::{Bound, Origin};
use leasehold_common::record::{Failure, PhaseNow, Stop, TaskDetail, TaskRecord};
use leasehold_common::state::TaskState;
use leasehold_common::text::{head, printable, shell_word};
use leasehold_common::time::{display_duration, display_seconds, display_time};
use leasehold_producer::Explanation;
use serde_json::Value;

use super::document::mapped;
use super::{Lines, ago, command};

/// Bytes of a payload or output that a person is shown; `--json` has all of it.
const SHOWN: usize = 2000;

/// What a person should notice of a task that runs: its silence, and that it was asked to end and has not.
pub(crate) fn notices(r: &TaskRecord, now: u64) -> Vec<String> {
    let silent =
        r.silent_since_ms.map(|since| format!("No output for {}s.", now.saturating_sub(since) / 1000));
    let asked = r.state == TaskState::Aborting;
    let asked = asked.then(|| "Termination requested; process still running.".to_owned());
    let stuck = r.unkillable.as_ref().map(|pids| format!("The system does not end its processes {pids}."));
    [asked, stuck, silent].into_iter().flatten().collect()
}

/// A task. `now` is Redis's time in ms.
pub(crate) fn text(told: &Explanation, detail: &TaskDetail, now: u64) -> String {
    let r = &detail.record;
    let mut lines = Lines::new();
    lines.add("task", &printable(r.id.as_str()));
    lines.add("queue", told.queue.as_str());
    if let Some(body) = &detail.body {
        what(&mut lines, body);
    }
    let suspected = if r.suspected { " (its lease is missing; the second look decides)" } else { "" };
    lines.add("state", &format!("{}{suspected}", r.state));
    for notice in notices(r, now) {
        lines.add("notice", &notice);
    }
    lines.add("next", &told.next);
    lines.add("attempt", &attempts(r));
    if let (Some(run), Some(worker)) = (&r.run, &r.worker) {
        lines.add("run", &format!("{run} on {worker}"));
    }
    bounds(&mut lines, detail);
    times(&mut lines, r, now);
    if let Some(progress) = r.progress {
        lines.add("progress", &format!("{:.0} %", progress * 100.0));
    }
    if let Some(note) = &detail.note {
        lines.add("note", note);
    }
    phases(&mut lines, detail, now);
    for (name, used) in &r.budgets {
        let (spent, most, rest) = (used.spent, used.most, used.rest());
        lines.add("budget", &format!("{name}: {spent} of {most} spent, {rest} left"));
    }
    if let Some(bytes) = r.checkpoint_bytes {
        lines.add("checkpoint", &format!("{bytes} bytes"));
    }
    if let Some(stop) = &r.stop {
        lines.add("stop", &stop_text(stop, now));
    }
    for failure in &detail.failures {
        let at = ago(failure.at_ms, now);
        lines.add("failure", &format!("attempt {}, {at}: {}", failure.attempt, failure_text(failure)));
    }
    if let Some(reconciled) = &r.reconciled {
        let at = ago(reconciled.at_ms, now);
        lines.add("reconciled", &format!("{at} by {}: {}", reconciled.by, reconciled.reason));
    }
    if let Some(output) = &detail.output {
        lines.add("output", &shortened(&mapped(output)));
    }
    lines.text()
}

fn what(lines: &mut Lines, body: &Body) {
    match command::command(body) {
        Some(command) => {
            let words: Vec<String> = command.argv.iter().map(|word| shell_word(word)).collect();
            lines.add("command", head(&words.join(" "), SHOWN));
            if let Some(folder) = &command.cwd {
                lines.add("folder", folder);
            }
        }
        None => {
            lines.add("name", body.name.as_str());
            lines.add("payload", &shortened(&mapped(&body.payload)));
        }
    }
    if !body.result_rule.is_any() {
        lines.add("result", &format!("must follow its rule {}", body.result_rule.as_str()));
    }
    if let Some(owner) = &body.owner {
        lines.add("owner", owner.as_str());
    }
    if let Some(lane) = &body.lane {
        lines.add("lane", lane.as_str());
    }
    for (name, value) in &body.headers {
        lines.add("header", &format!("{name}={value}"));
    }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    let shown = head(&text, SHOWN);
    if shown.len() < text.len() {
        format!("{shown}.. ({} bytes; --json shows all)", text.len())
    } else {
        text
    }
}

/// `1/5 (claimed 3 times, reclaimed once of 3)`
fn attempts(r: &TaskRecord) -> String {
    let (n, most) = r.attempts_shown();
    let reclaims = match r.reclaims {
        0 => String::new(),
        n => format!(", lost its worker {n} of at most {} times", r.policy.max_reclaims),
    };
    format!("{n}/{most} (claimed {} times{reclaims})", r.attempt)
}

fn bounds(lines: &mut Lines, detail: &TaskDetail) {
    let r = &detail.record;
    // A default goes without saying; of anything else a person asks who set it.
    let set_by = |bound: Bound| match detail.body.as_ref().map(|body| body.origins.of(bound)) {
        None | Some(Origin::Default) => String::new(),
        Some(origin) => format!(" (set by {origin})"),
    };
    let beyond = detail.body.as_ref().map(|body| &body.bounds);
    let timeout = r.policy.run_timeout.map_or_else(|| "none".to_owned(), display_duration);
    let expired = format!("{:?}", r.policy.on_lease_expired).to_lowercase();
    let grace = display_duration(r.policy.stop_grace);
    let mut rows = vec![
        format!("run timeout {timeout}{}", set_by(Bound::RunTimeout)),
        format!("stop grace {grace}{}", set_by(Bound::StopGrace)),
        format!("at most {} attempts{}", r.policy.max_attempts, set_by(Bound::MaxAttempts)),
        format!("{} reclaims{}", r.policy.max_reclaims, set_by(Bound::MaxReclaims)),
        format!("priority {}", r.priority),
        format!("if its worker dies: {expired}{}", set_by(Bound::OnLeaseExpired)),
    ];
    if let Some(silence) = beyond.and_then(|bounds| bounds.silence_notice) {
        rows.push(format!("silence notice {}{}", display_duration(silence), set_by(Bound::SilenceNotice)));
    }
    if let Some(stall) = beyond.and_then(|bounds| bounds.stall_timeout) {
        rows.push(format!("stall timeout {}{}", display_duration(stall), set_by(Bound::StallTimeout)));
    }
    if r.deadline_ms.is_some() {
        rows.push(format!("a deadline{}", set_by(Bound::Deadline)));
    }
    if !r.budgets.is_empty() {
        rows.push(format!("budgets{}", set_by(Bound::Budgets)));
    }
    lines.add("bounds", &rows.join(", "));
}

fn times(lines: &mut Lines, r: &TaskRecord, now: u64) {
    let moment = |ms: u64| format!("{} ({})", display_time(ms), ago(ms, now));
    lines.add("enqueued", &moment(r.enqueued_ms));
    if let Some(due) = r.due_ms.filter(|_| r.state == TaskState::Scheduled) {
        lines.add("due", &moment(due));
    }
    if let Some(since) = r.waiting_ms {
        lines.add("waiting", &moment(since));
    }
    if let Some(deadline) = r.deadline_ms {
        lines.add("deadline", &moment(deadline));
    }
    if let Some(started) = r.started_ms {
        lines.add("started", &moment(started));
    }
    if let Some(event) = r.last_event_ms {
        lines.add("last sign", &moment(event));
    }
    if let Some(ended) = r.ended_ms.filter(|_| r.state.is_terminal()) {
        lines.add("ended", &moment(ended));
    }
}

/// The phase that it is in, and those that are over.
fn phases(lines: &mut Lines, detail: &TaskDetail, now: u64) {
    if let Some(phase) = detail.record.phase.as_ref().filter(|phase| phase.ended_ms.is_none()) {
        lines.add("phase", &phase_text(phase, now));
    }
    for past in &detail.phases {
        let lasted = display_seconds(past.until_ms.saturating_sub(past.since_ms));
        lines.add("phase over", &format!("{} took {lasted}, in attempt {}", past.name, past.attempt));
    }
}

fn phase_text(phase: &PhaseNow, now: u64) -> String {
    let most = phase.timeout_ms.map_or_else(
        || "no timeout of its own".to_owned(),
        |ms| {
            let until = ago(phase.since_ms + ms, now);
            format!("timeout {}, passing {until}", display_seconds(ms))
        },
    );
    format!("{} since {} ({}), {most}", phase.name, display_time(phase.since_ms), ago(phase.since_ms, now))
}

/// `phase_timeout in phase download after 60 s: message`.
fn failure_text(failure: &Failure) -> String {
    let phase = failure.phase.as_ref().map(|phase| {
        let after = failure.phase_ms.map(|ms| format!(" after {}", display_seconds(ms))).unwrap_or_default();
        format!(" in phase {phase}{after}")
    });
    let message = if failure.message.is_empty() { String::new() } else { format!(": {}", failure.message) };
    format!("{}{}{message}", failure.kind.as_str(), phase.unwrap_or_default())
}

fn stop_text(stop: &Stop, now: u64) -> String {
    let by = stop.by.as_deref().filter(|by| !by.is_empty()).map(|by| format!(" by {by}")).unwrap_or_default();
    let reason =
        stop.reason.as_deref().filter(|r| !r.is_empty()).map(|r| format!(": {r}")).unwrap_or_default();
    let earlier = stop.earlier_cause.map(|c| format!(", after a {}", c.as_str())).unwrap_or_default();
    format!("{}{by}, {}{earlier}{reason}", stop.cause.as_str(), ago(stop.at_ms, now))
}
