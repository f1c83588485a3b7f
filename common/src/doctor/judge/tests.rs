//! A sound task in every state, and each way in which one is not.

use super::*;
use crate::name::{Incarnation, RunId};
use crate::record::{Stop, StopCause};

const NOW: i64 = 1_000_000_000;

fn moment() -> Moment {
    Moment { now: NOW, lease: 15_000, swept_ago: Some(100), sweeping: true, watch: 500_000 }
}

fn at(ms: i64) -> u64 {
    u64::try_from(ms).unwrap()
}

fn stop(cause: StopCause, hard_end: i64) -> Stop {
    let hard_end_ms = at(hard_end);
    Stop { cause, at_ms: at(NOW), grace_ms: 1000, hard_end_ms, by: None, reason: None, earlier_cause: None }
}

/// A sound record in this state.
fn record(state: TaskState) -> TaskRecord {
    let runs = state.has_run();
    TaskRecord {
        attempt: u64::from(runs),
        entry: (state == TaskState::Queued).then(|| "normal:1-0".to_owned()),
        run: runs.then(|| RunId::new("normal:1-0").unwrap()),
        incarnation: runs.then(|| Incarnation::new("inc1").unwrap()),
        enqueued_ms: at(NOW),
        due_ms: (state == TaskState::Scheduled).then(|| at(NOW + 1000)),
        started_ms: runs.then(|| at(NOW)),
        ended_ms: state.is_terminal().then(|| at(NOW)),
        stop: (state == TaskState::Aborting).then(|| stop(StopCause::Abort, NOW + 21_000)),
        waiting_ms: (state == TaskState::Waiting).then(|| at(NOW)),
        body: Some(b"body".to_vec()),
        ..TaskRecord::sample(TaskId::new("t").unwrap(), state)
    }
}

fn nowhere() -> Places {
    Places {
        id: TaskId::new("t").unwrap(),
        record: None,
        body_type: "none".to_owned(),
        lease: None,
        lease_ms: -2,
        running: None,
        scheduled: None,
        done: Vec::new(),
        gone: false,
        waiting: None,
        deadline: None,
        owned: false,
        lane_rank: None,
        lane_limit: 1,
        lane_most: 1,
        lane_row: true,
        behind_waiting: false,
        entry: false,
        owner_dead: false,
    }
}

fn sound(state: TaskState) -> Places {
    with(state, |_| {})
}

/// A record changed by `change`, in the places of a sound one.
fn with(state: TaskState, change: impl FnOnce(&mut TaskRecord)) -> Places {
    let mut record = record(state);
    change(&mut record);
    let mut places = Places { record: Some(Ok(record)), ..nowhere() };
    match state {
        TaskState::Scheduled => places.scheduled = Some((NOW + 1000) as f64),
        TaskState::Queued => places.entry = true,
        TaskState::Running | TaskState::Aborting => {
            places.running = Some((NOW + 5000) as f64);
            places.lease = Some("normal:1-0 inc1".to_owned());
            places.lease_ms = 9000;
        }
        _ => places.done = vec![state],
    }
    places
}

fn codes(places: &Places) -> Vec<&'static str> {
    task(&moment(), places).iter().map(|v| v.code).collect()
}

const LIVING: [TaskState; 8] = [
    TaskState::Scheduled,
    TaskState::Queued,
    TaskState::Running,
    TaskState::Aborting,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::TimedOut,
    TaskState::Aborted,
];

#[test]
fn a_sound_task_in_every_state_is_clean() {
    for state in LIVING {
        assert_eq!(codes(&sound(state)), [""; 0], "{state}");
    }
    assert_eq!(codes(&nowhere()), [""; 0], "an id that is known nowhere");
}

#[test]
fn each_state_has_its_required_place() {
    for (state, code) in [
        (TaskState::Scheduled, "missing-from-scheduled"),
        (TaskState::Queued, "missing-entry"),
        (TaskState::Running, "missing-from-running"),
        (TaskState::Aborting, "missing-from-running"),
        (TaskState::Completed, "missing-from-done"),
        (TaskState::Failed, "missing-from-done"),
        (TaskState::TimedOut, "missing-from-done"),
        (TaskState::Aborted, "missing-from-done"),
    ] {
        let Places { record, lease, lease_ms, .. } = sound(state);
        assert_eq!(codes(&Places { record, lease, lease_ms, ..nowhere() }), [code], "{state}");
    }
}

#[test]
fn no_state_has_anothers_place() {
    for state in LIVING {
        let mut wrong = Vec::new();
        if !state.has_run() {
            wrong.push(("also-in-running", Places { running: Some((NOW + 1) as f64), ..sound(state) }));
        }
        if state != TaskState::Scheduled {
            wrong.push(("also-in-scheduled", Places { scheduled: Some((NOW + 1) as f64), ..sound(state) }));
        }
        if state != TaskState::Queued {
            wrong.push(("also-an-entry", Places { entry: true, ..sound(state) }));
        }
        let other = if state == TaskState::Failed { TaskState::Aborted } else { TaskState::Failed };
        let mut done = sound(state).done;
        done.push(other);
        wrong.push(("also-in-done", Places { done, ..sound(state) }));
        wrong.push(("gone-but-there", Places { gone: true, ..sound(state) }));
        for (code, places) in wrong {
            assert_eq!(codes(&places), [code], "{state}");
        }
    }
}

#[test]
fn a_body_lies_in_one_place() {
    let none = |r: &mut TaskRecord| r.body = None;
    let apart = |places: Places| Places { body_type: "string".to_owned(), ..places };
    assert_eq!(codes(&apart(with(TaskState::Queued, none))), [""; 0]);
    assert_eq!(codes(&apart(sound(TaskState::Queued))), ["body-twice"]);
    assert_eq!(codes(&with(TaskState::Queued, none)), ["body-missing"]);
    assert_eq!(codes(&with(TaskState::Failed, none)), [""; 0], "it ended for that");
}

#[test]
fn a_lease_names_its_records_fence() {
    let leased =
        |state, lease: &str| Places { lease: Some(lease.to_owned()), lease_ms: 9000, ..sound(state) };
    for (places, code) in [
        (leased(TaskState::Running, "normal:1-0 inc2"), Some("lease-of-another-run")),
        (leased(TaskState::Running, "normal:1-0 inc12"), Some("lease-of-another-run")),
        (leased(TaskState::Running, "normal:1-0 inc1 1000015000"), None),
        (leased(TaskState::Queued, "normal:1-0 inc1"), Some("lease-of-no-run")),
        (leased(TaskState::Completed, "normal:1-0 inc1"), Some("lease-of-no-run")),
        (Places { lease: None, lease_ms: -2, ..sound(TaskState::Running) }, None),
        (Places { lease_ms: 20_001, ..sound(TaskState::Running) }, Some("lease-too-long")),
        (with(TaskState::Running, |r| r.incarnation = None), Some("fence-missing")),
    ] {
        assert_eq!(codes(&places).first().copied(), code, "{places:?}");
    }
}

#[test]
fn nothing_is_late_while_a_reaper_sweeps_and_without_one_it_warns() {
    let bound = stop(StopCause::RunTimeout, NOW - SLACK_MS - 1);
    let suspected =
        |since: i64| with(TaskState::Running, |r| (r.suspected, r.missed_at) = (true, Some(500_000 - since)));
    let missing = |since: i64| Places { lease: None, lease_ms: -2, ..suspected(since) };
    let late = (NOW - SLACK_MS - 1) as f64;
    let overdue = Places { running: Some(late), ..sound(TaskState::Running) };
    let overtime = with(TaskState::Scheduled, |r| r.due_ms = Some(at(NOW - SLACK_MS - 1)));
    for (places, code) in [
        (with(TaskState::Running, |r| r.stop = Some(bound)), "hard-end-passed"),
        (missing(20_001), "owner-dead"),
        (overdue, "look-overdue"),
        (Places { scheduled: Some(late), ..overtime }, "due-not-promoted"),
    ] {
        for (sweeping, severity) in [(true, Severity::Breach), (false, Severity::Warning)] {
            let found = task(&Moment { sweeping, ..moment() }, &places);
            let [verdict] = &found[..] else { panic!("{code}: {found:?}") };
            assert_eq!((verdict.code, verdict.severity, verdict.doubtful), (code, severity, true));
        }
    }
    assert_eq!(codes(&missing(19_999)), [""; 0], "still being looked at");
    assert_eq!(codes(&suspected(499_999)), [""; 0], "its lease is back: the next beat clears the mark");
}

#[test]
fn scores_beyond_reach_are_told() {
    let far = Places { running: Some((NOW + 20_001) as f64), ..sound(TaskState::Running) };
    assert_eq!(codes(&far), ["look-too-far"]);
    let other = Places { scheduled: Some((NOW + 1) as f64), ..sound(TaskState::Scheduled) };
    assert_eq!(codes(&other), ["due-time-differs"]);
}

#[test]
fn a_record_that_cannot_be_read_is_told_by_why() {
    let newer = Error::NewerFormat { what: String::new(), found: 2, known: 1 };
    for (error, code) in [(newer, "newer-format"), (Error::Protocol(String::new()), "record-unreadable")] {
        assert_eq!(codes(&Places { record: Some(Err(error)), ..nowhere() }), [code]);
    }
}

#[test]
fn rows_without_a_record_are_told() {
    let done = Places { done: vec![TaskState::Failed], ..nowhere() };
    let running = Places { running: Some(1.0), ..nowhere() };
    for places in [done, running, Places { scheduled: Some(1.0), ..nowhere() }] {
        assert_eq!(codes(&places), ["index-without-record"]);
    }
}
