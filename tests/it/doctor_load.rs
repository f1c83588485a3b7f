//! The doctor on a queue that is hard at work: it sees no breach where there is none.

use std::time::Duration;

use leasehold_common::doctor::{Options, examine};
use leasehold_common::name::{QueueName, TaskId};
use leasehold_common::policy::{Backoff, Policy, Priority};
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    AbortRequest, Beat, ClaimAnswer, LogPiece, Outcome, OutputStream, QueueSettings, RetryAdvice, Store, When,
};
use leasehold_tests::RedisServer;
use leasehold_tests::queue::{Hand, done, end, failed, ms, task_with};
use tokio::time::Instant;

use crate::reaper_kit::{Running, assert_sound, real, short_lease};

/// How long the doctor examines.
const DURING: Duration = Duration::from_secs(4);
/// More than this is not queued at a time, so that an examination comes to its end under load.
const MOST: i64 = 200;

async fn backlog(store: &Store, queue: &QueueName) -> i64 {
    store.inspect(queue, &[]).await.unwrap().unwrap().facts.queued()
}

async fn produce(store: Store, queue: QueueName, until: Instant) {
    let mut number = 0;
    while Instant::now() < until {
        let batch: Vec<_> = (0..20)
            .map(|_| {
                number += 1;
                task_with(TaskId::fresh().as_str(), |t| {
                    t.body.priority = Priority::ALL[number % 4];
                    t.body.payload = vec![0; if number % 5 == 0 { 3000 } else { 10 }];
                    t.body.policy.backoff = Backoff { base: ms(20), ..Backoff::default() };
                    if number % 3 == 0 {
                        t.when = When::After(ms(number as u64 % 200));
                    }
                    if number % 11 == 0 {
                        t.body.policy = Policy { max_attempts: 1, ..t.body.policy };
                    }
                })
            })
            .collect();
        store.enqueue(&queue, &batch).await.unwrap();
        while Instant::now() < until && backlog(&store, &queue).await > MOST {
            tokio::task::yield_now().await;
        }
    }
}

/// Claims, beats, logs, and ends its runs in every way; some it abandons.
async fn work(store: Store, queue: QueueName, name: &str, until: Instant) {
    let mut hand = Hand::new(name);
    let mut turn = 0;
    while Instant::now() < until {
        turn += 1;
        let ClaimAnswer::Claimed(claimed) = store.claim(&queue, &hand.next(10)).await.unwrap() else {
            return;
        };
        let runs = claimed.tasks;
        let beats: Vec<Beat> =
            runs.iter().map(|t| Beat { id: t.id.clone(), run: t.run.clone(), stopping: false }).collect();
        store.heartbeat(&queue, &hand.inc, &beats).await.unwrap();
        let piece = |t: &leasehold_common::store::ClaimedTask| LogPiece {
            id: t.id.clone(),
            run: t.run.clone(),
            offset: 0,
            stream: OutputStream::Err,
            text: vec![b'x'; 2000],
        };
        store
            .append_log(&queue, &hand.inc, &runs.iter().take(2).map(piece).collect::<Vec<_>>())
            .await
            .unwrap();
        let ends: Vec<_> = runs
            .iter()
            .enumerate()
            .map(|(n, t)| match (n + turn) % 9 {
                0 => failed(t, RetryAdvice::Policy),
                1 => failed(t, RetryAdvice::Fatal),
                2 => end(t, Outcome::Snoozed(ms(10))),
                3 => end(t, Outcome::Released),
                4 => end(t, Outcome::Completed(vec![1; 3000])),
                _ => done(t),
            })
            .collect();
        // Every tenth claim is abandoned: its worker is dead.
        if turn % 10 == 0 {
            hand = Hand::new(&format!("{name}-{turn}"));
        } else {
            store.finish(&queue, &hand.inc, &ends).await.unwrap();
        }
    }
}

/// Aborts, retries and deletes what comes along.
async fn meddle(store: Store, queue: QueueName, until: Instant) {
    let page = async |state| store.list(&queue, state, None, 5).await.unwrap().tasks;
    while Instant::now() < until {
        for state in [TaskState::Queued, TaskState::Scheduled, TaskState::Running] {
            let requests: Vec<_> =
                page(state).await.into_iter().take(2).map(|r| AbortRequest::new(r.id, "me", "why")).collect();
            store.abort(&queue, &requests).await.unwrap();
        }
        let ends: Vec<_> = page(TaskState::Failed).await.into_iter().map(|r| (r.id, r.rev)).collect();
        store.retry(&queue, &ends).await.unwrap();
        let ends: Vec<_> = page(TaskState::Completed).await.into_iter().map(|r| (r.id, r.rev)).collect();
        store.delete(&queue, &ends).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_under_load_shows_no_breach() {
    let settings =
        QueueSettings { retain_aborted: Duration::ZERO, retain_completed: ms(200), ..short_lease() };
    let queue = real(RedisServer::builder(), settings).await;
    let running = Running::start(&queue.store);
    let until = Instant::now() + DURING;
    let (store, name) = (&queue.store, &queue.name);
    let mut hands = vec![
        tokio::spawn(produce(store.clone(), name.clone(), until)),
        tokio::spawn(meddle(store.clone(), name.clone(), until)),
    ];
    for worker in ["a", "b", "c"] {
        hands.push(tokio::spawn(work(store.clone(), name.clone(), worker, until)));
    }
    let (mut looks, mut examined) = (0, 0);
    while Instant::now() < until {
        let options = Options { pause: ms(20), ..Options::default() };
        let report = examine(store, &options).await.unwrap();
        assert!(report.is_clean(), "{report}");
        looks += 1;
        examined += report.queues[0].examined;
    }
    for hand in hands {
        hand.await.unwrap();
    }
    let stats = running.stop().await;
    assert!(looks >= 2 && examined > 300, "{looks} looks at {examined} tasks");
    assert!(stats.reclaimed > 0 && stats.promoted > 0 && stats.deleted > 0 && stats.odd == 0, "{stats:?}");
    assert_sound(store).await;
}
