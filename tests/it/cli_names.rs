//! Names as weapons: refused with the field, or an exact round trip; never raw on a terminal.

use leasehold_common::name::is_unprintable;
use leasehold_tests::process::Finished;
use leasehold_tests::{Leasehold, RedisServer};

/// What no name of a queue, task or namespace may be.
const REFUSED: [&str; 12] =
    ["", "a:b", "{x}", "}{", "*", "[a]*", "a b", "a\nb", "../x", "%2e%2e", "\u{202e}x", "e\u{301}"];
/// What looks odd and is a name.
const TAKEN: [&str; 4] = ["123", "..", "a.b_c-d", "0"];

fn run(redis: &RedisServer, arguments: &[&str]) -> Finished {
    let finished = Leasehold::new(redis).args(arguments).run();
    for text in [&finished.stdout, &finished.stderr] {
        let raw = text.chars().find(|c| is_unprintable(*c) && !matches!(c, '\n' | '\t'));
        assert_eq!(raw, None, "{arguments:?}: {text:?}");
    }
    finished
}

fn refused(redis: &RedisServer, arguments: &[&str], field: &str) {
    let finished = run(redis, arguments).expect_code(2);
    assert!(finished.stderr.contains(&format!("invalid {field}")), "{arguments:?}: {}", finished.stderr);
    assert_eq!(redis.key_count(), 0, "{arguments:?} left something behind");
}

#[test]
fn case_39_names_are_refused_or_come_back_as_they_were() {
    let redis = RedisServer::start();
    let long = "x".repeat(65);
    for bad in REFUSED.into_iter().chain([long.as_str()]) {
        refused(&redis, &["enqueue", bad, "x"], "queue");
        refused(&redis, &["enqueue", "default", bad], "task name");
        refused(&redis, &["exec", bad, "--", "true"], "queue");
        refused(&redis, &["task", "show", "x", "--queue", bad], "queue");
        refused(&redis, &["task", "list", "--queue", bad], "queue");
        refused(&redis, &["queue", "show", bad], "queue");
        refused(&redis, &["queue", "list", "--namespace", bad], "namespace");
    }
    for good in TAKEN {
        let id = run(&redis, &["enqueue", good, good]).success().line();
        let task = run(&redis, &["task", "show", &id, "--json"]).success().json();
        assert_eq!((task["queue"].as_str(), task["name"].as_str()), (Some(good), Some(good)));
    }
    // One that begins with a dash needs the two that end the flags.
    let id = run(&redis, &["enqueue", "--", "-rf", "-rf"]).success().line();
    let task = run(&redis, &["task", "show", &id, "--queue", "-rf", "--json"]).success().json();
    assert_eq!((task["queue"].as_str(), task["name"].as_str()), (Some("-rf"), Some("-rf")));
}

#[test]
fn case_39_ids_and_owners_are_text_that_comes_back_as_it_was() {
    let redis = RedisServer::start();
    let kilobytes = "x".repeat(10_000);
    for bad in ["", "a\nb", "\u{202e}x", "\x1b[2J", "a\u{9b}b", &"é".repeat(33), &kilobytes] {
        refused(&redis, &["enqueue", "default", "x", "--id", bad], "task id");
        refused(&redis, &["task", "show", bad], "task id");
        refused(&redis, &["task", "abort", bad], "task id");
    }
    for bad in ["", "a\nb", "\u{202e}x", "\x1b[2J", &kilobytes] {
        refused(&redis, &["enqueue", "default", "x", "--owner", bad], "owner");
        refused(&redis, &["exec", "default", "--owner", bad, "--", "true"], "owner");
    }
    let odd = ["a:b", "{x}", "}{", "*", "[a]*", "a b", "../x", "%2e%2e", "-rf", "123", "é", "e\u{301}"];
    for (n, good) in odd.iter().enumerate() {
        let mine = run(&redis, &["enqueue", "default", "x", &n.to_string(), "--id", good, "--owner", good]);
        assert_eq!(mine.success().line(), *good);
        let task = run(&redis, &["task", "show", "--json", "--", good]).success().json();
        assert_eq!((task["id"].as_str(), task["owner"].as_str()), (Some(*good), Some(*good)));
        assert_eq!(task["payload"], n, "no two ids are one");
    }
    let list = run(&redis, &["task", "list", "--json"]).success().json();
    assert_eq!(list["tasks"].as_array().unwrap().len(), odd.len());
    run(&redis, &["task", "list"]).success();
}

#[test]
fn case_39_pairs_of_queue_and_id_never_collide() {
    let redis = RedisServer::start();
    run(&redis, &["enqueue", "a", "x", "1", "--id", "b:c"]).success();
    run(&redis, &["enqueue", "a.b", "x", "2", "--id", "c"]).success();
    assert_eq!(run(&redis, &["task", "show", "b:c", "--json"]).json()["payload"], 1);
    assert_eq!(run(&redis, &["task", "show", "c", "--json"]).json()["payload"], 2);
}

#[test]
fn case_39_what_a_task_carries_never_reaches_the_terminal_raw() {
    let redis = RedisServer::start();
    let evil = "\x1b]0;owned\x07\u{202e}\u{9b}2J";
    let payload = serde_json::to_string(&[evil]).unwrap();
    let header = format!("k={evil}");
    let id = run(&redis, &["enqueue", "default", "x", &payload, "--header", &header]).success().line();
    let task = run(&redis, &["task", "show", &id, "--json"]).success().json();
    assert_eq!((task["payload"][0].as_str(), task["headers"]["k"].as_str()), (Some(evil), Some(evil)));
    run(&redis, &["task", "show", &id]).success();
    let id = run(&redis, &["exec", "default", "--cwd", "/\x1b[2J", "--", "sh", "-c", evil]).success().line();
    run(&redis, &["task", "show", &id]).success();
    run(&redis, &["task", "abort", &id, "--reason", evil]).success();
    run(&redis, &["task", "show", &id]).success();
    for wrong in [evil, "a\nerror: forged"] {
        run(&redis, &[wrong]).expect_code(2);
        run(&redis, &["task", wrong]).expect_code(2);
        run(&redis, &["task", "list", "--state", wrong]).expect_code(2);
        run(&redis, &["enqueue", "default", "x", wrong]).expect_code(2);
        run(&redis, &["enqueue", "default", "x", "--delay", wrong]).expect_code(2);
        run(&redis, &["--redis-url", wrong, "task", "list"]).expect_code(2);
        let forged = run(&redis, &["task", "list", "--limit", wrong]).expect_code(2);
        assert!(!forged.stderr.contains("\nerror: forged"), "{}", forged.stderr);
    }
}
