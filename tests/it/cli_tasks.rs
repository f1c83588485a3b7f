//! Tasks from the command line, without a worker: enqueue, look, abort, retry, delete, wait.

use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use leasehold_common::time::parse_time;
use leasehold_tests::{Leasehold, RedisServer, let_time_pass};
use serde_json::{Value, json};

fn run(redis: &RedisServer, arguments: &[&str]) -> leasehold_tests::process::Finished {
    Leasehold::new(redis).args(arguments).run()
}

fn id(redis: &RedisServer, arguments: &[&str]) -> String {
    let finished = run(redis, arguments).success();
    assert_eq!(finished.stdout.lines().count(), 1, "the id alone: {}", finished.stdout);
    finished.line()
}

fn show(redis: &RedisServer, id: &str) -> Value {
    run(redis, &["task", "show", id, "--json"]).success().json()
}

#[test]
fn r20_r90_a_task_is_enqueued_with_all_that_was_said() {
    let redis = RedisServer::start();
    let payload = r#"{"n":18446744073709551615,"f":1.5,"text":"é","list":[null,true]}"#;
    let id = id(
        &redis,
        &[
            "enqueue",
            "media",
            "resize",
            payload,
            "--priority",
            "high",
            "--max-attempts",
            "7",
            "--run-timeout",
            "none",
            "--stop-grace",
            "2s",
            "--on-lease-expired",
            "fail",
            "--max-reclaims",
            "0",
            "--owner",
            "user 7",
            "--header",
            "traceparent=00-1",
            "--delay",
            "1d",
        ],
    );
    let task = show(&redis, &id);
    let expected = json!({
        "id": id, "queue": "media", "name": "resize", "kind": "handler", "state": "scheduled", "attempt": 0,
        "failures": 0, "max_attempts": 7, "reclaims": 0, "max_reclaims": 0, "on_lease_expired": "fail",
        "priority": "high", "owner": "user 7", "headers": { "traceparent": "00-1" }, "run": null,
        "run_timeout_ms": null, "stop_grace_ms": 2000, "failure": null, "history": [], "output": null,
        "payload": serde_json::from_str::<Value>(payload).unwrap(),
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(task[field], *value, "{field}");
    }
    let time = |field: &str| parse_time("time", task[field].as_str().unwrap()).unwrap();
    assert_eq!(time("due_at") - time("enqueued_at"), 24 * 3600 * 1000);
    let shown = run(&redis, &["task", "show", &id]).success();
    for words in ["1/7", "scheduled", "in 23h59m", "resize", "user 7", "run timeout none"] {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
}

#[test]
fn a_time_is_taken_and_bytes_travel_by_flag() {
    let redis = RedisServer::start();
    let at = id(&redis, &["enqueue", "default", "x", "--at", "2035-12-01T09:00+01:00"]);
    assert_eq!(show(&redis, &at)["due_at"], "2035-12-01T08:00:00.000Z");
    let bytes = r#"{"$bytes":"AP8Q"}"#;
    let tagged = id(&redis, &["enqueue", "default", "x", bytes, "--bytes-as-base64"]);
    assert_eq!(show(&redis, &tagged)["payload"], json!({ "$bytes": "AP8Q" }));
    let from_stdin = Leasehold::new(&redis).args(["enqueue", "default", "x", "-"]).stdin("[1, 2]").run();
    assert_eq!(show(&redis, &from_stdin.success().line())["payload"], json!([1, 2]));
}

#[test]
fn r91_an_id_of_ones_own_makes_enqueueing_repeatable() {
    let redis = RedisServer::start();
    let enqueue = |payload: &str| run(&redis, &["enqueue", "default", "x", payload, "--id", "mine"]);
    assert_eq!(enqueue("1").success().line(), "mine");
    let again = enqueue("1").success();
    assert_eq!(again.line(), "mine");
    assert!(again.stderr.contains("enqueued before"), "{}", again.stderr);
    let other = enqueue("2").expect_code(1);
    assert!(other.stderr.contains("another name, payload or spec"), "{}", other.stderr);
    let document = run(&redis, &["enqueue", "default", "x", "1", "--id", "mine", "--json"]).success().json();
    assert_eq!(document, json!({ "id": "mine", "queue": "default", "created": false, "state": "queued" }));
    assert_eq!(run(&redis, &["task", "list", "--json"]).json()["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn r15_enqueueing_where_nobody_works_is_warned_of() {
    let redis = RedisServer::start();
    run(&redis, &["enqueue", "q", "first"]).success();
    let_time_pass("a reaper that had just started would have come by now", Duration::from_millis(2500));
    for arguments in [&["enqueue", "q", "x"][..], &["exec", "q", "--", "true"]] {
        let finished = run(&redis, arguments).success();
        assert!(finished.stderr.contains("no living worker for queue q"), "{}", finished.stderr);
        assert!(finished.stderr.contains("no reaper sweeps queue q"), "{}", finished.stderr);
    }
    let list = run(&redis, &["queue", "list"]).success();
    assert!(list.stderr.contains("no living worker for queue q"), "{}", list.stderr);
    let id = id(&redis, &["enqueue", "q", "x"]);
    assert_eq!(show(&redis, &id)["warnings"].as_array().unwrap().len(), 2);
}

#[test]
fn r03_r07_r12_a_task_is_aborted_retried_and_deleted() {
    let redis = RedisServer::start();
    let id = id(&redis, &["exec", "media", "--", "sh", "-c", "echo it's"]);
    let id = id.as_str();
    // Found in its queue without naming that.
    run(&redis, &["task", "retry", id]).expect_code(1);
    run(&redis, &["task", "delete", id]).expect_code(1);
    assert_eq!(run(&redis, &["task", "wait", id, "--timeout", "100ms"]).code(), 75);
    let aborted = run(&redis, &["task", "abort", id, "--reason", "user left"]).success();
    assert_eq!(aborted.line(), "aborted");
    let task = show(&redis, id);
    assert_eq!(task["state"], "aborted");
    assert_eq!(task["stop"]["reason"], "user left");
    let again = run(&redis, &["task", "abort", id, "--json"]).success().json();
    assert_eq!((&again["answer"], &again["state"]), (&json!("already"), &json!("aborted")));
    let waited = run(&redis, &["task", "wait", id]).expect_code(130);
    assert_eq!(waited.line(), "aborted");
    assert_eq!(run(&redis, &["task", "retry", id]).success().line(), "queued");
    assert_eq!(show(&redis, id)["state"], "queued");
    run(&redis, &["task", "abort", id, "--queue", "media"]).success();
    run(&redis, &["task", "delete", id, "--json"]).success().json();
    run(&redis, &["task", "show", id]).expect_code(4);
    run(&redis, &["doctor"]).success();
}

#[test]
fn what_is_not_there_is_4() {
    let redis = RedisServer::start();
    let id = id(&redis, &["enqueue", "a", "x"]);
    for command in ["show", "wait", "abort", "retry", "logs", "delete"] {
        let finished = run(&redis, &["task", command, "nope"]).expect_code(4);
        assert_eq!(finished.stdout, "", "{command}");
        run(&redis, &["task", command, &id, "--queue", "b"]).expect_code(4);
    }
    run(&redis, &["queue", "show", "nope"]).expect_code(4);
    run(&redis, &["task", "list", "--queue", "nope"]).expect_code(4);
    // Looking makes nothing.
    assert_eq!(run(&redis, &["queue", "list", "--json"]).json()["queues"].as_array().unwrap().len(), 1);
    run(&redis, &["task", "show", &id, "--namespace", "other"]).expect_code(4);
}

#[test]
fn an_id_in_several_queues_has_to_be_told_apart() {
    let redis = RedisServer::start();
    for queue in ["a", "b", "default"] {
        id(&redis, &["enqueue", queue, "x", "--id", "same"]);
    }
    assert_eq!(show(&redis, "same")["queue"], "default");
    run(&redis, &["task", "abort", "same"]).success();
    run(&redis, &["task", "delete", "same"]).success();
    let finished = run(&redis, &["task", "show", "same"]).expect_code(2);
    assert!(finished.stderr.contains("a, b"), "{}", finished.stderr);
    run(&redis, &["task", "show", "same", "--queue", "b"]).success();
}

#[test]
fn lists_come_in_pages() {
    let redis = RedisServer::start();
    let ids: Vec<String> = (0..5).map(|n| id(&redis, &["enqueue", "default", "x", &n.to_string()])).collect();
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut arguments = vec!["task", "list", "--json", "--state", "queued", "--limit", "2"];
        arguments.extend(cursor.as_deref().map(|c| ["--cursor", c]).into_iter().flatten());
        let page = run(&redis, &arguments).success().json();
        seen.extend(page["tasks"].as_array().unwrap().iter().map(|t| t["id"].as_str().unwrap().to_owned()));
        cursor = page["next"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ids);
    run(&redis, &["task", "list", "--state", "queued", "--cursor", "junk"]).expect_code(2);
    let table = run(&redis, &["task", "list"]).success();
    assert_eq!(table.stdout.lines().count(), 6, "{}", table.stdout);
}

#[test]
fn json_is_json_everywhere_and_closed_pipes_are_quiet() {
    let redis = RedisServer::start();
    let id = id(&redis, &["enqueue", "default", "x", "--id", "mine"]);
    let commands: [&[&str]; 9] = [
        &["task", "show", &id],
        &["task", "list"],
        &["queue", "list"],
        &["queue", "show", "default"],
        &["workers"],
        &["doctor"],
        &["config", "show"],
        &["enqueue", "default", "y"],
        &["exec", "default", "--", "true"],
    ];
    for command in commands {
        let finished = Leasehold::new(&redis).arg("--json").args(command).run().success();
        assert!(finished.json().is_object(), "{command:?}");
        assert_eq!(finished.stdout.lines().count(), 1, "{command:?}");
    }
    let script = format!("{} task list | true", leasehold_tests::process::binary().display());
    let piped = Leasehold::other_program("sh", &redis).args(["-c", &script]).run().success();
    assert_eq!(piped.stderr, "");
}

#[test]
fn the_doctor_exits_with_1_on_a_breach_and_not_for_a_warning() {
    let redis = RedisServer::start();
    let id = id(&redis, &["enqueue", "default", "x"]);
    let warned = run(&redis, &["doctor"]).success();
    assert!(warned.stdout.contains("no-worker"), "{}", warned.stdout);
    redis.command::<()>(&["DEL", &format!("lh:{{default}}:task:{id}")]);
    let broken = run(&redis, &["doctor"]).expect_code(1);
    assert!(broken.stdout.contains("breach"), "{}", broken.stdout);
    let report = run(&redis, &["doctor", "--json"]).expect_code(1).json();
    assert_eq!(report["clean"], false);
    assert_eq!(report["findings"][0]["severity"], "breach");
}

#[test]
fn what_is_no_utf_8_is_a_usage_error() {
    let redis = RedisServer::start();
    let junk = std::ffi::OsStr::from_bytes(b"\xff");
    for command in [&["exec", "default", "--"][..], &["enqueue", "default"], &["task", "show"]] {
        let refused = Leasehold::new(&redis).args(command).arg(junk).run().expect_code(2);
        assert!(refused.stderr.contains("UTF-8"), "{}", refused.stderr);
    }
    assert_eq!(redis.key_count(), 0);
}

#[test]
fn case_41_an_oversize_payload_is_refused_before_redis_is_touched() {
    let redis = RedisServer::start();
    let enqueue = |bytes: usize| {
        let text = format!("\"{}\"", "x".repeat(bytes));
        Leasehold::new(&redis).args(["enqueue", "default", "x", "-"]).stdin(text).run()
    };
    // A str 32 has a head of five bytes.
    enqueue(1024 * 1024 - 5).success();
    let over = enqueue(1024 * 1024 - 4).expect_code(2);
    assert!(over.stderr.contains("payload") && over.stderr.contains("1048576"), "{}", over.stderr);
    let far_over = enqueue(20 * 1024 * 1024).expect_code(2);
    assert!(far_over.stderr.contains("payload"), "{}", far_over.stderr);
    assert_eq!(run(&redis, &["task", "list", "--json"]).json()["tasks"].as_array().unwrap().len(), 1);
}
