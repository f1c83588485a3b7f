//! One task as JSON: everything that is known of it. Times are RFC 3339, durations `_ms`.

use leasehold_common::body::Body;
use leasehold_common::name::QueueName;
use leasehold_common::origin::Bound;
use leasehold_common::record::{BudgetUse, Failure, PhaseNow, PhasePast, Stop, TaskDetail, TaskRecord};
use leasehold_common::state::TaskState;
use leasehold_common::time::display_time;
use leasehold_producer::json::{Bytes, from_msgpack};
use serde_json::{Map, Value, json};

use super::command;
use super::millis;

/// The record at the top level, and what belongs to it.
pub(crate) fn document(queue: &QueueName, detail: &TaskDetail) -> Value {
    let r = &detail.record;
    let mut map = record(queue, r);
    if let Some(body) = &detail.body {
        map.insert("name".into(), json!(body.name));
        map.insert("kind".into(), json!(body.kind));
        map.insert("headers".into(), json!(body.headers));
        map.insert("result_rule".into(), json!(body.result_rule.as_str()));
        map.insert("payload".into(), mapped(&command::payload(body)));
        map.insert("silence_notice_ms".into(), json!(body.bounds.silence_notice.map(millis)));
        map.insert("stall_timeout_ms".into(), json!(body.bounds.stall_timeout.map(millis)));
        map.insert("bound_origins".into(), origins(body));
    }
    map.insert("phases".into(), detail.phases.iter().map(phase_past).collect());
    map.insert("output".into(), detail.output.as_ref().map_or(Value::Null, |output| mapped(output)));
    map.insert("note".into(), json!(detail.note));
    map.insert("failure".into(), detail.last_failure().map_or(Value::Null, failure));
    map.insert("history".into(), detail.failures.iter().map(failure).collect());
    Value::Object(map)
}

/// Who set each bound.
fn origins(body: &Body) -> Value {
    let row = |bound: Bound| (bound.as_str().to_owned(), json!(body.origins.of(bound).as_str()));
    Value::Object(Bound::ALL.into_iter().map(row).collect())
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
        ("owner", json!(r.owner)),
        ("lane", json!(r.lane)),
        ("waiting_since", time(r.waiting_ms)),
        ("deadline_at", time(r.deadline_ms)),
        ("last_event_at", time(r.last_event_ms)),
        ("silent_since", time(r.silent_since_ms)),
        ("phase", r.phase.as_ref().map_or(Value::Null, phase_now)),
        ("budgets", r.budgets.iter().map(|(name, used)| (name.to_string(), budget(*used))).collect()),
        ("checkpoint_bytes", json!(r.checkpoint_bytes)),
        ("unkillable", json!(r.unkillable)),
        ("reconciled_at", time(r.reconciled.as_ref().map(|reconciled| reconciled.at_ms))),
        ("reconciled_by", json!(r.reconciled.as_ref().map(|reconciled| &reconciled.by))),
        ("reconciled_reason", json!(r.reconciled.as_ref().map(|reconciled| &reconciled.reason))),
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

fn phase_now(phase: &PhaseNow) -> Value {
    json!({
        "name": phase.name,
        "since": display_time(phase.since_ms),
        "timeout_ms": phase.timeout_ms,
        "ended_at": phase.ended_ms.map(display_time),
    })
}

fn phase_past(phase: &PhasePast) -> Value {
    json!({
        "name": phase.name,
        "attempt": phase.attempt,
        "since": display_time(phase.since_ms),
        "until": display_time(phase.until_ms),
        "duration_ms": phase.until_ms.saturating_sub(phase.since_ms),
    })
}

fn budget(used: BudgetUse) -> Value {
    json!({ "most": used.most, "spent": used.spent, "rest": used.rest() })
}

fn failure(failure: &Failure) -> Value {
    json!({
        "kind": failure.kind,
        "message": failure.message,
        "attempt": failure.attempt,
        "worker": failure.worker,
        "at": display_time(failure.at_ms),
        "phase": failure.phase,
        "phase_ms": failure.phase_ms,
        "exit_code": failure.detail.exit_code,
        "signal": failure.detail.signal,
    })
}

/// MessagePack as JSON; what JSON has no form for is told as such.
pub(crate) fn mapped(bytes: &[u8]) -> Value {
    from_msgpack(bytes, Bytes::Tagged).unwrap_or_else(
        |_| json!({ "unmapped": "MessagePack that JSON has no form for", "bytes": bytes.len() }),
    )
}
