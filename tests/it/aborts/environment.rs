//! What surrounds a command: its variables, folder, input, descriptors, session and signals.

use std::collections::BTreeMap;

use leasehold_producer::{TaskId, TaskState};
use leasehold_tests::Proc;

use super::kit::{Kit, LIMIT};

/// The variables as `env -0` printed them.
async fn variables(kit: &Kit, id: &TaskId) -> BTreeMap<String, String> {
    kit.reaches(id, TaskState::Completed).await;
    let text = kit.log_text(id).await;
    let pairs = text.split_terminator('\0').map(|pair| pair.split_once('=').expect("NAME=VALUE"));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A worker whose own environment is known.
async fn worker(kit: &Kit) -> Proc {
    let args =
        ["worker", "--queue", "default=2", "--name", "w", "--lease", "2s", "--allow-exec", "--with-reaper"];
    let worker = kit.cli(args).env("LANG", "C.UTF-8").env("TMPDIR", "/var/tmp").env("HOME", "/root");
    let worker = worker.env("AWS_SECRET_ACCESS_KEY", "secret").env("LEASEHOLD_LOG_FORMAT", "text").spawn();
    kit.registered("w").await;
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_a_command_gets_exactly_the_documented_variables() {
    let kit = Kit::new().await;
    let worker = worker(&kit).await;
    let flags = ["--env", "GIVEN=a=b", "--env", "LEASEHOLD_ATTEMPT=forged", "--owner", "some one"];
    let id = kit.exec_argv(&flags, &["env", "-0"]);
    let mut found = variables(&kit, &id).await;
    let record = kit.record(&id).await;
    let run = record.run.unwrap().to_string();
    let expected = [
        ("GIVEN", "a=b"),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/var/tmp"),
        ("LEASEHOLD_TASK_ID", id.as_str()),
        ("LEASEHOLD_RUN_ID", &run),
        ("LEASEHOLD_ATTEMPT", "1"),
        ("LEASEHOLD_QUEUE", "default"),
        ("LEASEHOLD_OWNER", "some one"),
    ];
    for (name, value) in expected {
        assert_eq!(found.remove(name).as_deref(), Some(value), "{name}");
    }
    // By these two the guard, and this test, know its processes.
    assert!(found.remove("LEASEHOLD_RUN_TOKEN").is_some_and(|token| token.len() >= 32));
    assert!(found.remove("LH_TEST_MARK").is_some());
    assert_eq!(found.remove("PATH"), std::env::var("PATH").ok());
    assert!(found.is_empty(), "it also got {:?}", found.keys());

    let id = kit.exec_argv(&["--env", "PATH=/usr/bin:/bin", "--env", "LANG=C"], &["env", "-0"]);
    let found = variables(&kit, &id).await;
    assert_eq!(
        (found["PATH"].as_str(), found["LANG"].as_str()),
        ("/usr/bin:/bin", "C"),
        "what was given wins"
    );
    assert!(!found.contains_key("LEASEHOLD_OWNER"), "it has none");
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_a_command_has_its_folder_its_input_and_nothing_else_of_its_worker() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 4).await;
    let folder = tempfile::tempdir().unwrap();
    let place = std::fs::canonicalize(folder.path()).unwrap();
    let said = async |id: &TaskId| {
        kit.reaches(id, TaskState::Completed).await;
        kit.log_text(id).await
    };
    let there = kit.exec_argv(&["--cwd", place.to_str().unwrap()], &["pwd"]);
    assert_eq!(said(&there).await.trim_end(), place.to_str().unwrap());
    let here = kit.exec_argv(&[], &["pwd"]);
    assert_eq!(
        said(&here).await.trim_end(),
        std::env::current_dir().unwrap().to_str().unwrap(),
        "the worker's own"
    );

    let nothing = kit.exec_argv(&[], &["cat"]);
    assert_eq!(said(&nothing).await, "", "an end of file at once");
    let input = "first\0second\nno end";
    let id = kit.exec_cli(&["--stdin", "-"], &["cat"]).stdin(input).run().success().line();
    assert_eq!(said(&TaskId::new(id).unwrap()).await, input);

    // 3 is the listing's own.
    let descriptors = kit.exec_argv(&[], &["ls", "/proc/self/fd"]);
    assert_eq!(said(&descriptors).await.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    let signals = kit.exec_argv(&[], &["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
    let masks = said(&signals).await;
    // Signals 1 to 31: two above them glibc itself ignores in whatever posix_spawn starts.
    let set =
        |line: &str| u64::from_str_radix(line.split(':').nth(1).unwrap().trim(), 16).unwrap() & 0x7fff_ffff;
    assert!(masks.lines().all(|line| set(line) == 0), "blocked or ignored signals: {masks}");
    let stat = said(&kit.exec_argv(&[], &["cat", "/proc/self/stat"])).await;
    let fields: Vec<&str> = stat.split_whitespace().collect();
    assert_eq!((fields[4], fields[5]), (fields[0], fields[0]), "its own group and session: {stat}");
    worker.terminate(LIMIT).success();
    kit.end([]).await;
}
