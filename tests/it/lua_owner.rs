//! Owners: their tasks in one list, the interesting ones first, and none of anybody else.

use leasehold_common::state::TaskState;
use leasehold_common::store::{NewTask, QueueSettings, RetryAdvice, RetryMode, When};
use leasehold_tests::queue::{Hand, Queue, T, done, failed, id, ms, owner, task_with};

fn of(who: &str, name: &str) -> NewTask {
    task_with(name, |t| t.body.owner = Some(owner(who)))
}

/// All of an owner, in the order of the list.
async fn list(queue: &Queue, who: &str) -> Vec<String> {
    let found = queue.store.owned(&queue.name, &owner(who), 0, 100).await.unwrap();
    let all: Vec<String> =
        found.live.tasks.iter().chain(&found.ended.tasks).map(|r| r.id.to_string()).collect();
    assert_eq!(found.total as usize, all.len());
    assert!(found.live.tasks.iter().all(|r| !r.state.is_terminal()));
    all
}

#[tokio::test]
async fn r29_what_runs_comes_first_then_what_lives_then_what_ended_each_newest_first() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    for name in ["a", "b", "c", "d", "e"] {
        queue.enqueue(&[of("me", name), of("you", &format!("{name}-of-you"))]).await;
        queue.advance(10);
    }
    assert_eq!(list(&queue, "me").await, ["e", "d", "c", "b", "a"]);
    let runs = queue.claim(&hand, 1).await;
    queue.advance(10);
    assert_eq!(list(&queue, "me").await, ["a", "e", "d", "c", "b"], "what runs");
    queue.abort("d").await;
    queue.advance(10);
    assert_eq!(list(&queue, "me").await, ["a", "e", "c", "b", "d"], "what ended");
    queue.finish(&hand, failed(&runs[0], RetryAdvice::Fatal)).await;
    assert_eq!(list(&queue, "me").await, ["e", "c", "b", "a", "d"], "the last end");
    queue.advance(10);
    queue.retry("d", RetryMode::Keep).await;
    assert_eq!(list(&queue, "me").await, ["e", "d", "c", "b", "a"], "as enqueued");
    let more = queue.claim(&hand, 3).await;
    assert_eq!(more.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(), ["a-of-you", "b", "b-of-you"]);
    queue.abort("b").await;
    assert_eq!(queue.states("b").await, "aborting");
    assert_eq!(list(&queue, "me").await, ["b", "e", "d", "c", "a"], "an aborting run runs");
    assert_eq!(list(&queue, "you").await.len(), 5, "of others nothing");
    assert_eq!(list(&queue, "nobody").await, [""; 0]);
    queue.check().await;
}

#[tokio::test]
async fn r29_each_way_back_and_out_moves_the_row_and_none_leaves_one_behind() {
    let settings = QueueSettings { retain_failed: ms(1000), ..QueueSettings::default() };
    let queue = Queue::with(settings).await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    let mut later = of("me", "later");
    later.when = When::After(ms(1000));
    queue.enqueue(&[of("me", "t"), later]).await;
    let run = queue.claim(&hand, 1).await.remove(0);
    queue.finish(&hand, failed(&run, RetryAdvice::After(ms(0)))).await;
    assert_eq!(list(&queue, "me").await, ["t", "later"]);
    queue.claim(&hand, 1).await;
    queue.sweep_for(T + 7000).await;
    assert_eq!(queue.record("t").await.reclaims, 1);
    queue.check().await;
    let runs = queue.claim(&hand, 2).await;
    assert_eq!(list(&queue, "me").await.len(), 2);
    for run in &runs {
        queue.finish(&hand, failed(run, RetryAdvice::Fatal)).await;
    }
    let rev = queue.record("t").await.rev;
    queue.store.delete(&queue.name, &[(id("t"), rev)]).await.unwrap();
    assert_eq!(list(&queue, "me").await, ["later"]);
    queue.advance(2000);
    queue.store.cleanup(&queue.name, 10).await.unwrap();
    assert!(queue.redis::<Vec<String>>(&["KEYS", "*owner*"]).is_empty());
    queue.check().await;
}

#[tokio::test]
async fn a_discarded_task_leaves_no_row_and_a_foreign_key_costs_the_index_only() {
    let queue = Queue::with(QueueSettings { retain_completed: ms(0), ..QueueSettings::default() }).await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, of("me", "t")).await;
    queue.finish(&hand, done(&run)).await;
    assert!(queue.redis::<Vec<String>>(&["KEYS", "*owner*"]).is_empty());
    queue.check().await;
    let key = queue.keys().owner(&owner("me"));
    queue.redis::<()>(&["SET", &key, "foreign"]);
    let run = queue.running(&hand, of("me", "u")).await;
    queue.finish(&hand, failed(&run, RetryAdvice::Fatal)).await;
    queue.retry("u", RetryMode::Keep).await;
    queue.abort("u").await;
    assert_eq!(queue.state("u").await, Some(TaskState::Aborted));
    assert_eq!(queue.redis::<String>(&["GET", &key]), "foreign");
    queue.redis::<()>(&["DEL", &key]);
    queue.retry("u", RetryMode::Keep).await;
    assert_eq!(list(&queue, "me").await, ["u"], "the next step indexes it again");
    queue.check().await;
}
