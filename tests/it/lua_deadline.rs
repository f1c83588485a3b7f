//! Absolute deadlines: they end a task wherever it is, in bounded time, and nothing else waits for it.

use leasehold_common::bounds::Deadline;
use leasehold_common::record::{FailureDetail, FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    AbortAnswer, BeatAnswer, FinishAnswer, NewTask, Outcome, QueueSettings, RetryAdvice, RetryAnswer,
    RetryMode, When,
};
use leasehold_tests::queue::{
    B, Hand, Queue, START, T, done, end, failed, in_lane_with, ms, task, task_with,
};

const LIMIT: u64 = 40_000;

fn late(name: &str) -> NewTask {
    task_with(name, |t| t.body.bounds.deadline = Some(Deadline::After(ms(LIMIT))))
}

/// Has it ended by its deadline, with one failure that says so, and no row left?
async fn is_timed_out(queue: &Queue, name: &str) {
    let detail = queue.store.detail(&queue.name, &leasehold_tests::queue::id(name)).await.unwrap().unwrap();
    assert_eq!(detail.record.state, TaskState::TimedOut, "{name}");
    assert_eq!(detail.record.failure_kind, Some(FailureKind::Deadline), "{name}");
    assert_eq!(detail.failures.last().map(|f| f.kind), Some(FailureKind::Deadline), "{name}");
    assert_eq!(queue.score("deadlines", name), None, "{name}");
}

#[tokio::test]
async fn r09_a_deadline_ends_a_task_that_no_run_owns_where_it_is() {
    let queue = Queue::start().await;
    queue.enqueue(&[late("queued")]).await;
    let later = |t: &mut NewTask| t.when = When::After(ms(LIMIT * 2));
    let mut scheduled = late("scheduled");
    later(&mut scheduled);
    let mut both = late("both");
    both.when = When::After(ms(LIMIT));
    let waits = in_lane_with("waiting", |t| t.body.bounds.deadline = Some(Deadline::After(ms(LIMIT))));
    queue.enqueue(&[scheduled, both, in_lane_with("first", |_| {}), waits]).await;
    queue.sweep_for(LIMIT - 1).await;
    let names = "queued scheduled both waiting";
    assert_eq!(queue.states(names).await, "queued scheduled scheduled waiting", "not before");
    queue.advance(1);
    let swept = queue.sweep().await;
    assert_eq!((swept.ended, swept.odd, swept.promoted), (4, 0, 0));
    for name in names.split(' ') {
        is_timed_out(&queue, name).await;
        assert_eq!(queue.whys(name).last().map(String::as_str), Some("deadline"));
    }
    assert_eq!(queue.total("dropped"), 0);
    assert_eq!(queue.states("first").await, "queued");
    assert_eq!(queue.claim(&Hand::new("w"), 9).await.len(), 1, "none of them is run");
    queue.check().await;
}

#[tokio::test]
async fn a_claim_ends_a_late_task_and_hands_out_the_one_behind_it() {
    let queue = Queue::start().await;
    queue.enqueue(&[late("t"), task("u")]).await;
    queue.advance(LIMIT - 1);
    let hand = Hand::new("w");
    let run = queue.claim(&hand, 1).await.remove(0);
    assert_eq!(run.id.as_str(), "t", "a moment before it is claimed as any");
    queue.finish(&hand, end(&run, Outcome::Released)).await;
    queue.advance(1);
    let runs = queue.claim(&hand, 1).await;
    assert_eq!(runs[0].id.as_str(), "u");
    is_timed_out(&queue, "t").await;
    assert_eq!(queue.moves("t").last().map(String::as_str), Some("queued>timed_out"));
    queue.check().await;
}

#[tokio::test]
async fn r09_a_running_task_past_its_deadline_is_asked_to_stop_and_then_ended_without_its_worker() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    // Attempts are left: a deadline is final all the same.
    let run = queue.running(&hand, late("t")).await;
    let deadline = queue.record("t").await.deadline_ms.unwrap();
    assert_eq!(deadline, queue.now() + LIMIT);
    while queue.now() < deadline {
        queue.beat(&hand, &run).await;
        queue.sweep_for((deadline - queue.now()).min(1000)).await;
    }
    let stop = queue.record("t").await.stop.unwrap();
    assert_eq!(
        (stop.cause, stop.at_ms, stop.hard_end_ms),
        (StopCause::Deadline, deadline, deadline + 30_000 + T + B)
    );
    let told = queue.beat(&hand, &run).await;
    assert!(matches!(told, BeatAnswer::Stop { cause: StopCause::Deadline, .. }), "{told:?}");
    assert_eq!(
        queue.score("deadlines", "t"),
        Some((stop.hard_end_ms + B) as f64),
        "it starves nobody meanwhile"
    );
    while queue.now() < stop.hard_end_ms - 1 {
        queue.sweep_for((stop.hard_end_ms - 1 - queue.now()).min(1000)).await;
        queue.beat(&hand, &run).await;
    }
    assert_eq!(queue.state("t").await, Some(TaskState::Running), "its grace is not over");
    queue.advance(1);
    queue.sweep().await;
    is_timed_out(&queue, "t").await;
    assert_eq!(queue.beat(&hand, &run).await, BeatAnswer::Lost);
    assert_eq!(queue.finish(&hand, done(&run)).await, FinishAnswer::Lost);
    let rec = queue.record("t").await.reconciled.unwrap();
    assert_eq!(
        (rec.by.as_str(), rec.reason.as_str(), rec.at_ms),
        ("sweep", "past its hard end", queue.now())
    );
    queue.check().await;
}

#[tokio::test]
async fn a_heartbeat_finds_a_passed_deadline_when_nobody_sweeps() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, late("t")).await;
    for _ in 0..4 {
        queue.advance(LIMIT / 4 - 1);
        assert_eq!(queue.beat(&hand, &run).await, BeatAnswer::Ok);
    }
    queue.advance(4);
    let told = queue.beat(&hand, &run).await;
    assert!(matches!(told, BeatAnswer::Stop { cause: StopCause::Deadline, .. }), "{told:?}");
    // A result that came before the stop was heard counts.
    assert_eq!(queue.finish(&hand, done(&run)).await, FinishAnswer::Accepted(TaskState::Completed));
    assert_eq!(queue.score("deadlines", "t"), None);
    queue.check().await;
}

#[tokio::test]
async fn a_deadline_that_passes_between_two_attempts_is_the_outcome() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, late("t")).await;
    queue.finish(&hand, failed(&run, RetryAdvice::After(ms(LIMIT * 3)))).await;
    queue.sweep_for(LIMIT).await;
    is_timed_out(&queue, "t").await;
    assert_eq!(queue.score("scheduled", "t"), None);
    queue.check().await;
    // One whose owner is dead, too: the bound decides, not the reclaim.
    let run = queue.running(&hand, late("u")).await;
    for _ in 0..3 {
        queue.sweep_for(10_000).await;
        queue.beat(&hand, &run).await;
    }
    queue.sweep_for(LIMIT + 60_000).await;
    let record = queue.record("u").await;
    assert_eq!((record.state, record.reclaims), (TaskState::TimedOut, 0));
    queue.check().await;
}

#[tokio::test]
async fn r06_an_abort_outranks_a_deadline() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, late("t")).await;
    queue.advance(LIMIT);
    queue.beat(&hand, &run).await;
    assert!(matches!(queue.abort("t").await, AbortAnswer::Requested { .. }));
    let stop = queue.record("t").await.stop.unwrap();
    assert_eq!((stop.cause, stop.earlier_cause), (StopCause::Abort, Some(StopCause::Deadline)));
    for _ in 0..60 {
        queue.sweep_for(1000).await;
        queue.beat(&hand, &run).await;
    }
    assert_eq!(queue.state("t").await, Some(TaskState::Aborted));
    assert_eq!(queue.score("deadlines", "t"), None);
    queue.check().await;
}

#[tokio::test]
async fn r12_a_retry_lifts_an_absolute_deadline_that_has_passed_and_begins_a_relative_one_anew() {
    let queue = Queue::start().await;
    let at = |name: &str, ms| task_with(name, |t| t.body.bounds.deadline = Some(Deadline::At(ms)));
    queue.enqueue(&[at("passed", START + 1000), late("relative"), at("ahead", START + 900_000)]).await;
    queue.abort("ahead").await;
    queue.sweep_for(LIMIT).await;
    assert_eq!(queue.states("passed relative ahead").await, "timed_out timed_out aborted");
    for name in ["passed", "relative", "ahead"] {
        let answer = queue.retry(name, RetryMode::Keep).await;
        assert_eq!(answer, RetryAnswer::Retried(TaskState::Queued), "{name}");
    }
    assert_eq!(queue.record("passed").await.deadline_ms, None, "who retries it knows the time");
    assert_eq!(queue.record("relative").await.deadline_ms, Some(queue.now() + LIMIT));
    assert_eq!(queue.record("ahead").await.deadline_ms, Some(START + 900_000));
    queue.check().await;
    queue.sweep_for(LIMIT).await;
    assert_eq!(queue.states("passed relative ahead").await, "queued timed_out queued");
    queue.check().await;
}

#[tokio::test]
async fn late_rows_of_all_kinds_never_starve_each_other() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    let names: Vec<String> = (0..40).map(|i| format!("run{i}")).collect();
    queue.enqueue(&names.iter().map(|name| late(name)).collect::<Vec<_>>()).await;
    let runs = queue.claim(&hand, 40).await;
    queue.enqueue(&["bad0", "bad1", "bad2", "last"].map(late)).await;
    for bad in ["bad0", "bad1", "bad2"] {
        queue.set_raw_record(bad, b"junk");
    }
    queue.redis::<()>(&["ZADD", &queue.key("deadlines"), "1", "nobody", "2", "no\nbody"]);
    queue.advance(LIMIT);
    // A few rows a call: each call goes on behind the last.
    for _ in 0..15 {
        queue.store.sweep(&queue.name, 4).await.unwrap();
    }
    is_timed_out(&queue, "last").await;
    for run in &runs {
        assert!(queue.record(run.id.as_str()).await.stop.is_some(), "{}", run.id);
    }
    let rows: Vec<String> =
        queue.redis(&["ZRANGE", &queue.key("deadlines"), "-inf", &queue.now().to_string(), "BYSCORE"]);
    assert!(rows.is_empty(), "nothing is left to look at now: {rows:?}");
    assert_eq!(queue.redis::<u64>(&["ZCARD", &queue.key("deadlines")]), 43, "what nobody can read stays");
}

#[tokio::test]
async fn a_late_task_of_a_queue_that_keeps_nothing_is_gone_with_its_row() {
    let queue = Queue::with(QueueSettings { retain_timed_out: ms(0), ..QueueSettings::default() }).await;
    queue.enqueue(&[late("t")]).await;
    queue.sweep_for(LIMIT).await;
    assert_eq!(queue.state("t").await, None);
    assert_eq!(queue.redis::<u64>(&["EXISTS", &queue.key("deadlines"), &queue.key("errors:t")]), 0);
    queue.check().await;
}

/// The run's own bound had stopped it before, so its row lay behind a hard end that is not reached.
#[tokio::test]
async fn a_run_that_ends_past_the_deadline_gets_no_further_attempt() {
    let bounded = |name: &str| {
        task_with(name, |t| {
            t.body.bounds.deadline = Some(Deadline::After(ms(LIMIT)));
            t.body.policy.run_timeout = Some(ms(LIMIT - 10_000));
        })
    };
    for outcome in ["stopped", "failed", "snoozed", "released"] {
        let queue = Queue::start().await;
        let hand = Hand::new("w");
        queue.sweep_for(T + 1000).await;
        let run = queue.running(&hand, bounded("t")).await;
        for _ in 0..(LIMIT + 5000) / 1000 {
            queue.sweep_for(1000).await;
            queue.beat(&hand, &run).await;
        }
        assert_eq!(queue.record("t").await.stop.map(|s| s.cause), Some(StopCause::RunTimeout));
        let (message, detail) = ("it stopped".to_owned(), FailureDetail::default());
        let finish = match outcome {
            "stopped" => end(&run, Outcome::Stopped { cause: StopCause::RunTimeout, message, detail }),
            "failed" => failed(&run, RetryAdvice::Policy),
            "snoozed" => end(&run, Outcome::Snoozed(ms(1000))),
            _ => end(&run, Outcome::Released),
        };
        assert_eq!(queue.finish(&hand, finish.clone()).await, FinishAnswer::Accepted(TaskState::TimedOut));
        assert_eq!(queue.finish(&hand, finish).await, FinishAnswer::Repeated(TaskState::TimedOut));
        is_timed_out(&queue, "t").await;
        assert_eq!(queue.total("retried"), 0);
        queue.check().await;
    }
}
