//! Wrong words on the command line: each is told with its field and range, with exit code 2, before Redis is
//! touched.

use leasehold_tests::{Leasehold, RedisServer};

/// A URL where nobody answers: who gets as far as Redis does not exit with 2.
const NOBODY: &str = "redis://127.0.0.1:1/";

fn says(arguments: &[&str], expected: &[&str]) {
    let finished = Leasehold::new(NOBODY).args(arguments).run().expect_code(2);
    assert_eq!(finished.stdout, "", "{arguments:?}");
    for word in expected {
        assert!(finished.stderr.contains(word), "{arguments:?} does not say {word:?}: {}", finished.stderr);
    }
    assert_printable(&finished.stderr);
}

/// Nothing that moves a cursor.
fn assert_printable(text: &str) {
    let raw = text.chars().find(|c| leasehold_common::name::is_unprintable(*c) && *c != '\n');
    assert_eq!(raw, None, "{text:?}");
}

#[test]
fn r97_wrong_values_are_told_with_field_and_range() {
    let enqueue = |flag: &'static str, value: &'static str| vec!["enqueue", "default", "x", flag, value];
    let numbers = ["", "NaN", "1e3", "-1", "10000000000000000000", "0x1", "1.5", "+1", "inf", "10001"];
    for bad in numbers {
        says(&enqueue("--max-attempts", bad), &["max_attempts", "1 to 10000"]);
        says(&enqueue("--max-reclaims", bad), &["max_reclaims", "0 to 10000"]);
        says(&["task", "list", "--limit", bad], &["limit", "1 to 1000"]);
    }
    says(&enqueue("--max-attempts", "0"), &["max_attempts", "1 to 10000"]);
    for bad in ["", "NaN", "1e3", "-1", "-5m", "10000000000000000000", "5", "20y", "99999999999999999999s"] {
        says(&enqueue("--delay", bad), &["--delay", "invalid delay"]);
        says(&enqueue("--run-timeout", bad), &["invalid run_timeout", "none"]);
        says(&enqueue("--stop-grace", bad), &["invalid abort_grace"]);
        says(&["exec", "default", "--abort-grace", bad, "--", "true"], &["invalid abort_grace"]);
        says(&["exec", "default", "--yield", bad, "--", "true"], &["invalid yield"]);
        says(&["task", "wait", "x", "--timeout", bad], &["invalid timeout"]);
        says(&["task", "abort", "x", "--grace", bad], &["invalid grace"]);
    }
    for bad in ["", "0", "now", "2026-12-01T09:00", "1999", "1e3", "2026-13-01T09:00Z"] {
        says(&enqueue("--at", bad), &["invalid at"]);
    }
    says(&enqueue("--priority", "most"), &["invalid priority", "urgent, high, normal, low"]);
    says(&enqueue("--on-lease-expired", "maybe"), &["on_lease_expired", "requeue or fail"]);
    says(&enqueue("--header", "x"), &["invalid header", "KEY=VALUE"]);
    says(&["task", "list", "--state", "done"], &["invalid state", "queued"]);
    says(&["exec", "default", "--env", "=1", "--", "true"], &["invalid env"]);
}

#[test]
fn r97_what_our_own_checks_refuse_is_a_usage_error_too() {
    for payload in ["{", "NaN", "1e999", "18446744073709551616", r#"{"a":1,"a":2}"#, "", "{} {}"] {
        says(&["enqueue", "default", "x", payload], &["invalid payload"]);
    }
    says(&["enqueue", "default", "exec", "{}"], &["invalid task name", "leasehold exec"]);
    says(&["exec", "default", "--stdin", "/no/such/file", "--", "true"], &["invalid stdin"]);
    says(&["--redis-url", "http://:secret@x", "task", "list"], &["invalid Redis URL", "***"]);
}

#[test]
fn wrong_words_are_told() {
    says(&[], &["Usage: leasehold"]);
    says(&["frobnicate"], &["frobnicate"]);
    says(&["exec", "default", "true"], &["-- <CMD>"]);
    says(&["exec", "default", "--wait", "--yield", "1s", "--", "true"], &["--yield"]);
    says(&["enqueue", "default", "x", "--delay", "1s", "--at", "2026-12-01T09:00Z"], &["--at"]);
    says(&["task", "show"], &["<ID>"]);
    says(&["task", "list", "--cursor", "1"], &["--state"]);
    says(&["-v", "-q", "task", "list"], &["--quiet"]);
}

#[test]
fn case_04_a_timeout_of_nothing_or_less_is_refused_and_none_is_taken() {
    for bad in ["0", "-1", "0s", "null"] {
        says(&["exec", "default", "--run-timeout", bad, "--", "true"], &["run_timeout", "none"]);
    }
    let checked = Leasehold::new(NOBODY).env("LEASEHOLD_CHECK_ARGS", "1");
    checked.args(["exec", "default", "--run-timeout", "none", "--", "true"]).run().success();
}

#[test]
fn case_04_a_deadline_that_has_passed_is_refused() {
    for past in ["2020-01-01T00:00Z", "1999-12-31T23:59:59+01:00"] {
        says(&["enqueue", "default", "x", "--deadline", past], &["invalid deadline", "has passed"]);
        says(&["exec", "default", "--deadline", past, "--", "true"], &["invalid deadline", "has passed"]);
    }
}

#[test]
fn r97_what_may_be_said_once_is_refused_when_it_is_said_twice() {
    let enqueue = |flag, one, two| vec!["enqueue", "default", "x", flag, one, flag, two];
    says(&enqueue("--budget", "m=5", "m=7"), &["invalid budget", "\"m\" is named twice"]);
    says(&enqueue("--header", "k=5", "k=5"), &["invalid header", "\"k\" is named twice"]);
    let exec = ["exec", "default", "--budget", "m=5", "--budget", "m=5", "--", "true"];
    says(&exec, &["invalid budget", "\"m\" is named twice"]);
}

#[test]
fn r97_with_json_a_wrong_word_is_told_as_json_too() {
    for (arguments, words) in [
        (&["task", "list", "--json", "--limit", "x"][..], "1 to 1000"),
        (&["--json", "frobnicate"], "frobnicate"),
        (&["--json", "task", "show"], "<ID>"),
        (&["enqueue", "q", "x", "--json", "--budget", "m=5", "--budget", "m=7"], "named twice"),
    ] {
        let refused = Leasehold::new(NOBODY).args(arguments).run().expect_code(2);
        let told: serde_json::Value = serde_json::from_str(&refused.stderr).unwrap();
        assert_eq!(told["exit_code"], 2, "{told}");
        let error = told["error"].as_str().unwrap();
        assert!(error.contains(words) && !error.starts_with("error:"), "{told}");
        assert_eq!(refused.stdout, "");
    }
    // What belongs to the command of a task says nothing about this one.
    let refused = Leasehold::new(NOBODY).args(["exec", "q", "--budget", "m", "--", "x", "--json"]).run();
    assert!(refused.expect_code(2).stderr.starts_with("error: "));
    Leasehold::new(NOBODY).args(["task", "list", "--json", "--help"]).run().success();
}

#[test]
fn case_16_a_full_redis_is_69() {
    let redis = RedisServer::start();
    let run = |arguments: &[&str]| Leasehold::new(&redis).args(arguments).run();
    run(&["enqueue", "q", "x", "--id", "t", "--lane", "l"]).success();
    run(&["task", "abort", "t", "--queue", "q"]).success();
    redis.command::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let commands: [&[&str]; 3] =
        [&["enqueue", "q", "x"], &["task", "retry", "t", "--queue", "q"], &["lane", "limit", "q", "l", "2"]];
    let running = commands.map(|command| (command, Leasehold::new(&redis).args(command).spawn()));
    for (command, process) in running {
        let refused = process.wait(std::time::Duration::from_secs(30)).expect_code(69);
        assert!(refused.stderr.contains("raise maxmemory"), "{command:?}: {}", refused.stderr);
    }
}

#[test]
fn arguments_can_be_checked_without_redis() {
    let check =
        |arguments: &[&str]| Leasehold::new(NOBODY).env("LEASEHOLD_CHECK_ARGS", "1").args(arguments).run();
    assert_eq!(check(&["task", "list"]).success().stdout, "ok\n");
    check(&["task", "lost"]).expect_code(2);
    check(&["enqueue", "default", "x", "--delay", "5"]).expect_code(2);
}

#[test]
fn every_help_tells_units_and_exit_codes() {
    let commands = [
        "",
        "enqueue",
        "exec",
        "task",
        "task show",
        "task explain",
        "task list",
        "task wait",
        "task abort",
        "task retry",
        "task resume",
        "task checkpoint",
        "task logs",
        "task delete",
        "lane",
        "lane list",
        "lane show",
        "lane limit",
        "owner",
        "owner show",
        "queue",
        "queue list",
        "queue show",
        "workers",
        "doctor",
        "config",
        "config show",
    ];
    for command in commands {
        let help = Leasehold::new(NOBODY).args(command.split_whitespace()).arg("--help").run().success();
        assert!(help.stdout.contains("69   Redis cannot be reached"), "{command}: {}", help.stdout);
        assert!(help.stdout.contains("Durations have a unit: 250ms"), "{command}");
        assert_eq!(help.stderr, "", "{command}");
        for (flag, text) in durations(&help.stdout) {
            assert!(text.contains("unit"), "{command}: {flag} does not name its unit: {text}");
        }
    }
    assert!(Leasehold::new(NOBODY).arg("--version").run().success().stdout.starts_with("leasehold "));
}

/// The flags that take a duration, with their help.
fn durations(help: &str) -> Vec<(&str, String)> {
    let lines: Vec<&str> = help.lines().collect();
    let starts = (0..lines.len()).filter(|at| lines[*at].contains(" <DUR"));
    starts
        .map(|at| {
            let text = lines[at + 1..].iter().take_while(|line| !line.trim_start().starts_with('-'));
            (lines[at].trim(), text.map(|line| line.trim()).collect::<Vec<_>>().join(" "))
        })
        .collect()
}

#[test]
fn an_unreachable_redis_is_69_within_a_bound() {
    let commands: [&[&str]; 8] = [
        &["enqueue", "default", "x"],
        &["exec", "default", "--", "true"],
        &["exec", "default", "--wait", "--", "true"],
        &["task", "show", "x"],
        &["task", "list"],
        &["queue", "list"],
        &["workers"],
        &["doctor"],
    ];
    let began = std::time::Instant::now();
    let running = commands.map(|command| (command, Leasehold::new(NOBODY).args(command).spawn()));
    for (command, process) in running {
        let finished = process.wait(std::time::Duration::from_secs(15)).expect_code(69);
        assert!(finished.stderr.contains("redis://127.0.0.1:1"), "{command:?}: {}", finished.stderr);
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(15), "{:?}", began.elapsed());
    let secret =
        Leasehold::new("redis://:secret@127.0.0.1:1/").args(["workers", "--json"]).run().expect_code(69);
    let told: serde_json::Value = serde_json::from_str(&secret.stderr).unwrap();
    assert_eq!(told["exit_code"], 69);
    assert!(!secret.stderr.contains("secret") && told["error"].as_str().unwrap().contains("***"), "{told}");
}
