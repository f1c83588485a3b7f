//! Aborts: what they outrank, what they shorten, what they close at once, and what a repeat of them does.

use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{AbortAnswer, AbortRequest, BeatAnswer, Outcome, RetryAdvice};
use leasehold_tests::queue::{B, Hand, Queue, T, done, end, failed, id, ms, task, task_with};

#[tokio::test]
async fn an_abort_outranks_an_earlier_bound_and_never_extends_its_hard_end() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    let run = queue.running(&hand, task_with("t", |t| t.body.policy.run_timeout = Some(ms(1000)))).await;
    queue.sweep_for(1000).await;
    let hard_end = queue.record("t").await.stop.unwrap().hard_end_ms;
    queue.sweep_for(10_000).await;
    queue.beat(&hand, &run).await;
    let abort = async |grace: u64| {
        let request = AbortRequest {
            grace: Some(ms(grace)),
            ..AbortRequest::new(id("t"), format!("me {grace}"), "why")
        };
        queue.store.abort(&queue.name, &[request]).await.unwrap().remove(0)
    };
    let kill_at_ms = hard_end - T - B;
    assert_eq!(abort(60_000).await, AbortAnswer::Requested { kill_at_ms, hard_end_ms: hard_end });
    let stop = queue.record("t").await.stop.unwrap();
    assert_eq!((stop.cause, stop.earlier_cause), (StopCause::Abort, Some(StopCause::RunTimeout)));
    // A later one shortens.
    let now = queue.now();
    let shorter = AbortAnswer::Requested { kill_at_ms: now + 500, hard_end_ms: now + 500 + T + B };
    assert_eq!(abort(500).await, shorter);
    assert_eq!(abort(90_000).await, shorter);
    assert_eq!(queue.record("t").await.stop.unwrap().by.as_deref(), Some("me 60000"), "who was first");
    // Neither retried nor handed back, although attempts are left.
    queue.finish(&hand, end(&run, Outcome::Released)).await;
    let record = queue.record("t").await;
    assert_eq!((record.state, record.failure_kind), (TaskState::Aborted, None));
    assert_eq!(queue.events().concat().last().unwrap().why, b"abort");
    queue.check().await;
}

#[tokio::test]
async fn an_abort_after_an_outage_leaves_a_run_the_time_that_the_gap_gave_back() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, task_with("t", |t| t.body.policy.run_timeout = Some(ms(1000)))).await;
    queue.sweep_for(1000).await;
    let grace = queue.record("t").await.stop.unwrap().grace_ms;
    assert_eq!(grace, 30_000);
    // Nobody looks, and nothing reaches the run, until long after its hard end; the abort is the first to come back.
    queue.advance(600_000);
    let kill_at_ms = queue.now() + grace;
    let hard_end_ms = kill_at_ms + T + B;
    assert_eq!(queue.abort("t").await, AbortAnswer::Requested { kill_at_ms, hard_end_ms });
    let told = |hard_end_ms| BeatAnswer::Stop { cause: StopCause::Abort, hard_end_ms, by: "me".to_owned() };
    assert_eq!(queue.beat(&hand, &run).await, told(hard_end_ms));
    queue.sweep_for(10_000).await;
    assert_eq!(queue.state("t").await, Some(TaskState::Aborting));
    // Asked for, a shorter one is given.
    let request = AbortRequest { grace: Some(ms(0)), ..AbortRequest::new(id("t"), "me", "now") };
    let kill_at_ms = queue.now();
    let hard_end_ms = kill_at_ms + T + B;
    assert_eq!(queue.abort_as(request).await, AbortAnswer::Requested { kill_at_ms, hard_end_ms });
    queue.finish(&hand, end(&run, Outcome::Released)).await;
    queue.check().await;
}

#[tokio::test]
async fn an_aborted_task_has_no_failure_wherever_it_was() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, task("t")).await;
    queue.finish(&hand, failed(&run, RetryAdvice::After(ms(1000)))).await;
    let record = queue.record("t").await;
    assert_eq!((record.state, record.failure_kind), (TaskState::Scheduled, Some(FailureKind::Error)));
    assert_eq!(queue.abort("t").await, AbortAnswer::Ended(TaskState::Aborted));
    let record = queue.record("t").await;
    assert_eq!((record.state, record.failure_kind), (TaskState::Aborted, None));
    queue.check().await;
}

#[tokio::test]
async fn r06_abort_of_a_run_proven_dead_closes_it_in_the_same_call() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    queue.running(&hand, task("t")).await;
    queue.sweep_for(T).await;
    assert!(queue.record("t").await.suspected);
    // The second look is due, but the page of this sweep does not reach it: the watch clock has gone on.
    queue.redis::<()>(&["ZADD", &queue.key("running"), &(queue.now() + T).to_string(), "t"]);
    queue.sweep_for(B).await;
    assert_eq!(queue.state("t").await, Some(TaskState::Running));
    let answer = queue.store.abort(&queue.name, &[AbortRequest::new(id("t"), "me", "why")]).await.unwrap();
    assert_eq!(answer, [AbortAnswer::Ended(TaskState::Aborted)]);
    // A dead run that is only suspected is closed by the sweep, and never started again.
    queue.running(&hand, task("u")).await;
    queue.sweep_for(T + 1000).await;
    let answer = queue.store.abort(&queue.name, &[AbortRequest::new(id("u"), "me", "why")]).await.unwrap();
    assert!(matches!(answer[0], AbortAnswer::Requested { .. }), "{answer:?}");
    queue.sweep_for(B + 1000).await;
    assert_eq!(queue.state("u").await, Some(TaskState::Aborted));
    assert_eq!(queue.moves("u").last().unwrap(), "aborting>aborted");
    queue.check().await;
}

#[tokio::test]
async fn r07_abort_of_what_has_ended_or_never_was_changes_nothing_and_says_so() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, task("t")).await;
    queue.finish(&hand, done(&run)).await;
    let before = queue.digest();
    let requests = [AbortRequest::new(id("t"), "me", "why"), AbortRequest::new(id("none"), "me", "why")];
    let answers = queue.store.abort(&queue.name, &requests).await.unwrap();
    assert_eq!(answers, [AbortAnswer::Already(TaskState::Completed), AbortAnswer::NotFound]);
    assert_eq!(queue.digest(), before);
    queue.check().await;
}

#[tokio::test]
async fn an_abort_request_only_answers_the_second_time_also_after_a_retry() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.running(&hand, task("r")).await;
    queue.seed(&["q"]).await;
    let requests = [AbortRequest::new(id("r"), "me", "why"), AbortRequest::new(id("q"), "me", "why")];
    let first = queue.store.abort(&queue.name, &requests).await.unwrap();
    assert!(matches!(first[0], AbortAnswer::Requested { .. }), "{first:?}");
    assert_eq!(first[1], AbortAnswer::Ended(TaskState::Aborted));
    queue.advance(1000);
    let stop = queue.record("r").await.stop;
    assert_eq!(queue.store.abort(&queue.name, &requests).await.unwrap(), first);
    assert_eq!(queue.record("r").await.stop, stop, "a repeat is no later stop");
    // A person runs it again; then a late duplicate of the abort arrives.
    let rev = queue.record("q").await.rev;
    queue.store.retry(&queue.name, &[(id("q"), rev)]).await.unwrap();
    let before = queue.digest();
    let late = queue.store.abort(&queue.name, &requests[1..]).await.unwrap();
    assert_eq!(late, [AbortAnswer::Ended(TaskState::Aborted)]);
    assert_eq!(queue.digest().len(), before.len());
    assert_eq!(queue.state("q").await, Some(TaskState::Queued), "the retry stands");
    let fresh = queue.store.abort(&queue.name, &[AbortRequest::new(id("q"), "me", "again")]).await.unwrap();
    assert_eq!(fresh, [AbortAnswer::Ended(TaskState::Aborted)]);
    queue.check().await;
}
