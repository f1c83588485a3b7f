//! One task: everything that is known of it.

use leasehold_common::body::Body;
use leasehold_common::name::QueueName;
use leasehold_common::record::{Failure, Stop, TaskDetail, TaskRecord};
use leasehold_common::state::TaskState;
use leasehold_common::text::{head, printable};
use leasehold_common::time::{display_duration, display_time};
use leasehold_producer::json::{Bytes, from_msgpack};
use serde_json::{Map, Value, json};

use super::{Lines, ago, command, millis};

/// Bytes of a payload or output that a person is shown; `--json` has all of it.
const SHOWN: usize = 2000;

/// A task as JSON: the record at the top level. Times are RFC 3339, durations `_ms`.
pub(crate) fn document(queue: &QueueName, detail: &TaskDetail) -> Value {
    let r = &detail.record;
    let mut map = record(queue, r);
    if let Some(body) = &detail.body {
        map.insert("name".into(), json!(body.name));
        map.insert("kind".into(), json!(body.kind));
        map.insert("owner".into(), json!(body.owner));
        map.insert("headers".into(), json!(body.headers));
        map.insert("result_rule".into(), json!(body.result_rule.as_str()));
        map.insert("payload".into(), mapped(&command::payload(body)));
    }
    map.insert("output".into(), detail.output.as_ref().map_or(Value::Null, |output| mapped(output)));
    map.insert("note".into(), json!(detail.note));
    map.insert("failure".into(), detail.last_failure().map_or(Value::Null, failure));
    map.insert("history".into(), detail.failures.iter().map(failure).collect());
    Value::Object(map)
}

/// What the record alone says.
pub(crate) fn record(queue: &QueueName, r: &TaskRecord) -> Map<String, Value> {
    let time = |ms: Option<u64>| json!(ms.map(display_time));
    let policy = &r.policy;
    let fields = [
        ("queue", json!(queue)),
        ("id", json!(r.id)),
        ("state", json!(r.state)),
        ("attempt", json!(r.attempt)),
        ("failures", json!(r.failures)),
        ("max_attempts", json!(policy.max_attempts)),
        ("reclaims", json!(r.reclaims)),
        ("max_reclaims", json!(policy.max_reclaims)),
        ("on_lease_expired", json!(policy.on_lease_expired)),
        ("priority", json!(r.priority)),
        ("run", json!(r.run)),
        ("worker", json!(r.worker)),
        ("incarnation", json!(r.incarnation)),
        ("token", json!(r.token)),
        ("enqueued_at", time(Some(r.enqueued_ms))),
        ("due_at", time(r.due_ms.filter(|_| r.state == TaskState::Scheduled))),
        ("started_at", time(r.started_ms)),
        ("ended_at", time(r.ended_ms)),
        ("run_timeout_ms", json!(policy.run_timeout.map(millis))),
        ("stop_grace_ms", json!(millis(policy.stop_grace))),
        ("progress", json!(r.progress)),
        ("suspected", json!(r.suspected)),
        ("stop", r.stop.as_ref().map_or(Value::Null, stop)),
        ("failure_kind", json!(r.failure_kind)),
        ("rev", json!(r.rev)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn stop(stop: &Stop) -> Value {
    json!({
        "cause": stop.cause,
        "at": display_time(stop.at_ms),
        "grace_ms": stop.grace_ms,
        "kill_at": display_time(stop.at_ms + stop.grace_ms),
        "hard_end_at": display_time(stop.hard_end_ms),
        "by": stop.by,
        "reason": stop.reason,
        "earlier_cause": stop.earlier_cause,
    })
}

fn failure(failure: &Failure) -> Value {
    json!({
        "kind": failure.kind,
        "message": failure.message,
        "attempt": failure.attempt,
        "worker": failure.worker,
        "at": display_time(failure.at_ms),
        "exit_code": failure.detail.exit_code,
        "signal": failure.detail.signal,
    })
}

/// MessagePack as JSON; what JSON has no form for is told as such.
fn mapped(bytes: &[u8]) -> Value {
    from_msgpack(bytes, Bytes::Tagged).unwrap_or_else(
        |_| json!({ "unmapped": "MessagePack that JSON has no form for", "bytes": bytes.len() }),
    )
}

/// A task for people. `now` is Redis's time in ms.
pub(crate) fn text(queue: &QueueName, detail: &TaskDetail, now: u64) -> String {
    let r = &detail.record;
    let mut lines = Lines::new();
    lines.add("task", &printable(r.id.as_str()));
    lines.add("queue", queue.as_str());
    if let Some(body) = &detail.body {
        what(&mut lines, body);
    }
    let suspected = if r.suspected { " (its lease is missing; the second look decides)" } else { "" };
    lines.add("state", &format!("{}{suspected}", r.state));
    lines.add("next", &next_step(queue, r, now));
    lines.add("attempt", &attempts(r));
    if let (Some(run), Some(worker)) = (&r.run, &r.worker) {
        lines.add("run", &format!("{run} on {worker}"));
    }
    bounds(&mut lines, r);
    times(&mut lines, r, now);
    if let Some(progress) = r.progress {
        lines.add("progress", &format!("{:.0} %", progress * 100.0));
    }
    if let Some(note) = &detail.note {
        lines.add("note", note);
    }
    if let Some(stop) = &r.stop {
        lines.add("stop", &stop_text(stop, now));
    }
    for failure in &detail.failures {
        let kind = failure.kind.as_str();
        let at = ago(failure.at_ms, now);
        lines.add("failure", &format!("attempt {}, {at}: {kind}: {}", failure.attempt, failure.message));
    }
    if let Some(output) = &detail.output {
        lines.add("output", &shortened(&mapped(output)));
    }
    lines.text()
}

fn what(lines: &mut Lines, body: &Body) {
    match command::command(body) {
        Some(command) => {
            let words: Vec<String> = command.argv.iter().map(|word| quoted(word)).collect();
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
    for (name, value) in &body.headers {
        lines.add("header", &format!("{name}={value}"));
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
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

fn bounds(lines: &mut Lines, r: &TaskRecord) {
    let timeout = r.policy.run_timeout.map_or_else(|| "none".to_owned(), display_duration);
    let expired = format!("{:?}", r.policy.on_lease_expired).to_lowercase();
    let grace = display_duration(r.policy.stop_grace);
    let priority = r.priority;
    lines.add(
        "bounds",
        &format!(
            "run timeout {timeout}, stop grace {grace}, priority {priority}, if its worker dies: {expired}"
        ),
    );
}

fn times(lines: &mut Lines, r: &TaskRecord, now: u64) {
    let moment = |ms: u64| format!("{} ({})", display_time(ms), ago(ms, now));
    lines.add("enqueued", &moment(r.enqueued_ms));
    if let Some(due) = r.due_ms.filter(|_| r.state == TaskState::Scheduled) {
        lines.add("due", &moment(due));
    }
    if let Some(started) = r.started_ms {
        lines.add("started", &moment(started));
    }
    if let Some(ended) = r.ended_ms.filter(|_| r.state.is_terminal()) {
        lines.add("ended", &moment(ended));
    }
}

fn stop_text(stop: &Stop, now: u64) -> String {
    let by = stop.by.as_deref().filter(|by| !by.is_empty()).map(|by| format!(" by {by}")).unwrap_or_default();
    let reason =
        stop.reason.as_deref().filter(|r| !r.is_empty()).map(|r| format!(": {r}")).unwrap_or_default();
    let earlier = stop.earlier_cause.map(|c| format!(", after a {}", c.as_str())).unwrap_or_default();
    format!("{}{by}, {}{earlier}{reason}", stop.cause.as_str(), ago(stop.at_ms, now))
}

/// Who acts next, and by when. `now` is Redis's time in ms.
pub(crate) fn next_step(queue: &QueueName, r: &TaskRecord, now: u64) -> String {
    let worker =
        r.worker.as_ref().map_or_else(|| "its worker".to_owned(), |worker| format!("worker {worker}"));
    match r.state {
        TaskState::Scheduled => {
            let due = r.due_ms.unwrap_or(now);
            let why = if r.attempt > 0 { "for its next attempt" } else { "for the first time" };
            format!(
                "a worker or reaper queues it {} {why}",
                if due <= now { "now".to_owned() } else { ago(due, now) }
            )
        }
        TaskState::Waiting => "what it waits for".to_owned(),
        TaskState::Queued => format!("a worker of queue {queue} claims it"),
        TaskState::Running if r.suspected => {
            format!("{worker} has not renewed its lease: a reaper decides at its second look")
        }
        TaskState::Running => match (&r.stop, r.policy.run_timeout, r.started_ms) {
            (Some(stop), ..) => {
                format!("{worker} stops it; a reaper ends it {} at the latest", ago(stop.hard_end_ms, now))
            }
            (None, Some(timeout), Some(started)) => {
                format!(
                    "{worker} runs it, until its run timeout {} at most",
                    ago(started + millis(timeout), now)
                )
            }
            (None, ..) => format!("{worker} runs it, for as long as it takes"),
        },
        TaskState::Aborting => {
            let until = r.stop.as_ref().map(|stop| {
                let kill = stop.at_ms + stop.grace_ms;
                let killed = if kill > now {
                    format!("what is left is killed {}", ago(kill, now))
                } else {
                    "what is left is killed now".to_owned()
                };
                format!("; {killed}; a reaper ends it {} at the latest", ago(stop.hard_end_ms, now))
            });
            format!("{worker} ends it{}", until.unwrap_or_default())
        }
        TaskState::Completed => "nobody: it is done, and removed when its retention is over".to_owned(),
        TaskState::Failed | TaskState::TimedOut | TaskState::Aborted => {
            format!(
                "nobody, unless you run it again: leasehold task retry {}",
                quoted(&printable(r.id.as_str()))
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a-b/c.d"), "a-b/c.d");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
