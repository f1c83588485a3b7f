//! The accounting by table: what is sabotaged, and what is said.

use std::collections::BTreeMap;

use leasehold_common::doctor::{Finding, Severity};
use leasehold_common::state::TaskState;
use serde_json::json;

use super::super::summary::{
    Doctor, FORMAT, LeftOver, Reclaim, Scenario, Summary, TaskRow, Totals, Versions,
};
use super::{close, line};

fn row(id: &str, state: TaskState) -> TaskRow {
    TaskRow {
        id: id.to_owned(),
        name: "exec".to_owned(),
        expected: state,
        state: Some(state),
        attempt: 1,
        failures: 0,
        reclaims: 0,
        worker: None,
        file: None,
        file_hex: None,
        command: None,
        result: None,
        verified: None,
        file_changed: false,
        failure: None,
        history: Vec::new(),
    }
}

fn file(id: &str) -> TaskRow {
    let result = json!({ "bytes": 10, "sha256": "00", "gzip_bytes": 5, "gzip_sha256": "11" });
    TaskRow {
        file: Some(format!("{id}.rs")),
        result: Some(result),
        verified: Some(true),
        ..row(id, TaskState::Completed)
    }
}

fn good() -> Summary {
    let reclaim = |took| Reclaim {
        id: "a".to_owned(),
        attempt: 1,
        worker: "demo-1".to_owned(),
        killed_ms: 1000,
        next_ms: Some(1000 + took),
        took_ms: Some(took),
        next_worker: Some("demo-2".to_owned()),
    };
    Summary {
        format: FORMAT,
        versions: Versions { leasehold: String::new(), redis: String::new(), server: String::new() },
        directory: "/d".to_owned(),
        namespace: "demo-1".to_owned(),
        queue: "demo".to_owned(),
        lease_ms: 2000,
        started_ms: 1,
        took_ms: 2,
        skipped: BTreeMap::new(),
        tasks: vec![file("a"), file("b"), row("c", TaskState::Aborted), row("d", TaskState::Failed)],
        scenarios: vec![Scenario {
            name: "abort",
            expected: "x".to_owned(),
            happened: "y".to_owned(),
            ok: true,
        }],
        reclaims: vec![reclaim(2900), reclaim(3100)],
        kept: BTreeMap::from([(TaskState::Completed, 2), (TaskState::Aborted, 1), (TaskState::Failed, 1)]),
        doctor: Doctor { clean: true, findings: Vec::new() },
        left_over: LeftOver::default(),
        totals: Totals::default(),
        problems: Vec::new(),
        ok: false,
        line: String::new(),
    }
}

#[test]
fn a_demo_in_which_all_is_accounted_for_is_ok() {
    let summary = close(good());
    assert!(summary.ok && summary.problems.is_empty(), "{:?}", summary.problems);
    assert_eq!(summary.line, "demo: 4 tasks: 2 completed, 1 failed, 1 aborted");
    let totals = &summary.totals;
    assert_eq!((totals.tasks, totals.verified, totals.attempts), (4, 2, 4));
    assert_eq!((totals.bytes, totals.gzip_bytes, totals.reclaim_ms), (20, 10, Some((2900, 3100))));
}

/// What is wrong, how it is brought about, and words of what is said.
type Case = (&'static str, fn(&mut Summary), &'static [&'static str]);

#[test]
fn whatever_is_wrong_is_told_and_fails_the_demo() {
    let cases: [Case; 13] = [
        ("a result does not match", |s| s.tasks[0].verified = Some(false), &["task a", "a.rs"]),
        (
            "a file changed",
            |s| (s.tasks[0].verified, s.tasks[0].file_changed) = (Some(false), true),
            &["a.rs changed", "again"],
        ),
        ("a result was not compared", |s| s.tasks[1].verified = None, &["task b", "not compared"]),
        ("a task is missing", |s| s.tasks[2].state = None, &["task c is missing instead of aborted"]),
        (
            "a task goes on",
            |s| s.tasks[2].state = Some(TaskState::Running),
            &["task c is running instead of aborted"],
        ),
        ("a row is missing", |s| drop(s.tasks.pop()), &["counts 1 failed, the list of tasks 0"]),
        ("a row is there twice", |s| s.tasks.push(file("a")), &["task a is listed twice"]),
        ("the queue has more", |s| s.kept.extend([(TaskState::Queued, 1)]), &["counts 1 queued"]),
        ("a scenario came out otherwise", |s| s.scenarios[0].ok = false, &["abort: expected x; y"]),
        ("a process is left", |s| s.left_over.processes.push(77), &["77"]),
        ("a folder is left", |s| s.left_over.folders.push("/tmp/x".to_owned()), &["/tmp/x"]),
        ("keys are left", |s| s.left_over.keys = 3, &["3 keys", "demo-1"]),
        (
            "the doctor found a breach",
            |s| {
                s.doctor.clean = false;
                s.doctor.findings.push(Finding {
                    severity: Severity::Breach,
                    code: "missing-entry",
                    queue: None,
                    id: None,
                    message: "m".to_owned(),
                });
            },
            &["breach missing-entry"],
        ),
    ];
    for (what, sabotage, words) in cases {
        let mut summary = good();
        sabotage(&mut summary);
        let summary = close(summary);
        assert!(!summary.ok, "{what} is not noticed");
        let said = summary.problems.join("\n");
        assert!(words.iter().all(|word| said.contains(word)), "{what}: {said}");
    }
}

#[test]
fn what_was_found_before_is_kept() {
    let mut summary = good();
    summary.problems.push("the reaper ended badly".to_owned());
    let summary = close(summary);
    assert!(!summary.ok);
    assert_eq!(summary.problems, ["the reaper ended badly"]);
}

#[test]
fn many_of_one_kind_are_counted() {
    let mut summary = good();
    summary.tasks = (0..20).map(|n| file(&format!("f{n}"))).collect();
    summary.kept = BTreeMap::from([(TaskState::Completed, 20)]);
    summary.tasks.iter_mut().for_each(|task| task.verified = Some(false));
    let summary = close(summary);
    assert_eq!(summary.problems.len(), 6);
    assert_eq!(summary.problems[5], "and 15 more of this kind");
}

#[test]
fn the_last_line_names_every_state_that_occurs() {
    let by_state = [("completed", 1), ("timed_out", 2), ("queued", 3), ("missing", 4)];
    let by_state = by_state.map(|(state, n)| (state.to_owned(), n)).into();
    let totals = Totals { tasks: 10, by_state, ..Totals::default() };
    assert_eq!(line(&totals), "demo: 10 tasks: 1 completed, 2 timed_out, 3 queued, 4 missing");
}
