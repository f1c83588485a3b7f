//! Run timeouts and attempts: every task ends by itself in bounded time, whatever its worker does.

use std::time::{Duration, Instant};

use leasehold_producer::{FailureKind, Policy, TaskId, TaskState};
use leasehold_reaper::{Config, Reaper};
use leasehold_tests::scale::loops;
use leasehold_tests::{eventually, eventually_async, let_time_pass_async};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::handlers::{Act, Seen};
use super::kit::{GRACE, Kit, LIMIT, Logs, RECLAIM, quick};

/// The run timeout of these tests. Past any lease of a worker that died a second after the start.
const TIMEOUT: Duration = Duration::from_millis(2500);
/// What must be in no message.
const SECRET: &str = "hunter2-the-payload";

fn bounded(max_attempts: u32) -> Policy {
    Policy { run_timeout: Some(TIMEOUT), max_attempts, ..quick() }
}

/// The task is final, named by its bound, and its failure tells nothing of the payload.
async fn timed_out(kit: &Kit, id: &TaskId, within: Duration) -> Value {
    let record = kit.reaches_within(id, TaskState::TimedOut, within).await;
    assert_eq!(record.failure_kind, Some(FailureKind::RunTimeout));
    let shown = kit.show(id);
    assert_eq!(shown["failure"]["kind"], "run_timeout", "{shown}");
    let message = shown["failure"]["message"].as_str().unwrap();
    assert!(!message.is_empty() && !message.contains(SECRET), "{message}");
    shown
}

#[tokio::test(flavor = "multi_thread")]
async fn case_22_r09_a_handler_that_blocks_its_thread_is_timed_out_without_it_and_its_late_result_is_refused()
{
    let logs = Logs::capture();
    let kit = Kit::new().await;
    let reaper = kit.reaper();
    let seen = Seen::default();
    let hands = kit.hands(1, |worker| seen.handler(worker)).await;
    let policy = Policy { stop_grace: Duration::from_millis(500), ..bounded(1) };
    let id = kit.enqueue("blocks", &Act::Block(9_000), policy).await;
    let next = kit.enqueue("next", &Act::Finish(0), quick()).await;
    kit.reaches(&id, TaskState::Running).await;
    let started = Instant::now();
    timed_out(&kit, &id, TIMEOUT + policy.stop_grace + RECLAIM).await;
    eprintln!("timed out {:?} after its start", started.elapsed());
    let before = kit.record(&id).await;
    // Its thread is still in the handler; once that returns, its slot serves others, and what it says is refused.
    kit.reaches(&next, TaskState::Completed).await;
    assert_eq!(kit.record(&id).await, before);
    assert_eq!(kit.detail(&id).await.output, None);
    let said = logs.text();
    assert!(said.contains("it blocks its thread") && said.contains("lease lost"), "{said}");
    hands.stop().await;
    kit.end([reaper]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_22_r09_a_handler_that_never_ends_is_dropped_after_its_grace_and_its_slot_is_free() {
    let kit = Kit::new().await;
    let seen = Seen::default();
    let hands = kit.hands(1, |worker| seen.handler(worker)).await;
    let policy = Policy { stop_grace: Duration::from_millis(300), ..bounded(1) };
    let id = kit.enqueue("endless", &Act::Endless, policy).await;
    let next = kit.enqueue("next", &Act::Finish(0), quick()).await;
    timed_out(&kit, &id, LIMIT).await;
    kit.reaches_within(&next, TaskState::Completed, Duration::from_secs(2)).await;
    let record = kit.record(&id).await;
    let took = record.ended_ms.unwrap() - record.started_ms.unwrap();
    assert!((2800..4500).contains(&took), "it took {took} ms");
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_22_r09_a_command_is_timed_out_by_itself_and_spends_its_attempts() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let secret = format!("SECRET={SECRET}");
    let flags = ["--run-timeout", "1s", "--abort-grace", "2s", "--env", &secret];
    let once = kit.exec(&flags, "sleep 600");
    let twice = kit.exec(&[&flags[..], &["--max-attempts", "2"]].concat(), "sleep 600");
    let shown = timed_out(&kit, &once, LIMIT).await;
    assert_eq!((&shown["attempt"], &shown["failure"]["signal"]), (&1.into(), &15.into()), "{shown}");
    let shown = timed_out(&kit, &twice, LIMIT).await;
    assert_eq!((&shown["attempt"], &shown["failures"]), (&2.into(), &2.into()), "{shown}");
    kit.end([worker]).await;
}

/// A worker that stops answering a second after its command started, in the way that `fail` says.
async fn without_its_worker(fail: impl FnOnce(&mut leasehold_tests::Proc)) {
    let kit = Kit::new().await;
    let reaper = kit.reaper();
    let mut frozen = kit.worker_with("frozen", 1, &["--allow-exec"]).await;
    let secret = format!("SECRET={SECRET}");
    let flags = ["--run-timeout", "2500ms", "--abort-grace", "1s", "--max-attempts", "1", "--env", &secret];
    let id = kit.exec(&flags, "sleep 600");
    kit.reaches(&id, TaskState::Running).await;
    let started = Instant::now();
    let healthy = kit.worker_with("healthy", 1, &["--allow-exec"]).await;
    let_time_pass_async("the worker fails in the middle", Duration::from_secs(1)).await;
    fail(&mut frozen);
    let shown = timed_out(&kit, &id, TIMEOUT + RECLAIM).await;
    eprintln!("timed out {:?} after its start", started.elapsed());
    assert_eq!((&shown["attempt"], &shown["worker"]), (&1.into(), &"frozen".into()), "{shown}");
    let before = kit.record(&id).await;
    // The queue goes on, and a worker that comes back changes nothing.
    let next = kit.exec(&[], "true");
    kit.reaches(&next, TaskState::Completed).await;
    if frozen.is_running() {
        frozen.cont();
        eventually("its command is gone", LIMIT, || {
            if kit.leftovers().is_empty() {
                Ok(())
            } else {
                Err(leasehold_tests::procfs::describe(&kit.leftovers()))
            }
        });
        let last = kit.exec(&[], "true");
        kit.reaches(&last, TaskState::Completed).await;
        frozen.terminate(LIMIT).success();
    }
    assert_eq!(kit.record(&id).await, before);
    kit.end([healthy, reaper]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_22_r09_a_task_of_a_frozen_worker_is_timed_out() {
    without_its_worker(|worker| worker.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_22_r09_a_task_of_a_killed_worker_is_timed_out() {
    without_its_worker(leasehold_tests::Proc::kill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_26_max_attempts_counts_failures_and_zero_is_refused() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    for most in [1_u64, 2] {
        let id = kit.exec(&["--max-attempts", &most.to_string()], "exit 7");
        kit.reaches(&id, TaskState::Failed).await;
        let shown = kit.show(&id);
        assert_eq!((&shown["attempt"], &shown["failures"]), (&most.into(), &most.into()), "{shown}");
        assert_eq!(shown["history"].as_array().map(Vec::len), Some(most as usize));
        let text = kit.ok(&["task", "show", id.as_str()]).stdout;
        assert!(text.contains(&format!("{most}/{most} (claimed {most} times)")), "{text}");
    }
    let digest = kit.redis.digest();
    let refused = kit.exec_cli(&["--max-attempts", "0"], &["true"]).run().expect_code(2);
    assert!(
        refused.stderr.contains("max_attempts") && refused.stderr.contains("1 to 10000"),
        "{}",
        refused.stderr
    );
    assert_eq!((refused.stdout.as_str(), kit.redis.digest()), ("", digest));
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_26_two_reapers_and_failing_handlers_at_once_never_add_an_attempt() {
    let kit = Kit::new().await;
    let stop = CancellationToken::new();
    let reapers: Vec<_> = (0..2)
        .map(|_| {
            let config = Config { sweep_every: Duration::from_millis(50), ..Config::default() };
            let (reaper, stop) = (Reaper::new(kit.store().clone(), config).unwrap(), stop.clone());
            tokio::spawn(async move { reaper.run(stop).await })
        })
        .collect();
    let seen = Seen::default();
    let hands = kit.hands(8, |worker| seen.handler(worker)).await;
    let mut ids = Vec::new();
    for i in 0..loops(500) {
        let most = 1 + (i % 3) as u32;
        ids.push((
            kit.enqueue(&format!("t{i}"), &Act::Fail, Policy { max_attempts: most, ..quick() }).await,
            most,
        ));
    }
    for (id, most) in &ids {
        eventually_async(&format!("{id} has failed"), LIMIT, async || {
            let record = kit.record(id).await;
            let (n, m) = record.attempts_shown();
            assert!(n <= m, "attempt {n}/{m} of {id}");
            if record.state == TaskState::Failed { Ok(()) } else { Err(format!("{record:?}")) }
        })
        .await;
        let (record, most) = (kit.record(id).await, u64::from(*most));
        assert_eq!((record.attempt, record.failures, record.reclaims), (most, most, 0), "{id}");
        assert_eq!(seen.of(id.as_str()).begun as u64, most, "{id}");
    }
    hands.stop().await;
    stop.cancel();
    for reaper in reapers {
        let stats = reaper.await.unwrap();
        assert_eq!((stats.reclaimed, stats.errors), (0, 0), "{stats:?}");
    }
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r09_a_timeout_within_its_grace_is_still_running_and_ends_timed_out() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 1).await;
    let script = r#"trap 'echo cleaning up; sleep 0.5; exit 0' TERM; sleep 600 & wait"#;
    let id = kit.exec(&["--run-timeout", "1s", "--abort-grace", "5s"], script);
    let shown = eventually("it is told to stop", LIMIT, || {
        let shown = kit.show(&id);
        if shown["stop"]["cause"] == "run_timeout" { Ok(shown) } else { Err(shown["state"].to_string()) }
    });
    assert!(["running", "timed_out"].contains(&shown["state"].as_str().unwrap()), "{shown}");
    let shown = timed_out(&kit, &id, GRACE + LIMIT).await;
    assert_eq!(shown["failure"]["exit_code"], 0, "its code is kept: {shown}");
    assert!(kit.log_text(&id).await.contains("cleaning up"), "what it says within its grace is kept");
    kit.end([worker]).await;
}
