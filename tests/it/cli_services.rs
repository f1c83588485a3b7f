//! `worker`, `reaper` and `dev` as processes: flags, signals, logs.

use std::path::Path;
use std::time::Duration;

use leasehold_tests::{Leasehold, Proc, RedisServer, eventually, procfs};
use nix::sys::signal::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);

fn worker(redis: &RedisServer, more: &[&str]) -> Proc {
    let mut worker =
        Leasehold::new(redis).args(["worker", "--queue", "default=2", "--allow-exec"]).args(more).spawn();
    worker.wait_for_output("worker started", LIMIT);
    worker
}

fn running(redis: &RedisServer, command: &[&str]) -> String {
    let script = format!("echo begun; exec {}", command.join(" "));
    let exec = ["exec", "default", "--", "sh", "-c", &script];
    let id = Leasehold::new(redis).args(exec).run().success().line();
    eventually("it runs", LIMIT, || {
        let said = Leasehold::new(redis).args(["task", "logs", &id]).run().success().stdout;
        if said == "begun\n" { Ok(()) } else { Err(said) }
    });
    id
}

fn state(redis: &RedisServer, id: &str) -> String {
    let task = Leasehold::new(redis).args(["task", "show", id, "--json"]).run().success().json();
    task["state"].as_str().unwrap().to_owned()
}

#[test]
fn r97_wrong_flags_of_services_are_told_with_their_range() {
    let says = |arguments: &[&str], words: &[&str]| {
        let finished = Leasehold::new("redis://127.0.0.1:1/").args(arguments).run().expect_code(2);
        for word in words {
            assert!(finished.stderr.contains(word), "{arguments:?} {word}: {}", finished.stderr);
        }
    };
    says(&["worker"], &["--queue <NAME=SLOTS>"]);
    for bad in ["", "a", "a=", "a=0", "a=-1", "a=NaN", "a=1e3", "a=10001", "=1", "a b=1", "a:b=1"] {
        says(&["worker", "--queue", bad], &["invalid"]);
    }
    says(&["worker", "--queue", "a=1", "--queue", "a=2"], &["invalid queue", "twice"]);
    for bad in ["", "0s", "11m", "999ms", "5", "-1s", "NaN"] {
        says(&["worker", "--queue", "a=1", "--lease", bad], &["invalid lease", "1s to 10m"]);
    }
    says(&["worker", "--queue", "a=1", "--slots", "0"], &["invalid slots", "1 to 10000"]);
    says(&["worker", "--queue", "a=1", "--drain-grace", "2d"], &["invalid drain_grace"]);
    says(&["worker", "--queue", "a=1", "--name", "a b"], &["invalid worker"]);
    says(&["worker", "--queue", "a=1", "--allow-exec=git"], &["allow_exec", "absolute"]);
    says(&["worker", "--queue", "a=1", "--allow-exec=/a["], &["allow_exec"]);
    says(&["dev", "start"], &["start"]);
    for service in ["worker", "reaper", "dev", "dev stop"] {
        let help = Leasehold::without_redis().args(service.split(' ')).arg("--help").run().success();
        assert!(help.stdout.contains("Durations have a unit"), "{service}");
    }
    for service in [&["worker", "--queue", "a=1"][..], &["reaper"]] {
        let refused = Leasehold::new("redis://127.0.0.1:1/").args(service).run().expect_code(69);
        assert!(refused.stderr.contains("127.0.0.1:1"), "{}", refused.stderr);
    }
}

#[test]
fn r94_a_worker_drains_and_a_second_signal_ends_it_at_once() {
    let redis = RedisServer::start();
    let patient = worker(&redis, &["--with-reaper"]);
    let id = running(&redis, &["sleep", "2"]);
    patient.terminate(LIMIT).success();
    assert_eq!(state(&redis, &id), "completed");

    let mut hasty = worker(&redis, &["--drain-grace", "1h"]);
    let id = running(&redis, &["sleep", "600"]);
    hasty.signal(Signal::SIGINT);
    hasty.wait_for_output("once more", LIMIT);
    hasty.signal(Signal::SIGINT);
    hasty.wait(LIMIT).success();
    let task = Leasehold::new(&redis).args(["task", "show", &id, "--json"]).run().success().json();
    assert_eq!(
        (&task["state"], &task["failures"], &task["reclaims"]),
        (&"queued".into(), &0.into(), &0.into())
    );
    Leasehold::new(&redis).arg("doctor").run().success();
}

#[test]
fn logs_are_json_on_request_and_a_reaper_ends_when_asked() {
    let redis = RedisServer::start();
    Leasehold::new(&redis).args(["enqueue", "default", "x"]).run().success();
    let mut reaper = Leasehold::new(&redis).args(["--log-format", "json", "reaper"]).spawn();
    reaper.wait_for_output("reaper started", LIMIT);
    eventually("the reaper sweeps", LIMIT, || {
        let queues = Leasehold::new(&redis).args(["queue", "list", "--json"]).run().success().json();
        if queues["queues"][0]["swept_ms_ago"].is_number() { Ok(()) } else { Err(queues.to_string()) }
    });
    let finished = reaper.terminate(LIMIT).success();
    assert_eq!(finished.stdout, "");
    let logs: Vec<Value> = finished
        .stderr
        .lines()
        .filter(|l| l.starts_with('{'))
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert!(logs.iter().any(|log| log["fields"]["message"] == "reaper started"), "{}", finished.stderr);
}

/// A `leasehold dev` in this folder, with the pid of its Redis.
fn dev(folder: &Path) -> (Proc, i32) {
    let mut dev = Leasehold::without_redis().arg("dev").cwd(folder).spawn();
    dev.wait_for_output("worker started", LIMIT);
    let record: Value =
        serde_json::from_slice(&std::fs::read(folder.join(".leasehold/redis.json")).unwrap()).unwrap();
    (dev, i32::try_from(record["pid"].as_i64().unwrap()).unwrap())
}

#[test]
fn dev_runs_everything_and_takes_everything_with_it_but_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let here = |arguments: &[&str]| Leasehold::without_redis().args(arguments).cwd(dir.path());
    let (first, redis) = dev(dir.path());
    for words in ["exec default --wait", "task list", "doctor", ".leasehold", "redis"] {
        assert!(first.stderr().contains(words), "{words}: {}", first.stderr());
    }
    let ran = here(&["exec", "default", "--wait", "--id", "one", "--", "sh", "-c", "echo hi; exit 3"]).run();
    assert_eq!(ran.expect_code(3).stdout, "hi\n");
    let source = here(&["config", "show", "--json"]).run().success().json();
    assert!(source["redis_url"]["source"].as_str().unwrap().starts_with("dev server"), "{source}");
    let second = here(&["dev"]).run().expect_code(1);
    assert!(second.stderr.contains("dev stop"), "{}", second.stderr);
    here(&["exec", "default", "--id", "two", "--", "sleep", "1"]).run().success();
    first.signal(Signal::SIGINT);
    first.wait(LIMIT).success();
    assert!(!procfs::is_running(redis), "Redis outlived it");

    let (again, redis) = dev(dir.path());
    let kept = here(&["task", "list", "--json"]).run().success().json();
    assert_eq!(kept["tasks"].as_array().unwrap().len(), 2, "{kept}");
    here(&["doctor"]).run().success();
    let stopped = here(&["dev", "stop", "--json"]).run().success().json();
    assert_eq!(stopped["stopped"], true);
    again.wait(LIMIT).success();
    assert!(!procfs::is_running(redis), "Redis outlived it");
    assert_eq!(here(&["dev", "stop", "--json"]).run().success().json()["stopped"], false);
}

#[test]
fn dev_that_was_killed_is_joined_or_stopped_and_a_second_signal_ends_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let here = |arguments: &[&str]| Leasehold::without_redis().args(arguments).cwd(dir.path());
    let (mut killed, redis) = dev(dir.path());
    killed.kill();
    assert!(procfs::is_running(redis), "the server lives on");
    let (joined, same) = dev(dir.path());
    assert_eq!(redis, same);
    here(&["exec", "default", "--id", "long", "--", "sleep", "600"]).run().success();
    eventually("it runs", LIMIT, || {
        let task = here(&["task", "show", "long", "--json"]).run().success().json();
        if task["state"] == "running" { Ok(()) } else { Err(task.to_string()) }
    });
    let mut joined = joined;
    joined.signal(Signal::SIGINT);
    joined.wait_for_output("once more", LIMIT);
    joined.signal(Signal::SIGINT);
    joined.wait(Duration::from_secs(15)).success();
    assert!(!procfs::is_running(redis), "Redis outlived it");

    let (mut killed, redis) = dev(dir.path());
    killed.kill();
    here(&["dev", "stop"]).run().success();
    assert!(!procfs::is_running(redis), "Redis outlived `dev stop`");
}

#[test]
fn dev_uses_a_redis_that_is_named_and_leaves_it_alone() {
    let redis = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let mut dev = Leasehold::new(&redis).arg("dev").cwd(dir.path()).spawn();
    dev.wait_for_output("worker started", LIMIT);
    Leasehold::new(&redis).args(["exec", "default", "--wait", "--", "true"]).run().success();
    dev.terminate(LIMIT).success();
    assert!(procfs::is_running(redis.pid()));
    assert!(!dir.path().join(".leasehold/redis.json").exists());
}
