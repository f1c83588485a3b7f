//! Settings: flags beat the environment, which beats the file, which beats the defaults.

use std::fs;

use leasehold_tests::{Leasehold, RedisServer};
use serde_json::Value;

fn shown(cli: Leasehold) -> Value {
    cli.args(["config", "show", "--json"]).run().success().json()
}

fn folder(file: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("leasehold.toml"), file).unwrap();
    dir
}

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let dir = folder("namespace = \"file\"\n[worker]\nlease = \"3s\"\nslots = 7\n");
    let cli = || Leasehold::without_redis().cwd(dir.path());
    let settings = shown(cli());
    assert_eq!(settings["namespace"]["value"], "file");
    assert_eq!(settings["worker.lease"]["value"], "3s");
    assert_eq!(settings["worker.slots"]["value"], "7");
    assert_eq!(settings["worker.drain_grace"]["source"], "default");
    let settings = shown(cli().env("LEASEHOLD_NAMESPACE", "env").env("LEASEHOLD_WORKER_LEASE", "4s"));
    assert_eq!(settings["namespace"]["value"], "env");
    assert_eq!(settings["namespace"]["source"], "environment LEASEHOLD_NAMESPACE");
    assert_eq!(settings["worker.lease"]["value"], "4s");
    let settings = shown(cli().env("LEASEHOLD_NAMESPACE", "env").args(["--namespace", "flag"]));
    assert_eq!(settings["namespace"]["value"], "flag");
    assert_eq!(settings["namespace"]["source"], "flag");
}

#[test]
fn the_url_has_two_variables_and_is_never_shown_whole() {
    let dir = folder("redis_url = \"redis://file:1\"\n");
    let cli = || Leasehold::without_redis().cwd(dir.path());
    assert_eq!(shown(cli())["redis_url"]["value"], "redis://file:1");
    let settings = shown(cli().env("REDIS_URL", "redis://:hidden@weak:1"));
    assert_eq!(settings["redis_url"]["value"], "redis://:***@weak:1");
    let both = cli().env("REDIS_URL", "redis://weak:1").env("LEASEHOLD_REDIS_URL", "redis://strong:1");
    assert_eq!(shown(both)["redis_url"]["source"], "environment LEASEHOLD_REDIS_URL");
    let empty = tempfile::tempdir().unwrap();
    let settings = shown(Leasehold::without_redis().cwd(empty.path()));
    assert_eq!(settings["redis_url"]["value"], "redis://127.0.0.1:6379");
    assert_eq!(settings["redis_url"]["source"], "default");
}

#[test]
fn r97_unknown_keys_and_wrong_values_are_refused_by_name() {
    let dir = folder("[worker]\nleese = \"3s\"\nslots = 0\n[retention]\nfailed = 5\n");
    let finished = Leasehold::without_redis().cwd(dir.path()).args(["config", "show"]).run().expect_code(2);
    for words in ["unknown key worker.leese", "worker.slots", "1 to 10000", "retention.failed", "no unit"] {
        assert!(finished.stderr.contains(words), "{words}: {}", finished.stderr);
    }
    let broken = folder("a = = 1\n");
    let finished = Leasehold::without_redis().cwd(broken.path()).args(["task", "list"]).run().expect_code(2);
    assert!(finished.stderr.contains("leasehold.toml line 1"), "{}", finished.stderr);
    let missing =
        Leasehold::without_redis().env("LEASEHOLD_CONFIG", "/no/such/file").args(["config", "show"]);
    missing.run().expect_code(2);
    for bad in ["NaN", "1e3", "-1", "10000000000000000000", "5"] {
        let cli = Leasehold::without_redis().env("LEASEHOLD_WORKER_LEASE", bad).args(["config", "show"]);
        let finished = cli.run().expect_code(2);
        assert!(finished.stderr.contains("LEASEHOLD_WORKER_LEASE"), "{}", finished.stderr);
    }
}

#[test]
fn settings_reach_the_tasks() {
    let redis = RedisServer::start();
    let dir = folder("[enqueue]\nmax_attempts = 9\nrun_timeout = \"none\"\n[limits]\npayload = 10\n");
    let cli = |arguments: &[&str]| Leasehold::new(&redis).cwd(dir.path()).args(arguments).run();
    let id = cli(&["enqueue", "default", "x"]).success().line();
    let task = cli(&["task", "show", &id, "--json"]).success().json();
    assert_eq!((&task["max_attempts"], &task["run_timeout_ms"]), (&Value::from(9), &Value::Null));
    let id = cli(&["enqueue", "default", "x", "--max-attempts", "2"]).success().line();
    assert_eq!(cli(&["task", "show", &id, "--json"]).json()["max_attempts"], 2);
    let over = cli(&["enqueue", "default", "x", "\"0123456789\""]).expect_code(2);
    assert!(over.stderr.contains("payload") && over.stderr.contains("10"), "{}", over.stderr);
}

#[test]
fn r01_a_task_tells_where_each_of_its_bounds_came_from() {
    let redis = RedisServer::start();
    let dir = folder("[enqueue]\nmax_attempts = 9\n");
    let cli = |arguments: &[&str]| {
        Leasehold::new(&redis).cwd(dir.path()).env("LEASEHOLD_ENQUEUE_STOP_GRACE", "7s").args(arguments).run()
    };
    let id =
        cli(&["enqueue", "default", "x", "--run-timeout", "24h", "--budget", "calls=3"]).success().line();
    let origins = &cli(&["task", "show", &id, "--json"]).success().json()["bound_origins"];
    for (bound, origin) in [
        ("run_timeout", "caller"),
        ("budgets", "caller"),
        ("max_attempts", "file"),
        ("stop_grace", "environment"),
        ("max_reclaims", "default"),
        ("deadline", "default"),
    ] {
        assert_eq!(origins[bound], origin, "{bound}");
    }
    let shown = cli(&["task", "show", &id]).success().stdout;
    for words in [
        "run timeout 1d (set by caller)",
        "stop grace 7s (set by environment)",
        "at most 9 attempts (set by file)",
        "3 reclaims,",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let again = cli(&["enqueue", "default", "x", "--id", "own"]).success().line();
    let cli = Leasehold::new(&redis).args(["enqueue", "default", "x", "--id", "own"]);
    cli.args(["--max-attempts", "9", "--abort-grace", "7s"]).run().success();
    assert_eq!(again, "own", "who set a bound makes no other task");
}
