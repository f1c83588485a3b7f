//! How an owner or a lane stands, and tasks as rows of a list.

use leasehold_common::name::QueueName;
use leasehold_common::time::{display_duration, display_time};
use leasehold_producer::{Body, GroupStatus, TaskRecord};
use serde_json::{Map, Value, json};

use super::{Lines, ago, millis, record};

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

/// A task of a list as JSON.
pub(crate) fn task_document(queue: &QueueName, task: &TaskRecord, body: Option<&Body>) -> Map<String, Value> {
    let mut map = record(queue, task);
    map.insert("name".into(), json!(body.map(|b| &b.name)));
    map.insert("kind".into(), json!(body.map(|b| b.kind)));
    map
}
