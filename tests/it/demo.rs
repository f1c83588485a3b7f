//! `leasehold demo`: what it claims is recomputed from its files and its own list, and nothing of it is left.

pub(crate) mod kit;

use std::fs;

use leasehold_tests::checks::keys_of;
use leasehold_tests::{Leasehold, RedisServer, eventually};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use kit::{LIMIT, Stage};

#[test]
fn the_demo_accounts_for_every_task_of_a_folder_with_odd_names_and_leaves_nothing() {
    let stage = Stage::new();
    stage.fill_with_odd_names();
    let finished = stage.demo().arg(stage.files()).spawn().wait(LIMIT).success();
    let summary = stage.summary();
    kit::recompute(&stage, &summary);
    assert_eq!(finished.stdout.lines().last(), summary["line"].as_str());
    assert_eq!(summary["ok"], true, "{}", summary["problems"]);
    assert_eq!(summary["skipped"]["link"], json!({ "count": 2, "first": "link" }));
    assert_eq!(summary["skipped"]["special"]["first"], "pipe");
    assert_eq!(summary["skipped"]["too_large"]["first"], "too large");
    assert_eq!(summary["skipped"]["folder"]["count"], 2);
    for name in ["crash", "abort", "run_timeout", "drain", "retry", "failure"] {
        let scenario = kit::named(&summary["scenarios"], "name", name);
        assert_eq!(scenario["ok"], true, "{scenario}");
    }
    assert!(
        !finished
            .stdout
            .chars()
            .chain(finished.stderr.chars())
            .any(|c| c.is_control() && c != '\n' && c != '\t')
    );
    stage.nothing_is_left(&summary);
}

#[test]
fn the_demo_is_a_guest_on_a_given_redis_and_tells_its_summary_as_json() {
    let (stage, redis) = (Stage::new(), RedisServer::start());
    redis.command::<()>(&["SET", "lh:mine", "1"]);
    stage.fill(&["a", "b", "c"]);
    let url = redis.url();
    let demo = stage.demo().env("LEASEHOLD_REDIS_URL", &url).args(["--json", "--quiet"]).arg(stage.files());
    let finished = demo.spawn().wait(LIMIT).success();
    let (told, written) = (finished.json(), stage.summary());
    assert_eq!(told, written);
    kit::recompute(&stage, &written);
    assert_eq!(finished.stderr, "", "--quiet");
    assert!(keys_of(&redis, written["namespace"].as_str().unwrap()).is_empty());
    assert_eq!(redis.cli(&["KEYS", "*"]).trim(), "lh:mine");
    stage.nothing_is_left(&written);
}

/// Once the drain is shown, every file has been read, and none has been compared.
#[test]
fn files_that_change_or_go_before_they_are_compared_fail_the_demo() {
    let stage = Stage::new();
    stage.fill(&["a", "b", "c", "d"]);
    let mut demo = stage.demo().arg(stage.files()).spawn();
    demo.wait_for_output("told demo-", LIMIT);
    fs::write(stage.files().join("b"), "changed").unwrap();
    fs::remove_file(stage.files().join("d")).unwrap();
    let finished = demo.wait(LIMIT).expect_code(1);
    for file in ["b", "d"] {
        assert!(
            finished.stderr.contains(&format!("problem: {file} changed while the demo ran")),
            "{}",
            finished.stderr
        );
    }
    let summary = stage.summary();
    assert_eq!(summary["ok"], false);
    assert_eq!(summary["problems"].as_array().unwrap().len(), 2, "{}", summary["problems"]);
    assert!(finished.stdout.lines().last().unwrap().starts_with("demo: "));
    stage.nothing_is_left(&summary);
}

#[test]
fn ctrl_c_and_even_sigkill_leave_nothing_of_the_demo_behind() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGKILL, 137)] {
        let stage = Stage::new();
        stage.fill(&["a", "b", "c"]);
        let mut demo = stage.demo().arg(stage.files()).spawn();
        demo.wait_for_output("killed demo-", LIMIT);
        demo.signal(signal);
        eventually("the demo has ended", LIMIT, || demo.try_wait().ok_or("it runs"));
        if signal == Signal::SIGINT {
            stage.nothing_is_left(&Value::Null);
        } else {
            eventually("what a killed demo left is taken down", LIMIT, || stage.left());
        }
        assert!(!stage.work().join("target/demo/summary.json").exists());
        demo.wait(LIMIT).expect_code(code);
    }
}

#[test]
fn a_demo_that_cannot_be_is_refused_before_anything_starts() {
    let stage = Stage::new();
    let said = |demo: Leasehold, code| demo.run().expect_code(code).stderr;
    let empty = said(stage.demo().arg(stage.files()), 2);
    assert!(empty.contains("no file") && empty.contains("name a folder"), "{empty}");
    let missing = said(stage.demo().arg("none"), 2);
    assert!(missing.contains("invalid DIR: none") && missing.contains("name a folder"), "{missing}");
    stage.fill(&["a"]);
    fs::remove_dir_all(stage.work().join("target")).unwrap();
    fs::write(stage.work().join("target"), "a file").unwrap();
    let not_writable = said(stage.demo().arg(stage.files()), 1);
    assert!(not_writable.contains("target/demo/summary.json"), "{not_writable}");
    assert!(not_writable.contains("leasehold demo DIR"), "{not_writable}");
    stage.nothing_is_left(&Value::Null);
}
