//! Aborts of what does not run: it ends at once, needs no worker, and never starts.

use std::time::{Duration, Instant};

use leasehold_producer::{AbortAnswer, Policy, TaskId, TaskState};
use leasehold_tests::{Effects, stays};

use super::handlers::{Act, Seen};
use super::kit::{Kit, quick};

/// Far longer than an idle worker needs to claim what there is.
const LOOKS: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn case_17_r03_what_was_aborted_before_a_worker_came_is_never_started() {
    let kit = Kit::new().await;
    let effects = Effects::new();
    let body = Effects::body(Duration::from_millis(10));
    let env = effects.env();
    let queued = kit.exec(&["--env", &env], &body);
    let scheduled = kit.exec(&["--env", &env, "--delay", "1500ms"], &body);
    let other = kit.exec(&["--env", &env], &body);
    for id in [&queued, &scheduled] {
        let said = kit.ok(&["task", "abort", id.as_str()]);
        assert_eq!(said.line(), "aborted");
        assert_eq!(kit.show(id)["state"], "aborted");
    }
    let worker = kit.worker("late", 2).await;
    kit.reaches(&other, TaskState::Completed).await;
    stays("only the task that nobody aborted has started", LOOKS, || {
        let started: Vec<_> = effects.intervals().into_iter().map(|run| run.task).collect();
        if started == [other.to_string()] { Ok(()) } else { Err(format!("{started:?}")) }
    });
    for id in [&queued, &scheduled] {
        let record = kit.record(id).await;
        assert_eq!((record.state, record.attempt), (TaskState::Aborted, 0));
    }
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_21_r03_r07_abort_of_what_is_not_running_answers_at_once_and_as_it_is() {
    let kit = Kit::new().await;
    let seen = Seen::default();
    let hands = kit.hands(2, |worker| seen.handler(worker)).await;
    let mut backing_off = Policy { max_attempts: 9, ..quick() };
    backing_off.backoff.base = Duration::from_secs(3600);
    backing_off.backoff.cap = Duration::from_secs(3600);
    let backoff = kit.enqueue("backing-off", &Act::Fail, backing_off).await;
    let finished = kit.enqueue("finished", &Act::Finish(0), quick()).await;
    kit.reaches(&backoff, TaskState::Scheduled).await;
    kit.reaches(&finished, TaskState::Completed).await;
    // From here on no worker is needed.
    hands.stop().await;
    let delayed = kit.exec(&["--delay", "1d"], "true");
    let queued = kit.exec(&[], "true");

    for id in [&backoff, &delayed, &queued] {
        let started = Instant::now();
        assert_eq!(kit.abort(id).await, AbortAnswer::Ended(TaskState::Aborted), "{id}");
        assert!(started.elapsed() < Duration::from_secs(1), "{id}: {:?}", started.elapsed());
        assert_eq!(kit.abort(id).await, AbortAnswer::Already(TaskState::Aborted), "{id}, the second abort");
    }
    let before = kit.record(&finished).await;
    for _ in 0..2 {
        assert_eq!(kit.abort(&finished).await, AbortAnswer::Already(TaskState::Completed));
        let said = kit.ok(&["task", "abort", finished.as_str()]).line();
        assert!(said.starts_with("completed (it had ended already"), "{said}");
    }
    assert_eq!(kit.record(&finished).await, before);

    let unknown = TaskId::new("never-heard-of").unwrap();
    assert_eq!(kit.abort(&unknown).await, AbortAnswer::NotFound);
    for args in [["task", "abort", "never-heard-of"], ["task", "show", "never-heard-of"]] {
        let said = kit.cli(args).run().expect_code(4);
        assert!(said.stderr.contains("there is no task never-heard-of"), "{}", said.stderr);
    }
    let foreign = kit.cli(["--namespace", "other", "task", "abort", queued.as_str()]).run().expect_code(4);
    assert!(foreign.stderr.contains("there is no task"), "{}", foreign.stderr);
    kit.end([]).await;
}
