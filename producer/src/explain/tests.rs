//! What each state says, to the word.

use std::time::Duration;

use super::{Facts, explain};
use crate::{
    Bounds, Failure, FailureDetail, FailureKind, Lane, OnLeaseExpired, PhaseName, PhaseNow, QueueName,
    Reconciled, Stop, StopCause, TaskDetail, TaskId, TaskRecord, TaskState, WorkerName,
};

/// Tuesday, 2026-12-01T00:00:00Z.
const NOW: u64 = 1_796_083_200_000;

fn record(name: &str, state: TaskState) -> TaskRecord {
    let mut record = TaskRecord::sample(TaskId::new(name).unwrap(), state);
    record.enqueued_ms = NOW - 60_000;
    if state.has_run() || state.is_terminal() {
        (record.attempt, record.started_ms) = (1, Some(NOW - 30_000));
        record.worker = Some(WorkerName::new("w1").unwrap());
    }
    record
}

fn facts() -> Facts {
    Facts {
        now_ms: NOW,
        lease: Duration::from_secs(15),
        workers: 1,
        slots: 8,
        swept: Some(Duration::from_millis(500)),
        lane_limit: 1,
        ..Facts::default()
    }
}

fn detail(record: TaskRecord) -> TaskDetail {
    TaskDetail { record, body: None, output: None, failures: Vec::new(), note: None, phases: Vec::new() }
}

fn failure(kind: FailureKind, message: &str) -> Failure {
    Failure {
        kind,
        message: message.to_owned(),
        attempt: 1,
        worker: None,
        at_ms: NOW - 2000,
        phase: None,
        phase_ms: None,
        detail: FailureDetail::default(),
    }
}

fn stop(cause: StopCause) -> Stop {
    let (by, reason) = (Some("ada".to_owned()), Some("user left".to_owned()));
    Stop {
        cause,
        at_ms: NOW - 1000,
        grace_ms: 30_000,
        hard_end_ms: NOW + 49_000,
        by,
        reason,
        earlier_cause: None,
    }
}

fn text(detail: &TaskDetail, facts: &Facts) -> String {
    explain(&QueueName::new("q").unwrap(), detail, facts).text()
}

fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}

#[test]
fn scheduled_says_when_it_is_due_and_what_it_waits_out() {
    let mut r = record("t", TaskState::Scheduled);
    r.due_ms = Some(NOW + 300_000);
    assert_eq!(
        text(&detail(r.clone()), &facts()),
        "Task t of queue q is scheduled since 2026-11-30T23:59:00.000Z (1m ago). It was enqueued for later. At \
         2026-12-01T00:05:00.000Z (in 5m) it is due: a claim of a worker or a sweep of the reaper queues it."
    );
    (r.attempt, r.failures) = (1, 1);
    has(
        &text(&detail(r.clone()), &facts()),
        &["is scheduled. Attempt 1 asked for later (snooze), at no cost."],
    );
    let mut failed = detail(r.clone());
    failed.failures = vec![failure(FailureKind::Error, "it\nbroke")];
    has(
        &text(&failed, &facts()),
        &[
            "(2s ago). Attempt 1 failed (error: it\\u{a}broke), failure 1 of at most 5: it waits out the delay",
        ],
    );
    r.unknown_since_ms = Some(NOW - 10_000);
    has(
        &text(&detail(r.clone()), &facts()),
        &["No worker that claimed it since", "fails as rejected", "(in 4m50s)"],
    );
    r.due_ms = Some(NOW - 1);
    r.deadline_ms = Some(NOW + 1000);
    r.lane = Some(Lane::new("l").unwrap());
    has(&text(&detail(r.clone()), &facts()), &["queues it, with the turn that it has kept in lane \"l\"."]);
    has(
        &text(&detail(r), &facts()),
        &[
            "It is due for its next attempt: the next claim",
            "Wherever it waits then, its deadline ends it at",
            "as timed_out",
        ],
    );
}

#[test]
fn r85_waiting_says_its_lane_how_many_are_ahead_and_what_bounds_the_one_that_runs() {
    let mut r = record("t", TaskState::Waiting);
    (r.waiting_ms, r.lane) = (Some(NOW - 5000), Some(Lane::new("user 7").unwrap()));
    let mut first = record("first", TaskState::Running);
    first.policy.run_timeout = Some(Duration::from_secs(90));
    let around = Facts { ahead_in_lane: Some(2), lane_turns: vec![(first.clone(), None)], ..facts() };
    assert_eq!(
        text(&detail(r.clone()), &around),
        "Task t of queue q is waiting since 2026-11-30T23:59:55.000Z (5s ago). It takes its turn in lane \"user 7\", \
         where 1 task may run at a time: 2 are ahead of it. Task first is running there on worker w1 since \
         2026-11-30T23:59:30.000Z (30s ago), until its run_timeout at 2026-12-01T00:01:00.000Z (in 1m) and 30s of \
         grace. Once 2 of those ahead have ended, however they do, the same script queues it: nobody has to help."
    );
    first.stop = Some(stop(StopCause::RunTimeout));
    let mut later = record("later", TaskState::Scheduled);
    later.due_ms = Some(NOW + 1000);
    let turns = vec![(first.clone(), None), (later, None), (first.clone(), None), (first, None)];
    let around = Facts { lane_limit: 4, lane_turns: turns, ahead_in_lane: Some(4), ..facts() };
    has(
        &text(&detail(r), &around),
        &[
            "4 tasks may run",
            "ends at 2026-12-01T00:00:49.000Z",
            "Task later keeps its turn until",
            "Others have their turn beside. Once 1 of those ahead has ended,",
        ],
    );
}

#[test]
fn r85_waiting_says_how_many_have_to_end_what_ends_the_first_of_them_and_that_nobody_works() {
    let mut r = record("x4", TaskState::Waiting);
    r.lane = Some(Lane::new("L").unwrap());
    let mut first = record("x1", TaskState::Running);
    (first.policy.run_timeout, first.last_event_ms) = (Some(Duration::from_secs(86_400)), Some(NOW - 1000));
    let stall = Bounds { stall_timeout: Some(Duration::from_secs(3)), ..Bounds::default() };
    // Three were let go before the limit fell to one.
    let around = Facts {
        ahead_in_lane: Some(3),
        lane_turns: vec![(first, Some(stall))],
        lane_unreadable: vec![TaskId::new("x2").unwrap()],
        workers: 0,
        ..facts()
    };
    has(
        &text(&detail(r), &around),
        &[
            "where 1 task may run at a time: 3 are ahead of it.",
            "until its stalled at 2026-12-01T00:00:02.000Z (in 2s) and 30s of grace.",
            "The record of task x2, which is at its head, cannot be read",
            "Once 3 of those ahead have ended, however they do, the same script queues it",
            "No worker of queue q lives: start one",
        ],
    );
}

#[test]
fn r09_a_deadline_is_told_as_what_it_does_to_a_run() {
    let with = |state| {
        let mut r = record("t", state);
        (r.deadline_ms, r.policy.run_timeout) = (Some(NOW + 6000), None);
        r
    };
    let mut aborting = with(TaskState::Aborting);
    aborting.stop = Some(stop(StopCause::Abort));
    let told = text(&detail(aborting), &facts());
    assert!(!told.contains("deadline"), "an abort outranks it: {told}");
    let mut r = with(TaskState::Running);
    let told = explain(&QueueName::new("q").unwrap(), &detail(r.clone()), &facts());
    assert_eq!(told.by_ms, Some(NOW + 56_000));
    has(&told.text(), &["else its deadline passes at 2026-12-01T00:00:06.000Z (in 6s): it is asked to end"]);
    assert_eq!(told.text().matches("deadline").count(), 1, "{}", told.text());
    r.policy.run_timeout = Some(Duration::from_secs(31));
    has(
        &text(&detail(r.clone()), &facts()),
        &[
            "else its run_timeout passes",
            "its deadline asks it to end at 2026-12-01T00:00:06.000Z",
            "it has ended, as timed_out, at 2026-12-01T00:00:56.000Z (in 56s) at the latest",
        ],
    );
    r.stop = Some(stop(StopCause::RunTimeout));
    has(&text(&detail(r.clone()), &facts()), &["There is no next attempt after its deadline at 2026-"]);
    r.stop = Some(stop(StopCause::BudgetExceeded));
    let told = text(&detail(r), &facts());
    assert!(!told.contains("deadline"), "it has ended for good by then: {told}");
}

#[test]
fn r13_what_must_not_be_started_twice_is_tried_again_only_if_its_worker_says_that_it_ended() {
    let mut r = record("t", TaskState::Running);
    r.policy.on_lease_expired = OnLeaseExpired::Fail;
    r.suspected = true;
    has(
        &text(&detail(r.clone()), &facts()),
        &[
            "tried again if its worker says that the run has ended, and else ends timed_out",
            "without a lease then it ends failed (lease_expired), for it must not be started twice",
        ],
    );
    r.stop = Some(stop(StopCause::Drain));
    has(&text(&detail(r), &facts()), &["It then ends aborted, for it must not be started twice."]);
    let mut r = record("t", TaskState::Running);
    (r.suspected, r.reclaims, r.policy.max_reclaims) = (true, 3, 3);
    has(&text(&detail(r), &facts()), &["it has lost as many workers as it may"]);
}

#[test]
fn queued_says_how_many_are_before_it_and_whether_anybody_is_there() {
    let r = record("t", TaskState::Queued);
    let around = Facts { queued_up_to_it: 4, ..facts() };
    let told = text(&detail(r.clone()), &around);
    has(
        &told,
        &["It is ready at priority normal; at most 3 tasks before it.", "1 worker with 8 slots live."],
    );
    assert!(!told.contains("reaper"), "{told}");
    let alone = Facts { workers: 0, swept: None, ..around };
    has(
        &text(&detail(r), &alone),
        &[
            "Nobody acts until a worker of queue q claims it. No worker of queue q lives: start one",
            "But no reaper has ever swept queue q: start",
        ],
    );
}

#[test]
fn r24_running_says_its_worker_phase_silence_and_next_bound() {
    let mut r = record("t", TaskState::Running);
    r.policy.run_timeout = Some(Duration::from_secs(3600));
    let name = PhaseName::new("download").unwrap();
    let phase = PhaseNow { name, since_ms: NOW - 20_000, timeout_ms: Some(60_000), ended_ms: None };
    r.phase = Some(phase);
    r.silent_since_ms = Some(NOW - 120_000);
    assert_eq!(
        text(&detail(r.clone()), &facts()),
        "Task t of queue q is running since 2026-11-30T23:59:30.000Z (30s ago). Worker w1 runs it, attempt 1. It is in \
         phase download since 2026-11-30T23:59:40.000Z (20s ago), which may take 60 s. No output for 120s. Its worker \
         ends it; else its phase_timeout passes at 2026-12-01T00:00:40.000Z (in 40s): it is asked to end, what is left \
         is killed 30s later, and that spends a failure, and it is tried again."
    );
    r.suspected = true;
    r.policy.max_attempts = 1;
    has(
        &text(&detail(r.clone()), &facts()),
        &["found no lease", "second look, within 20s", "its last attempt"],
    );
    let away = Facts { swept: Some(Duration::from_secs(40)), ..facts() };
    has(&text(&detail(r.clone()), &away), &["But no reaper has swept queue q for 40s"]);
    r.stop = Some(stop(StopCause::BudgetExceeded));
    let told = text(&detail(r.clone()), &facts());
    has(&told, &["asked to end (budget_exceeded) by ada (user left)", "It then ends failed for good."]);
    (r.stop, r.phase, r.policy.run_timeout) = (None, None, None);
    has(&text(&detail(r.clone()), &facts()), &["it has no bound of time"]);
    r.last_event_ms = Some(NOW - 1000);
    let mut stalling = detail(r);
    let bounds = Bounds { stall_timeout: Some(Duration::from_secs(5)), ..Bounds::default() };
    stalling.body = Some(body(bounds));
    has(&text(&stalling, &facts()), &["else its stalled passes at 2026-12-01T00:00:04.000Z"]);
}

fn body(bounds: Bounds) -> crate::Body {
    crate::Body {
        name: crate::TaskName::new("resize").unwrap(),
        kind: crate::TaskKind::Handler,
        payload: Vec::new(),
        policy: crate::Policy::default(),
        priority: crate::Priority::Normal,
        owner: None,
        result_rule: crate::ResultRule::default(),
        lane: None,
        bounds,
        headers: std::collections::BTreeMap::new(),
        origins: Default::default(),
    }
}

#[test]
fn r26_r27_aborting_says_by_whom_until_when_and_what_a_person_may_do() {
    let mut r = record("it's", TaskState::Aborting);
    r.stop = Some(stop(StopCause::Abort));
    let told = explain(&QueueName::new("q").unwrap(), &detail(r.clone()), &facts());
    assert_eq!(told.by_ms, Some(NOW + 49_000));
    assert_eq!(
        told.text(),
        "Task it's of queue q is aborting since 2026-11-30T23:59:59.000Z (1s ago). Its abort was requested by ada (user \
         left). Termination requested; process still running. Worker w1 ends it; what is left is killed at \
         2026-12-01T00:00:29.000Z (in 29s), and the reaper ends it at 2026-12-01T00:00:49.000Z (in 49s) at the latest."
    );
    r.unkillable = Some("12 34".to_owned());
    let told = explain(&QueueName::new("q").unwrap(), &detail(r), &facts());
    assert_eq!(told.by_ms, None);
    has(&told.text(), &["its processes 12 34", r"`leasehold task abort 'it'\''s' --abandon`"]);
}

#[test]
fn r64_ended_says_how_in_which_phase_and_when_it_is_removed() {
    let around = Facts { retention: Some(Duration::from_secs(86_400)), swept: None, ..facts() };
    let ended = |state| {
        let mut r = record("t", state);
        r.ended_ms = Some(NOW - 1000);
        r
    };
    let told = text(&detail(ended(TaskState::Completed)), &around);
    has(
        &told,
        &[
            "Attempt 1 on worker w1 gave a result after 29 s.",
            "`leasehold task retry t`",
            "after 1d of retention",
        ],
    );
    assert!(!told.contains("swept"), "{told}");
    let mut late = ended(TaskState::TimedOut);
    (late.failures, late.checkpoint_bytes) = (1, Some(17));
    late.reconciled =
        Some(Reconciled { at_ms: NOW - 1000, by: "sweep".into(), reason: "its lease expired".into() });
    let mut late = detail(late);
    let mut blocked = failure(FailureKind::PhaseTimeout, "");
    (blocked.phase, blocked.phase_ms) = (Some(PhaseName::new("download").unwrap()), Some(60_000));
    late.failures = vec![blocked];
    has(
        &text(&late, &around),
        &[
            "(failure 1 of at most 5): phase_timeout in phase download after 60 s.",
            "decided for it by sweep at 2026-11-30T23:59:59.000Z (1s ago): its lease expired.",
            "`leasehold task resume t`",
        ],
    );
    let mut killed = ended(TaskState::Aborted);
    killed.stop = Some(Stop { earlier_cause: Some(StopCause::RunTimeout), ..stop(StopCause::Abort) });
    let name = PhaseName::new("upload").unwrap();
    let since_ms = NOW - 8000;
    killed.phase = Some(PhaseNow { name, since_ms, timeout_ms: None, ended_ms: Some(NOW - 1000) });
    has(
        &text(&detail(killed), &around),
        &["It was aborted by ada (user left), after a run_timeout in phase upload after 7 s."],
    );
    let mut never = ended(TaskState::Failed);
    never.attempt = 0;
    has(&text(&detail(never), &around), &["It never ran: no reason was kept."]);
}
