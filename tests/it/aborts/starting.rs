//! Commands that do not start: each reason has its own message, and none is tried in vain.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use leasehold_producer::{ExecPayload, FailureKind, TaskId, TaskState};
use leasehold_tests::eventually;

use super::kit::{Kit, LIMIT};

fn file(folder: &Path, name: &str, text: &str, mode: u32) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn payload(argv: &[&str]) -> ExecPayload {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    ExecPayload { argv, ..ExecPayload::default() }
}

/// It failed for good at its first attempt, as rejected; its message.
async fn rejected(kit: &Kit, id: &TaskId) -> String {
    let record = kit.reaches(id, TaskState::Failed).await;
    assert_eq!((record.attempt, record.failure_kind), (1, Some(FailureKind::Rejected)));
    let text = kit.ok(&["task", "show", id.as_str()]).stdout;
    let message = kit.detail(id).await.last_failure().unwrap().message.clone();
    assert!(text.contains(&message), "task show does not tell {message:?}: {text}");
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_of_not_starting_has_its_own_message_and_spends_one_attempt() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 4).await;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let plain = file(at, "plain", "#!/bin/sh\necho no\n", 0o644);
    let no_shebang = file(at, "no-shebang", "echo no\n", 0o755);
    let lost_interpreter = file(at, "lost", "#!/no/such/interpreter\n", 0o755);
    let folder_text = at.to_str().unwrap();
    let cases: [(&[&str], &[&str], &str); 8] = [
        (&[], &["no-such-program"], r#"program not found: "no-such-program" (searched PATH="#),
        (&[], &["/no/such/program"], r#"program not found: "/no/such/program""#),
        (&["--cwd", "/no/such/folder"], &["true"], r#"working directory "/no/such/folder" does not exist"#),
        (&["--cwd", &plain], &["true"], "is not a directory"),
        (&[], &[&plain], "is not executable (permission denied)"),
        (&[], &[&no_shebang], "is not a program for this machine"),
        (&[], &[&lost_interpreter], r#"needs the interpreter "/no/such/interpreter", which is missing"#),
        (&[], &[folder_text], "is a directory, not a program"),
    ];
    let mut messages = Vec::new();
    for (flags, argv, expected) in cases {
        let id = kit.exec_argv(&[flags, &["--max-attempts", "5"]].concat(), argv);
        let message = rejected(&kit, &id).await;
        assert!(message.contains(expected), "{argv:?}: {message}");
        messages.push(message);
    }
    // One argument of 140 kB, more than a command line here could carry.
    let long = "x".repeat(140 * 1024);
    let handle = kit.producer.exec(kit.queue.clone(), payload(&["true", &long])).await.unwrap();
    let message = rejected(&kit, handle.id()).await;
    assert!(message.contains("arguments and environment are too long"), "{message}");
    messages.push(message);
    messages.sort();
    messages.dedup();
    assert_eq!(messages.len(), cases.len() + 1, "two reasons are told alike");
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_system_takes_is_refused_when_it_is_enqueued_or_told() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 1).await;
    for (argv, word) in [(&["true", "a\0b"][..], "NUL"), (&[], "empty"), (&[""], "empty")] {
        match kit.producer.exec(kit.queue.clone(), payload(argv)).await {
            Err(error) => assert!(error.to_string().contains("argv"), "{argv:?}: {error}"),
            Ok(handle) => {
                let message = rejected(&kit, handle.id()).await;
                assert!(message.contains(word), "{argv:?}: {message}");
            }
        }
    }
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_a_worker_without_allow_exec_hands_commands_back_and_runs_none() {
    let kit = Kit::new().await;
    let without = kit.worker_with("without", 2, &["--with-reaper"]).await;
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("proof");
    let id = kit.exec(&[], &format!("echo ran >{}", proof.display()));
    let shown = eventually("it was handed back", LIMIT, || {
        let shown = kit.show(&id);
        let back = shown["state"] == "scheduled" && shown["attempt"].as_u64() >= Some(1);
        if back { Ok(shown) } else { Err(shown.to_string()) }
    });
    assert_eq!((&shown["failures"], &shown["reclaims"]), (&0.into(), &0.into()), "at no cost: {shown}");
    assert!(!proof.exists(), "it ran");
    without.terminate(LIMIT).success();
    let with = kit.worker("with", 2).await;
    let record = kit.reaches(&id, TaskState::Completed).await;
    assert_eq!((record.worker.unwrap().as_str(), record.failures), ("with", 0));
    assert!(proof.exists());
    kit.end([with]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_an_allow_list_is_matched_against_the_program_that_would_run() {
    let kit = Kit::new().await;
    let folder = tempfile::tempdir().unwrap();
    let (allowed, other) = (folder.path().join("allowed"), folder.path().join("other"));
    fs::create_dir(&allowed).unwrap();
    fs::create_dir(&other).unwrap();
    let good = file(&allowed, "good", "#!/bin/sh\necho good\n", 0o755);
    let bad = file(&other, "bad", "#!/bin/sh\necho bad\n", 0o755);
    let disguised = allowed.join("disguised");
    std::os::unix::fs::symlink(&bad, &disguised).unwrap();
    let pattern = format!("--allow-exec={}/*", fs::canonicalize(&allowed).unwrap().display());
    let worker = kit.worker_with("w", 2, &[&pattern, "--with-reaper"]).await;
    let fine = kit.exec_argv(&[], &[&good]);
    kit.reaches(&fine, TaskState::Completed).await;
    assert_eq!(kit.log_text(&fine).await, "good\n");
    for program in [bad.as_str(), disguised.to_str().unwrap(), "sh"] {
        let id = kit.exec_argv(&["--max-attempts", "3"], &[program]);
        let message = rejected(&kit, &id).await;
        assert!(message.contains("is not among the programs this worker may run"), "{program}: {message}");
        assert_eq!(kit.log_text(&id).await, "");
    }
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_a_command_that_cannot_start_leaves_its_neighbours_alone() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let good = kit.exec(&[], "sleep 1; echo fine");
    for _ in 0..5 {
        let id = kit.exec_argv(&[], &["no-such-program"]);
        rejected(&kit, &id).await;
    }
    kit.reaches_within(&good, TaskState::Completed, Duration::from_secs(10)).await;
    assert_eq!(kit.log_text(&good).await, "fine\n");
    kit.end([worker]).await;
}

/// The command never ran, and the fault is the worker's: here its own working directory is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_start_commands_hands_them_back_and_another_runs_them() {
    let kit = Kit::new().await;
    let folder = tempfile::tempdir().unwrap();
    let broken = kit
        .cli(["worker", "--queue", &format!("{}=4", kit.queue), "--name", "broken", "--allow-exec"])
        .cwd(folder.path())
        .spawn();
    kit.registered("broken").await;
    folder.close().unwrap();
    let id = kit.exec_argv(&[], &["true"]);
    let record = kit.reaches(&id, TaskState::Scheduled).await;
    assert_eq!((record.failures, record.reclaims), (0, 0));
    broken.terminate(LIMIT);
    let worker = kit.worker("w", 4).await;
    let record = kit.reaches(&id, TaskState::Completed).await;
    assert_eq!((record.failures, record.reclaims), (0, 0));
    kit.end([worker]).await;
}
