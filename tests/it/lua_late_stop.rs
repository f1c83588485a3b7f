//! Stops that meet a run whose work is over: what had ended before a bound passed ends as it said, and no later abort
//! makes a result of what a refused charge had ended.

use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{ClaimedTask, Finish, Outcome, RetryAdvice, SpendAnswer};
use leasehold_tests::queue::{Hand, Queue, T, budgets, done, end, failed, ms, task_with};

/// A run whose run timeout has passed, and a sweep has recorded that.
async fn past_its_bound(attempts: u32) -> (Queue, Hand, ClaimedTask) {
    let (queue, hand) = (Queue::start().await, Hand::new("w"));
    queue.sweep_for(T + 1000).await;
    let change = |t: &mut leasehold_common::store::NewTask| {
        t.body.policy.max_attempts = attempts;
        t.body.policy.run_timeout = Some(ms(4000));
    };
    let run = queue.running(&hand, task_with("t", change)).await;
    queue.sweep_for(5000).await;
    assert_eq!(queue.record("t").await.stop.map(|stop| stop.cause), Some(StopCause::RunTimeout));
    (queue, hand, run)
}

#[tokio::test]
async fn r09_what_ended_before_its_bound_passed_ends_as_it_said() {
    for before_stop in [true, false] {
        let (queue, hand, run) = past_its_bound(2).await;
        let error = failed(&run, RetryAdvice::Policy);
        queue.finish(&hand, Finish { before_stop, ..error }).await;
        let kind = if before_stop { FailureKind::Error } else { FailureKind::RunTimeout };
        let record = queue.record("t").await;
        assert_eq!((record.failure_kind, record.failures), (Some(kind), 1), "{before_stop}");
        queue.check().await;

        let (queue, hand, run) = past_its_bound(1).await;
        let snooze = end(&run, Outcome::Snoozed(ms(1000)));
        queue.finish(&hand, Finish { before_stop, ..snooze }).await;
        let record = queue.record("t").await;
        let expected = if before_stop { (TaskState::Scheduled, 0) } else { (TaskState::TimedOut, 1) };
        assert_eq!((record.state, record.failures), expected, "{before_stop}: a snooze costs nothing");
        queue.check().await;
    }
}

#[tokio::test]
async fn r08_an_abort_outranks_what_ended_before_it_was_delivered_unless_that_is_a_result() {
    for (result, expected) in [(true, TaskState::Completed), (false, TaskState::Aborted)] {
        let (queue, hand) = (Queue::start().await, Hand::new("w"));
        let run = queue.running(&hand, task_with("t", |_| {})).await;
        queue.abort("t").await;
        let ended = if result { done(&run) } else { failed(&run, RetryAdvice::Policy) };
        queue.finish(&hand, Finish { before_stop: true, ..ended }).await;
        assert_eq!(queue.state("t").await, Some(expected));
        queue.check().await;
    }
}

#[tokio::test]
async fn r62_an_abort_makes_no_result_of_what_a_refused_charge_had_ended() {
    let (queue, hand) = (Queue::start().await, Hand::new("w"));
    let budget = |t: &mut leasehold_common::store::NewTask| t.body.bounds.budgets = budgets(&[("calls", 1)]);
    let run = queue.running(&hand, task_with("t", budget)).await;
    let refused = queue.spend(&hand, &run, 1, "calls", &[9]).await;
    assert_eq!(refused, SpendAnswer::Exceeded { taken: 0, rest: 1 });
    queue.abort("t").await;
    queue.finish(&hand, Finish { before_stop: true, ..done(&run) }).await;
    let record = queue.record("t").await;
    let stop = record.stop.unwrap();
    assert_eq!((record.state, stop.cause), (TaskState::Aborted, StopCause::Abort));
    assert_eq!(stop.earlier_cause, Some(StopCause::BudgetExceeded), "it is kept as detail");
    queue.check().await;
}
