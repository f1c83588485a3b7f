//! `leasehold bench`: that it measures and says what it should, and leaves nothing behind. Not what the figures are.

use std::time::Duration;

use leasehold_tests::{Leasehold, RedisServer};
use nix::sys::signal::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

/// A bench of seconds with these rows.
fn quick(redis: &RedisServer, rows: &str) -> Leasehold {
    Leasehold::new(redis).args(["bench", "--quick", "--tasks", "40", "--slots", "8", "--rows", rows])
}

fn names(report: &Value, list: &str) -> Vec<String> {
    let figures = report[list].as_array().expect("a list");
    figures.iter().map(|figure| figure["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn rows_are_measured_on_a_given_redis_which_keeps_only_what_it_had() {
    let redis = RedisServer::start();
    redis.command::<()>(&["SET", "bench-of-others", "1"]);
    redis.command::<String>(&["ECHO", "counted"]);
    redis.command::<()>(&["CONFIG", "SET", "slowlog-log-slower-than", "7777"]);
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("report.json");
    let bench = quick(&redis, "cpu,discard,calls,drain,flow,enqueue,client,queued,kept,latency");
    let report = bench.args(["--json", "--save"]).arg(&saved).run().success().json();
    assert_eq!(
        names(&report, "figures"),
        [
            "redis-cpu-kept",
            "redis-cpu-discarded",
            "client-calls",
            "drain-rate",
            "end-to-end",
            "single-enqueue",
            "client-cpu",
            "bytes-queued",
            "bytes-kept"
        ]
    );
    for figure in report["figures"].as_array().unwrap() {
        let number = |field: &str| figure[field].as_f64().unwrap_or_else(|| panic!("{field} of {figure}"));
        assert!(number("value") > 0.0 && number("bar") > 0.0, "{figure}");
        assert!(number("low") <= number("value") && number("value") <= number("high"), "{figure}");
        assert!(["aim met", "met", "NOT MET"].contains(&figure["verdict"].as_str().unwrap()), "{figure}");
    }
    assert_eq!(report["own_server"], false);
    assert_eq!(report["plan"]["payload_bytes"], 200);
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("other traffic") && warnings.contains("latency: left out"), "{warnings}");
    assert_eq!(serde_json::from_slice::<Value>(&std::fs::read(saved).unwrap()).unwrap(), report);

    assert_eq!(redis.cli(&["KEYS", "*"]), "bench-of-others");
    assert!(redis.cli(&["INFO", "commandstats"]).contains("cmdstat_echo:calls=1"), "counters were reset");
    assert!(redis.cli(&["CONFIG", "GET", "slowlog-log-slower-than"]).contains("7777"));
}

#[test]
fn a_private_redis_comes_and_goes_and_a_table_is_shown() {
    let bench = ["bench", "--private", "--quick", "--tasks", "40", "--rows", "pickup,depth,idle,latency"];
    // Whatever is named stays untouched: nobody listens there.
    let finished = Leasehold::new("redis://127.0.0.1:1/").args(bench).run().success();
    for words in [
        "| figure ",
        "| idle worker: commands per queue ",
        "| longest call, drain ",
        "a private server",
        "Note: a quick run",
    ] {
        assert!(finished.stdout.contains(words), "{words}: {}", finished.stdout);
    }
    assert!(finished.stderr.contains("bars met"), "{}", finished.stderr);
}

#[test]
fn an_interrupted_bench_removes_what_it_made() {
    let redis = RedisServer::start();
    let flags = ["bench", "--rows", "flow,enqueue,leases", "--tasks", "5000", "--rounds", "100"];
    let mut bench = Leasehold::new(&redis).args(flags).spawn();
    bench.wait_for_output("producer and worker at once: round 2", LIMIT);
    bench.signal(Signal::SIGINT);
    let finished = bench.wait(LIMIT).expect_code(130);
    assert!(finished.stderr.contains("interrupted"), "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
    assert_eq!(redis.cli(&["KEYS", "*"]), "");
}

#[test]
fn r97_wrong_flags_of_a_bench_are_told_with_what_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.md");
    std::fs::write(&page, "no marks\n").unwrap();
    let page = page.to_str().unwrap();
    for (flags, words) in [
        (&["--rows", "cpu,speed"][..], "invalid rows: \"speed\" is not one of cpu, discard"),
        (&["--rows", ""], "invalid rows"),
        (&["--tasks", "9"], "10 to 1000000"),
        (&["--tasks", "1e5"], "10 to 1000000"),
        (&["--rounds", "0"], "1 to 100"),
        (&["--slots", "10001"], "1 to 10000"),
        (&["--update", page, "--quick"], "only all rows in full size"),
        (&["--update", page], "the page needs <!-- bench:begin -->"),
    ] {
        let finished = Leasehold::new("redis://127.0.0.1:1/").arg("bench").args(flags).run().expect_code(2);
        assert!(finished.stderr.contains(words), "{flags:?}: {}", finished.stderr);
    }
    // Told before anything is measured, and before Redis is looked for.
    let nowhere = dir.path().join("missing").join("report.json");
    let finished =
        Leasehold::new("redis://127.0.0.1:1/").args(["bench", "--save"]).arg(&nowhere).run().expect_code(1);
    assert!(finished.stderr.contains("cannot write"), "{}", finished.stderr);
    let kept = dir.path().join("report.json");
    let finished = Leasehold::new("redis://127.0.0.1:1/").args(["bench", "--save"]).arg(&kept).run();
    finished.expect_code(69);
    assert!(!kept.exists(), "a bench that measured nothing left a file");
    let finished = Leasehold::new("redis://127.0.0.1:1/").args(["bench", "--quick"]).run().expect_code(69);
    assert!(finished.stderr.contains("127.0.0.1:1"), "{}", finished.stderr);
}
