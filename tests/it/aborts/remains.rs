//! Nothing of an aborted command remains, wherever its processes went and whenever the abort came.

use std::path::Path;
use std::time::Duration;

use leasehold_producer::{AbortAnswer, TaskId, TaskState};
use leasehold_tests::scale::loops;
use leasehold_tests::{comes_true, eventually, procfs};
use nix::sys::signal::Signal;

use super::handlers::for_a_blink;
use super::kit::{GRACE, Kit, LIMIT, read};

/// Children that left their group, their session, their environment, their parent, or all of these. Each notes
/// its pid in a file of `folder`.
fn scattered(folder: &Path) -> String {
    let child = |name: &str| format!("sh -c 'echo $$ >{}/{name}; exec sleep 600'", folder.display());
    format!(
        "{} & setsid {} & env -i /usr/bin/setsid /bin/{} & (setsid nohup {} >/dev/null 2>&1 &); echo up; wait",
        child("plain"),
        child("session"),
        child("clean"),
        child("daemon"),
    )
}

/// The pids that the scattered children noted.
fn pids(folder: &Path) -> Vec<i32> {
    let pid = |name: &str| {
        let file = folder.join(name);
        eventually(&format!("{name} runs"), LIMIT, || {
            read(&file).trim().parse::<i32>().map_err(|e| e.to_string())
        })
    };
    ["plain", "session", "clean", "daemon"].map(pid).to_vec()
}

async fn nothing_remains(prefix: &str, flags: &[&str]) {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 1).await;
    let folder = tempfile::tempdir().unwrap();
    let id = kit.exec(flags, &format!("{prefix}{}", scattered(folder.path())));
    let pids = pids(folder.path());
    assert!(matches!(kit.abort(&id).await, AbortAnswer::Requested { .. }));
    kit.reaches(&id, TaskState::Aborted).await;
    let left: Vec<i32> = pids.iter().copied().filter(|pid| procfs::is_running(*pid)).collect();
    let said = procfs::describe(&left);
    left.iter().for_each(|pid| procfs::signal(*pid, Signal::SIGKILL));
    assert!(left.is_empty(), "the task is aborted, and these run:\n{said}");
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_grandchildren_end_with_a_command_that_obeys_term() {
    nothing_remains("", &["--abort-grace", "10s"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_grandchildren_end_with_a_command_that_is_killed() {
    nothing_remains(r#"trap "" TERM; "#, &["--abort-grace", "500ms"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_an_abort_without_grace_kills_at_once() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 4).await;
    for _ in 0..loops(50) {
        let id = kit.exec(&["--abort-grace", "1h"], r#"trap "" TERM; echo up; sleep 600 & wait; sleep 600"#);
        kit.logs(&id, "up").await;
        kit.ok(&["task", "abort", id.as_str(), "--grace", "0s"]);
        let record = kit.reaches_within(&id, TaskState::Aborted, Duration::from_secs(3)).await;
        kit.assert_no_leftovers();
        assert_eq!((record.attempt, record.failures), (1, 0));
        assert_eq!(kit.show(&id)["failure"]["signal"], 9);
    }
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_an_abort_at_any_moment_of_a_commands_start_or_end_leaves_nothing_of_it() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 8).await;
    let count = loops(300);
    let mut ends = std::collections::BTreeMap::<(TaskState, u64), usize>::new();
    for i in 0..count {
        // From the enqueue over the claim and the start to the exit, in steps.
        let micros = 60_000 * i as u64 / count as u64;
        let script = if i % 2 == 0 { "sleep 0.02" } else { "sleep 600 & sleep 600" };
        let id: TaskId = {
            let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
            let env = [kit.mark()].into();
            let command = leasehold_producer::ExecPayload { argv, env, ..Default::default() };
            kit.producer.exec(kit.queue.clone(), command).stop_grace(GRACE).await.unwrap().id().clone()
        };
        if i == 0 {
            // One instant is sure to be met on any machine: after the end.
            eventually_ended(&kit, &id).await;
        }
        for_a_blink(micros).await;
        let answer = kit.abort(&id).await;
        let record = eventually_ended(&kit, &id).await;
        let agrees = match answer {
            AbortAnswer::Ended(TaskState::Aborted) => (record.0, record.1) == (TaskState::Aborted, 0),
            AbortAnswer::Already(state) => record.0 == state,
            AbortAnswer::Requested { .. } => matches!(record.0, TaskState::Aborted | TaskState::Completed),
            _ => false,
        };
        assert!(agrees, "{id}: {answer:?}, and then {record:?}");
        assert!(
            comes_true(Duration::ZERO, || kit.leftovers().is_empty()),
            "{}",
            procfs::describe(&kit.leftovers())
        );
        *ends.entry(record).or_default() += 1;
    }
    eprintln!("state and attempts: {ends:?}");
    assert!(ends.len() >= 2, "only {ends:?}");
    kit.end([worker]).await;
}

async fn eventually_ended(kit: &Kit, id: &TaskId) -> (TaskState, u64) {
    leasehold_tests::eventually_async(&format!("{id} has ended"), LIMIT, async || {
        let record = kit.record(id).await;
        if record.state.is_terminal() {
            Ok((record.state, record.attempt))
        } else {
            Err(format!("{record:?}"))
        }
    })
    .await
}
