//! `leasehold demo --wedge`: what it claims is recomputed from what its commands wrote, its proof fails when it
//! should, and nothing of it is left.

use std::time::Duration;

use leasehold_tests::{eventually, procfs};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::demo::kit::{LIMIT, Stage, named};

/// `turn-7` is 7.
fn number(run: &Value) -> u64 {
    run["task"].as_str().unwrap().strip_prefix("turn-").unwrap().parse().unwrap()
}

#[test]
fn r81_r84_r85_the_wedge_demo_shows_a_lane_go_on_after_a_kill_a_freeze_and_an_abort() {
    let stage = Stage::new();
    let finished = stage.demo().args(["--wedge", "--json"]).spawn().wait(LIMIT).success();
    let told = finished.json();
    assert_eq!((&told["ok"], &told["problems"]), (&true.into(), &Value::Array(Vec::new())));
    assert_eq!(
        told["line"],
        "wedge: 12 turns of agent-7: 11 completed, 1 aborted; one at a time, in order, never stuck"
    );

    // Once more by the times, where the demo judges by the order of the lines.
    let runs = told["effects"]["runs"].as_array().unwrap();
    let at = |run: &Value, when: &str| run[when].as_u64().unwrap();
    for pair in runs.windows(2) {
        assert!(at(&pair[0], "last_ns") <= at(&pair[1], "begin_ns"), "two at once: {pair:?}");
        assert!(number(&pair[0]) <= number(&pair[1]), "out of order: {pair:?}");
    }
    for (index, turn) in told["turns"].as_array().unwrap().iter().enumerate() {
        let number_of_turn = index as u64 + 1;
        let ends = runs.iter().filter(|run| number(run) == number_of_turn && run["ended"] == true).count();
        let aborted = number_of_turn == 9;
        assert_eq!(ends, usize::from(!aborted), "{turn}");
        assert_eq!(turn["state"], if aborted { "aborted" } else { "completed" }, "{turn}");
    }
    for reclaimed in ["turn-1", "turn-5"] {
        let turn = named(&told["turns"], "id", reclaimed);
        assert!(turn["reclaims"].as_u64() >= Some(1) && turn["attempt"].as_u64() >= Some(2), "{turn}");
        assert_eq!(turn["reconciled"]["by"], "sweep");
        assert_eq!(turn["reconciled"]["reason"], "its lease expired");
        assert_ne!(turn["reconciled"]["at_ms"].as_u64().unwrap(), 0);
    }
    assert_eq!(named(&told["turns"], "id", "turn-9")["reconciled"], Value::Null);
    assert_eq!(told["doctor"]["clean"], true);

    // The main facts are told to whoever watches.
    for fact in [
        "4 have a place, 1 may run at a time",
        "1 ahead of it: turn-1 (running)",
        "3 ahead of it: turn-5 (running), turn-6, turn-7",
        "was killed with SIGKILL; none of its processes is left",
        "reconciled_by sweep, reconciled_reason \"its lease expired\"",
        "was frozen with SIGSTOP",
        "asked and was told: \"lease lost",
        "the record is as it was",
        "turn-9 is aborted",
    ] {
        assert!(finished.stderr.contains(fact), "{fact}\n{}", finished.stderr);
    }
    stage.nothing_is_left(&told);
}

/// Somebody else lets the frozen command go on, which the guard had stopped: now two run at once, and the file says so.
#[test]
fn the_wedge_demo_fails_when_two_turns_ran_at_once() {
    let stage = Stage::new();
    let mut demo = stage.demo().arg("--wedge").spawn();
    demo.wait_for_output("was frozen with SIGSTOP", LIMIT);
    let marked = format!("EFFECTS={}", stage.temporary().display());
    eventually("the demo has ended", LIMIT, || {
        for pid in procfs::processes_with_env(&marked) {
            if procfs::state(pid) == Some('T') {
                procfs::signal(pid, Signal::SIGCONT);
            }
        }
        demo.try_wait().ok_or("it runs")
    });
    let finished = demo.wait(LIMIT).expect_code(1);
    let told = "problem: two ran at once: attempt 1 of turn-5 still ran when attempt 2 of turn-5 had begun";
    assert!(finished.stderr.contains(told), "{}", finished.stderr);
    assert!(finished.stdout.lines().last().unwrap().ends_with("NOT AS IT SHOULD BE"), "{}", finished.stdout);
    stage.nothing_is_left(&Value::Null);
}

/// A frozen worker cannot notice that the demo is gone.
#[test]
fn a_wedge_demo_that_is_killed_while_a_worker_is_frozen_leaves_nothing_behind() {
    let stage = Stage::new();
    let mut demo = stage.demo().arg("--wedge").spawn();
    demo.wait_for_output("was frozen with SIGSTOP", LIMIT);
    demo.signal(Signal::SIGKILL);
    eventually("what a killed demo left is taken down", LIMIT, || stage.left());
    demo.wait(Duration::from_secs(5)).expect_code(137);
}

#[test]
fn the_wedge_demo_works_on_no_folder() {
    let stage = Stage::new();
    let said = stage.demo().args(["--wedge", "files"]).run().expect_code(2).stderr;
    assert!(said.contains("--wedge"), "{said}");
    stage.nothing_is_left(&Value::Null);
}
