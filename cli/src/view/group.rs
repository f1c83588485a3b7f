//! How an owner or a lane stands, and tasks as rows of a list.

use leasehold_common::name::{QueueName, TaskId};
use leasehold_common::time::{display_duration, display_time};
use leasehold_producer::{Activity, Body, GroupStatus, TaskRecord};
use serde_json::{Map, Value, json};

use super::{Lines, ago, millis, record};
use crate::output::{self, Output};

/// Unreadable tasks that a warning names; `--json` has all.
const NAMED: usize = 10;

/// Text, or a dash for none.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A status as JSON: fields of the view that it belongs to.
pub(crate) fn status_fields(status: &GroupStatus) -> Map<String, Value> {
    let fields = [
        ("status", json!(status.activity.as_str())),
        ("task", json!(status.task)),
        ("started_at", json!(status.started_ms.map(display_time))),
        ("ended_at", json!(status.ended_ms.map(display_time))),
        ("runtime_ms", json!(status.runtime.map(millis))),
        ("last_outcome", json!(status.last_outcome)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A status for people. `now` is Redis's time in ms.
pub(crate) fn status_lines(lines: &mut Lines, status: &GroupStatus, now: u64) {
    lines.add("status", status.activity.as_str());
    let moment = |ms: u64| format!("{} ({})", display_time(ms), ago(ms, now));
    lines.add("by task", &or_dash(status.task.as_ref()));
    lines.add("started", &or_dash(status.started_ms.map(moment)));
    lines.add("ended", &or_dash(status.ended_ms.map(moment)));
    lines.add("runtime", &or_dash(status.runtime.map(display_duration)));
    lines.add("last outcome", &or_dash(status.last_outcome));
}

/// Says why a status is not known.
pub(crate) fn note_unknown(output: Output, status: &GroupStatus, seen: &str) {
    if status.activity == Activity::Unknown {
        output.note(&format!("how it stands is not known: nothing that runs, or {seen}, says so"));
    }
}

/// Says which tasks of a list are not shown because nobody can read their records.
pub(crate) fn warn_unreadable(ids: &[TaskId]) {
    let named: Vec<&str> = ids.iter().take(NAMED).map(TaskId::as_str).collect();
    let more = if ids.len() > NAMED { format!(" and {} more", ids.len() - NAMED) } else { String::new() };
    let (records, named) =
        (if ids.len() == 1 { "record of task" } else { "records of tasks" }, named.join(", "));
    if !ids.is_empty() {
        output::warn(&format!("the {records} {named}{more} cannot be read: `leasehold doctor` tells more"));
    }
}

/// A task of a list as JSON.
pub(crate) fn task_document(queue: &QueueName, task: &TaskRecord, body: Option<&Body>) -> Map<String, Value> {
    let mut map = record(queue, task);
    map.insert("name".into(), json!(body.map(|b| &b.name)));
    map.insert("kind".into(), json!(body.map(|b| b.kind)));
    map
}
