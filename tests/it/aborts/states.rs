//! Every state of a task as people see it, and what each says of its bounds and its next step.

use std::path::Path;
use std::time::Duration;

use leasehold_producer::{TaskId, TaskState};
use leasehold_tests::{eventually, let_time_pass};
use serde_json::Value;

use super::kit::{Kit, LIMIT};

/// Shows the task, both ways, once it is in this state.
fn shown(kit: &Kit, id: &TaskId, state: &str) -> Value {
    let shown = eventually(&format!("{id} is {state}"), LIMIT, || {
        let shown = kit.show(id);
        if shown["state"] == state { Ok(shown) } else { Err(shown.to_string()) }
    });
    let text = kit.ok(&["task", "show", id.as_str()]).stdout;
    let line = text.lines().find(|line| line.starts_with("state ")).unwrap_or_default();
    assert!(line.ends_with(&format!(" {state}")), "{text}");
    assert_eq!(shown["id"], id.as_str());
    assert!(shown["enqueued_at"].is_string() && shown["kind"] == "exec", "{shown}");
    for bound in ["max_attempts", "max_reclaims", "run_timeout_ms", "stop_grace_ms"] {
        assert!(shown[bound].is_u64(), "{bound}: {shown}");
    }
    let listed = kit.ok(&["task", "list", "--state", state, "--json"]).json();
    let found = listed["tasks"].as_array().unwrap().iter().any(|task| task["id"] == id.as_str());
    assert!(found, "{id} is not listed as {state}: {listed}");
    shown
}

fn next(shown: &Value) -> &str {
    shown["next"].as_str().unwrap()
}

fn go_on(gate: &Path) {
    std::fs::write(gate, "").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_each_state_of_a_task_is_shown_while_it_is_in_it() {
    let kit = Kit::new().await;
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let waits = format!("echo before; while [ ! -e {} ]; do sleep 0.05; done; echo after", gate.display());

    let later = kit.exec(&["--delay", "1d"], "true");
    let scheduled = shown(&kit, &later, "scheduled");
    assert!(scheduled["due_at"].is_string() && next(&scheduled).contains("in 23h"), "{scheduled}");

    let id = kit.exec(&["--owner", "someone", "--run-timeout", "5m", "--abort-grace", "3s"], &waits);
    let queued = shown(&kit, &id, "queued");
    assert_eq!(
        (&queued["attempt"], &queued["run"], &queued["started_at"]),
        (&0.into(), &Value::Null, &Value::Null)
    );
    assert!(next(&queued).contains("a worker of queue default claims it"), "{queued}");

    let worker = kit.worker("w", 8).await;
    let running = shown(&kit, &id, "running");
    assert_eq!(
        (&running["attempt"], &running["worker"], &running["owner"]),
        (&1.into(), &"w".into(), &"someone".into())
    );
    assert_eq!((&running["run_timeout_ms"], &running["stop_grace_ms"]), (&300_000.into(), &3_000.into()));
    assert!(running["run"].is_string() && running["started_at"].is_string() && running["ended_at"].is_null());
    assert!(
        next(&running).contains("its run_timeout passes at") && next(&running).contains("(in 4m"),
        "{running}"
    );
    go_on(&gate);
    let completed = shown(&kit, &id, "completed");
    assert_eq!(
        (&completed["run"], &completed["failure"]),
        (&running["run"], &Value::Null),
        "the last run is kept"
    );
    assert_eq!(completed["output"], serde_json::json!({ "exit_code": 0, "output_bytes": 13 }));
    assert!(completed["ended_at"].is_string());

    let fails = kit.exec(&[], "exit 3");
    let failed = shown(&kit, &fails, "failed");
    let failure = &failed["failure"];
    assert_eq!(
        (&failure["kind"], &failure["exit_code"], &failure["attempt"]),
        (&"exit_code".into(), &3.into(), &1.into())
    );
    assert_eq!((&failure["worker"], failure["at"].is_string()), (&"w".into(), true));

    let slow = kit.exec(&["--run-timeout", "300ms"], "sleep 600");
    let timed_out = shown(&kit, &slow, "timed_out");
    assert_eq!(
        (&timed_out["failure"]["kind"], &timed_out["stop"]["cause"]),
        (&"run_timeout".into(), &"run_timeout".into())
    );

    let stubborn = kit.exec(&["--abort-grace", "1500ms"], r#"trap "" TERM; echo up; sleep 600"#);
    kit.logs(&stubborn, "up").await;
    kit.ok(&["task", "abort", stubborn.as_str(), "--reason", "no longer wanted"]);
    let aborting = shown(&kit, &stubborn, "aborting");
    let stop = &aborting["stop"];
    assert_eq!(
        (&stop["cause"], &stop["reason"], &stop["grace_ms"]),
        (&"abort".into(), &"no longer wanted".into(), &1500.into())
    );
    assert!(
        stop["by"].as_str().is_some_and(|by| by.starts_with("cli")) && stop["kill_at"].is_string(),
        "{stop}"
    );
    assert!(next(&aborting).contains("what is left is killed"), "{aborting}");
    let aborted = shown(&kit, &stubborn, "aborted");
    assert_eq!(&aborted["stop"]["reason"], "no longer wanted");

    kit.ok(&["task", "abort", later.as_str()]);
    shown(&kit, &later, "aborted");
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_a_retry_in_its_backoff_is_scheduled_with_its_failure_on_record() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 1).await;
    let id = kit.exec(&["--max-attempts", "10000"], "exit 9");
    let seen = eventually("it waits out its backoff", LIMIT, || {
        let shown = kit.show(&id);
        if shown["state"] == "scheduled" { Ok(shown) } else { Err(shown["state"].to_string()) }
    });
    assert!(next(&seen).contains("for its next attempt"), "{seen}");
    assert_eq!((&seen["failure"]["kind"], &seen["failure"]["exit_code"]), (&"exit_code".into(), &9.into()));
    eventually("it is aborted between two attempts", LIMIT, || {
        kit.ok(&["task", "abort", id.as_str()]);
        let state = kit.show(&id)["state"].clone();
        if state == "aborted" { Ok(()) } else { Err(state.to_string()) }
    });
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_a_missing_worker_and_a_missing_reaper_are_said_where_people_look() {
    let kit = Kit::new().await;
    // It is said 30 s after the registration of the queue at the latest: the pulse is set back by as much.
    let past: u64 = kit.store().now_ms().await.unwrap() - 31_000;
    kit.redis.command::<()>(&["HSET", "lh:{default}:pulse", "last", &past.to_string()]);
    let said = kit.exec_cli(&[], &["true"]).run().success();
    let id = TaskId::new(said.line()).unwrap();
    let (worker_missing, reaper_missing) = ("no living worker for queue default", "no reaper");
    assert!(said.stderr.contains(worker_missing) && said.stderr.contains(reaper_missing), "{}", said.stderr);
    let raw = kit.ok(&["enqueue", "default", "some-handler", "{}"]);
    assert!(raw.stderr.contains(worker_missing), "{}", raw.stderr);
    for args in [&["task", "show", id.as_str()][..], &["queue", "list"], &["queue", "show", "default"]] {
        let said = kit.ok(args);
        assert!(
            said.stderr.contains(worker_missing) && said.stderr.contains(reaper_missing),
            "{args:?}: {}",
            said.stderr
        );
    }
    let warnings = kit.show(&id)["warnings"].to_string();
    assert!(warnings.contains(worker_missing) && warnings.contains(reaper_missing), "{warnings}");
    let doctor = kit.cli(["doctor", "--json"]).run().success();
    for code in ["no-worker", "no-reaper"] {
        assert!(doctor.stdout.contains(code), "{code}: {}", doctor.stdout);
    }

    let worker = kit.worker("w", 1).await;
    kit.reaches(&id, TaskState::Completed).await;
    eventually("nothing is missing any more", LIMIT, || {
        let said = kit.ok(&["queue", "show", "default"]).stderr;
        if said.contains("no ") { Err(said) } else { Ok(()) }
    });
    let quiet = kit.exec_cli(&[], &["true"]).run().success();
    assert!(
        !quiet.stderr.contains("no living worker") && !quiet.stderr.contains("no reaper"),
        "{}",
        quiet.stderr
    );
    let_time_pass(
        "the enqueued handler task is handed back by a worker that does not know it",
        Duration::from_millis(300),
    );
    kit.end([worker]).await;
}
