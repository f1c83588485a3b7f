//! Budgets: charged whole or not at all, over all attempts, and the end of the run that wants more.

use std::time::Duration;

use leasehold_producer::{BudgetName, FailureKind, Policy, TaskState};
use leasehold_tests::Monitor;

use super::play::{Step, player, spend, task, task_with};
use crate::aborts::kit::{Kit, quick};

fn calls() -> BudgetName {
    BudgetName::new("calls").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn r62_a_charge_above_the_rest_is_refused_whole_and_ends_the_run() {
    let kit = Kit::new().await;
    let hands = player(&kit, 1).await;
    let steps = [spend("calls", 3), spend("calls", 3), spend("calls", 1)];
    let handle = task(&kit, "t", steps).budget("calls", 5).await.unwrap();
    let record = kit.reaches(handle.id(), TaskState::Failed).await;
    assert_eq!(record.failure_kind, Some(FailureKind::BudgetExceeded));
    assert_eq!((record.budgets[&calls()].spent, record.budgets[&calls()].rest()), (3, 2));
    assert_eq!((record.failures, record.attempt), (1, 1), "it is final, attempts left or not");
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r62_endless_calls() {
    let kit = Kit::new().await;
    let hands = player(&kit, 1).await;
    let policy = Policy { stop_grace: Duration::from_millis(300), ..quick() };
    let steps = [Step::SpendForEver("calls".to_owned())];
    let handle = task_with(&kit, "t", policy, steps).budget("calls", 4).await.unwrap();
    let next = task(&kit, "next", []).await.unwrap();
    let record = kit.reaches(handle.id(), TaskState::Failed).await;
    assert_eq!(record.failure_kind, Some(FailureKind::BudgetExceeded));
    assert_eq!(record.budgets[&calls()].spent, 4);
    kit.reaches(next.id(), TaskState::Completed).await;
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r62_a_budget_is_one_over_all_attempts_and_a_retry_by_a_person_renews_it() {
    let kit = Kit::new().await;
    let hands = player(&kit, 1).await;
    let steps = [spend("calls", 2), Step::FailFirst, spend("calls", 2)];
    let handle = task(&kit, "t", steps).budget("calls", 5).await.unwrap();
    let record = kit.reaches(handle.id(), TaskState::Failed).await;
    assert_eq!((record.attempt, record.budgets[&calls()].spent), (2, 4), "2 + 2, and 2 more are too many");
    handle.retry().await.unwrap();
    let record = kit.reaches(handle.id(), TaskState::Completed).await;
    assert_eq!((record.attempt, record.budgets[&calls()].spent), (3, 4));
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r62_a_budget_that_the_task_does_not_have_is_a_clear_failure() {
    let kit = Kit::new().await;
    let hands = player(&kit, 1).await;
    let policy = Policy { max_attempts: 1, ..quick() };
    let handle = task_with(&kit, "t", policy, [spend("money", 1)]).budget("calls", 1).await.unwrap();
    kit.reaches(handle.id(), TaskState::Failed).await;
    let failure = kit.detail(handle.id()).await.failures.remove(0);
    assert!(failure.message.contains("the task has no budget money"), "{failure:?}");
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r62_many_charges_at_once_leave_in_few_calls_and_each_is_counted() {
    use leasehold_worker::{Context, Task, TaskError};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Many;
    impl Task for Many {
        const NAME: &'static str = "many";
        type Output = u64;
    }

    let kit = Kit::new().await;
    let monitor = Monitor::start(&kit.redis);
    let hands = kit
        .hands(1, |worker| {
            worker.handle(|context: Context, _: Many| async move {
                let charges = (0..500).map(|_| context.spend("calls", 1));
                let rests = futures::future::try_join_all(charges).await?;
                Ok::<u64, TaskError>(rests.into_iter().min().unwrap())
            })
        })
        .await;
    let handle = kit.producer.enqueue(Many).queue("default").budget("calls", 500).await.unwrap();
    let record = kit.reaches(handle.id(), TaskState::Completed).await;
    assert_eq!(record.budgets[&calls()].spent, 500);
    let sent = monitor.seen().iter().filter(|seen| seen.words.iter().any(|word| word == "spend")).count();
    assert!((1..=5).contains(&sent), "{sent} calls for 500 charges");
    hands.stop().await;
    kit.end([]).await;
}
