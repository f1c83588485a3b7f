//! Commands as tasks from the command line, with a real worker beside.

use std::time::Duration;

use leasehold_tests::process::{Finished, RUN_LIMIT};
use leasehold_tests::{Leasehold, Proc, RedisServer, eventually};
use nix::sys::signal::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);

/// A Redis with a worker that runs commands, and a reaper inside it.
struct Ground {
    // Dropped in this order.
    worker: Proc,
    redis: RedisServer,
}

impl Ground {
    fn start(more: &[&str]) -> Self {
        let redis = RedisServer::start();
        let worker = ["worker", "--queue", "default=4", "--name", "w1", "--lease", "2s", "--with-reaper"];
        let mut worker = Leasehold::new(&redis).args(worker).args(more).spawn();
        worker.wait_for_output("worker started", LIMIT);
        Self { worker, redis }
    }

    fn cli(&self, arguments: &[&str]) -> Leasehold {
        Leasehold::new(&self.redis).args(arguments)
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.cli(arguments).run()
    }

    fn show(&self, id: &str) -> Value {
        self.run(&["task", "show", id, "--json"]).success().json()
    }

    fn wait_for_state(&self, id: &str, state: &str) {
        eventually(&format!("{id} is {state}"), LIMIT, || {
            let task = self.show(id);
            if task["state"] == state { Ok(()) } else { Err(task.to_string()) }
        });
    }

    /// The end of every test here.
    fn end(self) {
        self.worker.terminate(LIMIT).success();
        Leasehold::new(&self.redis).arg("doctor").run().success();
    }
}

/// The id that `exec --wait` tells first on stderr.
fn told_id(stderr: &str) -> String {
    stderr.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn r20_r22_exec_wait_streams_both_outputs_and_ends_with_the_commands_code() {
    let ground = Ground::start(&["--allow-exec"]);
    let script = "echo hi; echo oh >&2; printf end; exit 3";
    let finished = ground.run(&["exec", "default", "--wait", "--", "sh", "-c", script]).expect_code(3);
    assert_eq!(finished.stdout, "hi\nend");
    let id = told_id(&finished.stderr);
    assert!(
        finished.stderr.contains("\noh\n") && finished.stderr.contains("exit_code"),
        "{}",
        finished.stderr
    );
    let task = ground.show(&id);
    assert_eq!((&task["state"], &task["failure"]["kind"]), (&"failed".into(), &"exit_code".into()));
    assert_eq!((&task["attempt"], &task["failure"]["exit_code"]), (&1.into(), &3.into()));
    assert!(task["run"].is_string() && task["worker"] == "w1", "{task}");
    let shown = ground.run(&["task", "show", &id]).success();
    assert!(shown.stdout.contains("1/1") && shown.stdout.contains("exited with code 3"), "{}", shown.stdout);
    let logs = ground.run(&["task", "logs", &id]).success();
    assert_eq!((logs.stdout.as_str(), logs.stderr.as_str()), ("hi\nend", "oh\n"));
    let json = ground.run(&["task", "logs", &id, "--json"]).success();
    let pieces: Vec<Value> = json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(pieces.iter().any(|piece| piece["stream"] == "err" && piece["text"] == "oh\n"), "{pieces:?}");
    assert_eq!(ground.run(&["task", "wait", &id]).expect_code(1).line(), "failed");
    let quiet = ground.run(&["exec", "default", "-q", "--wait", "--json", "--", "true"]).success();
    assert_eq!(quiet.json()["state"], "completed");
    ground.end();
}

#[test]
fn r25_codes_and_signals_are_told_apart() {
    let ground = Ground::start(&["--allow-exec"]);
    let code = |script: &str| ground.run(&["exec", "default", "--wait", "--", "sh", "-c", script]).code();
    assert_eq!(code("exit 255"), 255);
    assert_eq!(code("kill -9 $$"), 137);
    assert_eq!(code("kill -SEGV $$"), 139);
    assert_eq!(code("true"), 0);
    let missing = ground.run(&["exec", "default", "--wait", "--", "/no/such/program"]).expect_code(1);
    assert!(missing.stderr.contains("not found"), "{}", missing.stderr);
    let late = ground.run(&["exec", "default", "--wait", "--run-timeout", "300ms", "--", "sleep", "60"]);
    let late = late.expect_code(124);
    assert!(late.stderr.contains("run_timeout"), "{}", late.stderr);
    ground.end();
}

#[test]
fn r20_yield_shows_output_for_a_while_and_leaves_the_command_going() {
    let ground = Ground::start(&["--allow-exec"]);
    let script = "echo first; sleep 2; echo second";
    let finished = ground.run(&["exec", "default", "--yield", "800ms", "--", "sh", "-c", script]).success();
    assert_eq!(finished.stdout, "first\n");
    let id = told_id(&finished.stderr);
    assert_eq!(ground.show(&id)["state"], "running");
    let followed = ground.run(&["task", "logs", "-f", &id]).success();
    assert_eq!(followed.stdout, "first\nsecond\n");
    let ended = ground.run(&["exec", "default", "--yield", "20s", "--", "sh", "-c", "exit 5"]);
    ended.expect_code(5);
    ground.end();
}

#[test]
fn a_wait_that_is_interrupted_leaves_the_command_going() {
    let ground = Ground::start(&["--allow-exec"]);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let command = ["exec", "default", "--wait", "--", "sh", "-c", "echo here; exec sleep 60"];
        let mut waiting = ground.cli(&command).spawn();
        waiting.wait_for_output("here", LIMIT);
        waiting.signal(signal);
        let finished = waiting.wait(LIMIT).expect_code(75);
        let id = told_id(&finished.stderr);
        assert!(finished.stderr.contains("goes on"), "{}", finished.stderr);
        assert_eq!(ground.show(&id)["state"], "running");
        ground.run(&["task", "abort", &id, "--grace", "1s"]).success();
        ground.run(&["task", "wait", &id]).expect_code(130);
    }
    ground.end();
}

#[test]
fn r04_r05_abort_says_until_when_and_ends_what_ignores_it() {
    let ground = Ground::start(&["--allow-exec"]);
    let script = r#"trap "" TERM; echo here; sleep 600 & wait; sleep 600"#;
    let mut waiting = ground.cli(&["exec", "default", "--wait", "--", "sh", "-c", script]).spawn();
    waiting.wait_for_output("here", LIMIT);
    let id = told_id(&waiting.stderr());
    let abort = ground.run(&["task", "abort", &id, "--grace", "1500ms", "--reason", "enough", "--json"]);
    let abort = abort.success().json();
    assert_eq!((&abort["answer"], &abort["state"]), (&"requested".into(), &"aborting".into()));
    let task = ground.show(&id);
    assert_eq!(task["state"], "aborting");
    assert_eq!(task["stop"]["kill_at"], abort["kill_at"]);
    assert_eq!(task["stop"]["reason"], "enough");
    let shown = ground.run(&["task", "show", &id]).success();
    assert!(shown.stdout.contains("Worker w1 ends it"), "{}", shown.stdout);
    let finished = waiting.wait(LIMIT).expect_code(130);
    assert!(finished.stderr.contains("aborted"), "{}", finished.stderr);
    ground.end();
}

#[test]
fn r22_any_bytes_travel_through_stdin_and_output() {
    let ground = Ground::start(&["--allow-exec"]);
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (input, output) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&input, &bytes).unwrap();
    let binary = leasehold_tests::process::binary();
    let script = format!(
        "{} exec default --wait --stdin {} -- cat >{}",
        binary.display(),
        input.display(),
        output.display()
    );
    Leasehold::other_program("sh", &ground.redis).args(["-c", &script]).run().success();
    assert!(std::fs::read(&output).unwrap() == bytes, "the bytes came back changed");
    let piped = ground.cli(&["exec", "default", "--wait", "--stdin", "-", "--", "cat"]).stdin("abc").run();
    assert_eq!(piped.success().stdout, "abc");
    let over =
        ground.cli(&["exec", "default", "--stdin", "-", "--", "cat"]).stdin(vec![0; 1 << 20 | 1]).run();
    assert!(over.expect_code(2).stderr.contains("invalid stdin"));
    ground.end();
}

#[test]
fn r30_a_command_gets_what_it_was_given_and_only_where_commands_are_allowed() {
    let ground = Ground::start(&["--allow-exec=/**/env", "--allow-exec=/**/pwd"]);
    let command =
        ["exec", "default", "--wait", "--env", "A=b c", "--owner", "user 7", "--id", "mine", "--", "env"];
    let finished = ground.cli(&command).env("SECRET", "x").run().success();
    for line in ["A=b c", "LEASEHOLD_TASK_ID=mine", "LEASEHOLD_OWNER=user 7", "LEASEHOLD_ATTEMPT=1"] {
        assert!(finished.stdout.lines().any(|l| l == line), "{line}: {}", finished.stdout);
    }
    assert!(!finished.stdout.contains("SECRET"), "{}", finished.stdout);
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    let pwd =
        ground.cli(&["exec", "default", "--wait", "--cwd", "sub", "--", "/bin/pwd"]).cwd(dir.path()).run();
    assert!(pwd.success().line().ends_with("/sub"));
    let refused = ground.run(&["exec", "default", "--wait", "--", "true"]).expect_code(1);
    assert!(refused.stderr.contains("rejected"), "{}", refused.stderr);
    ground.end();
}

#[test]
fn r12_r92_failures_are_counted_and_a_person_may_start_anew() {
    let ground = Ground::start(&["--allow-exec"]);
    let command = ["exec", "default", "--wait", "--max-attempts", "2", "--", "sh", "-c", "echo run; exit 4"];
    let finished = ground.run(&command).expect_code(4);
    assert_eq!(finished.stdout, "run\nrun\n");
    let id = told_id(&finished.stderr);
    let task = ground.show(&id);
    assert_eq!((&task["attempt"], &task["failures"]), (&2.into(), &2.into()));
    assert_eq!(task["history"].as_array().unwrap().len(), 2);
    assert!(ground.run(&["task", "show", &id]).success().stdout.contains("2/2"));
    ground.run(&["task", "retry", &id]).success();
    ground.run(&["task", "wait", &id, "--timeout", "20s"]).expect_code(1);
    let task = ground.show(&id);
    assert_eq!((&task["attempt"], &task["failures"]), (&4.into(), &2.into()));
    ground.run(&["task", "delete", &id]).success();
    ground.run(&["task", "logs", &id]).expect_code(4);
    ground.end();
}

#[test]
fn what_runs_is_listed_and_shown() {
    let ground = Ground::start(&["--allow-exec"]);
    let id = ground.run(&["exec", "default", "--", "sleep", "60"]).success().line();
    ground.wait_for_state(&id, "running");
    let list = ground.run(&["task", "list", "--state", "running", "--json"]).success().json();
    assert_eq!(list["tasks"][0]["id"], *id);
    let workers = ground.run(&["workers", "--json"]).success().json();
    let worker = &workers["workers"][0];
    assert_eq!((&worker["name"], &worker["queues"]["default"]), (&"w1".into(), &4.into()));
    let queue = ground.run(&["queue", "show", "default", "--json"]).success().json();
    assert_eq!((&queue["running"], &queue["workers"], &queue["slots"]), (&1.into(), &1.into(), &4.into()));
    assert_eq!((&queue["lease_ms"], &queue["warnings"]), (&2000.into(), &Value::Array(Vec::new())));
    ground.run(&["task", "retry", &id]).expect_code(1);
    ground.run(&["task", "delete", &id]).expect_code(1);
    ground.run(&["task", "abort", &id]).success();
    ground.run(&["task", "wait", &id, "--timeout", "20s"]).expect_code(130);
    ground.end();
}

#[test]
fn a_reader_that_goes_away_ends_the_following_quietly() {
    let ground = Ground::start(&["--allow-exec"]);
    let binary = leasehold_tests::process::binary();
    let script = format!("{} exec default -q --wait --id loud -- yes | head -n 2", binary.display());
    let piped = Leasehold::other_program("sh", &ground.redis).args(["-c", &script]).spawn().wait(RUN_LIMIT);
    assert_eq!(piped.success().stdout, "y\ny\n");
    ground.run(&["task", "abort", "loud", "--grace", "1s"]).success();
    ground.run(&["task", "wait", "loud", "--timeout", "20s"]).expect_code(130);
    ground.end();
}
