//! Checkpoints: what one attempt leaves for the next.

use leasehold_producer::{Policy, RetryAnswer, RetryMode, TaskState};

use super::play::{Step, player, task, task_with};
use crate::aborts::kit::{Kit, quick};

#[tokio::test(flavor = "multi_thread")]
async fn r12_the_next_attempt_reads_the_checkpoint_of_the_one_before() {
    let kit = Kit::new().await;
    let hands = player(&kit, 1).await;
    let handle = task(&kit, "t", [Step::Keep(7), Step::FailFirst, Step::Need(7)]).await.unwrap();
    let record = kit.reaches(handle.id(), TaskState::Completed).await;
    assert_eq!(record.attempt, 2);
    assert_eq!(record.checkpoint_bytes, Some(1));
    assert_eq!(handle.checkpoint_as::<u64>().await.unwrap(), Some(7));
    let wrong = handle.checkpoint_as::<String>().await.unwrap_err().to_string();
    assert!(wrong.contains("checkpoint") && !wrong.contains('7'), "{wrong}");
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r12_a_retry_keeps_the_checkpoint_unless_told_otherwise_and_resume_needs_one() {
    let kit = Kit::new().await;
    let hands = player(&kit, 1).await;
    let once = || Policy { max_attempts: 1, ..quick() };
    let handle =
        task_with(&kit, "kept", once(), [Step::Keep(7), Step::FailFirst, Step::Need(7)]).await.unwrap();
    kit.reaches(handle.id(), TaskState::Failed).await;
    assert_eq!(handle.resume().await.unwrap(), RetryAnswer::Retried(TaskState::Queued));
    let record = kit.reaches(handle.id(), TaskState::Completed).await;
    assert_eq!((record.attempt, record.failures), (2, 0), "attempt goes on, failures start anew");
    assert_eq!(kit.detail(handle.id()).await.failures.len(), 1, "history is kept");

    let handle = task_with(&kit, "fresh", once(), [Step::FailFirst, Step::Need(7)]).await.unwrap();
    kit.reaches(handle.id(), TaskState::Failed).await;
    assert_eq!(handle.resume().await.unwrap(), RetryAnswer::NoCheckpoint(TaskState::Failed));
    assert_eq!(kit.record(handle.id()).await.state, TaskState::Failed, "nothing was changed");

    let handle = task_with(&kit, "dropped", once(), [Step::Keep(7), Step::Fail]).await.unwrap();
    kit.reaches(handle.id(), TaskState::Failed).await;
    hands.stop().await;
    handle.retry_with(RetryMode::Fresh).await.unwrap();
    assert_eq!(kit.store().checkpoint(&kit.queue, handle.id()).await.unwrap(), None);
    assert_eq!(kit.record(handle.id()).await.checkpoint_bytes, None);
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r12_a_checkpoint_over_its_limit_is_refused_before_redis_is_touched() {
    use leasehold_worker::{Context, Task, TaskError};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Large;
    impl Task for Large {
        const NAME: &'static str = "large";
        type Output = String;
    }

    let kit = Kit::new().await;
    let hands = kit
        .hands(1, |worker| {
            worker.handle(|context: Context, _: Large| async move {
                let refused = context.set_checkpoint(&vec![7_u16; 1024 * 1024]).await.unwrap_err();
                Ok::<String, TaskError>(refused.to_string())
            })
        })
        .await;
    let handle = kit.producer.enqueue(Large).queue("default").await.unwrap();
    let said = handle.wait().await.unwrap();
    assert!(said.starts_with("invalid checkpoint: ") && said.contains("1048576"), "{said}");
    assert_eq!(kit.record(handle.id()).await.checkpoint_bytes, None);
    hands.stop().await;
    kit.end([]).await;
}
