//! What a reaper does to runs, due tasks and what is kept no longer.

use std::time::Duration;

use leasehold_common::policy::{OnLeaseExpired, Policy};
use leasehold_common::state::TaskState;
use leasehold_common::store::{AbortRequest, BeatAnswer, QueueSettings, When};
use leasehold_reaper::Stats;
use leasehold_tests::RedisServer;
use leasehold_tests::eventually::{eventually_async, stays_async};
use leasehold_tests::queue::{Hand, Queue, done, id, ms, task, task_with};

use crate::reaper_kit::{Heart, LEASE, LIMIT, Running, assert_sound, queue_named, real, reaper, short_lease};

async fn fresh() -> Queue {
    real(RedisServer::builder(), short_lease()).await
}

#[tokio::test]
async fn r01_a_dead_run_is_reclaimed_by_the_second_look() {
    let queue = fresh().await;
    let (hand, reaper) = (Hand::new("dead"), reaper(&queue.store));
    let run = queue.running(&hand, task("t")).await;
    let mut total = Stats::default();
    eventually_async("the first look misses the lease", LIMIT, async || {
        total += reaper.run_once().await;
        if total.suspected > 0 { Ok(()) } else { Err(format!("{total:?}")) }
    })
    .await;
    assert_eq!((total.suspected, total.reclaimed), (1, 0), "one look is no proof");
    assert!(queue.record("t").await.suspected);
    eventually_async("the second look reclaims", LIMIT, async || {
        total += reaper.run_once().await;
        if total.reclaimed > 0 { Ok(()) } else { Err(format!("{total:?}")) }
    })
    .await;
    let record = queue.record("t").await;
    assert_eq!((record.state, record.reclaims, record.failures), (TaskState::Queued, 1, 0));
    assert_eq!((total.reclaimed, total.errors, total.odd), (1, 0, 0));
    assert_eq!(queue.beat(&hand, &run).await, BeatAnswer::Lost);
    let again = queue.claim(&Hand::new("next"), 1).await;
    assert_eq!((again[0].attempt, again[0].reclaims), (2, 1));
    assert_sound(&queue.store).await;
}

#[tokio::test]
async fn r13_a_task_that_must_not_run_twice_fails_when_its_owner_dies() {
    let queue = fresh().await;
    let policy = Policy { on_lease_expired: OnLeaseExpired::Fail, ..Policy::default() };
    queue.running(&Hand::new("dead"), task_with("t", |t| t.body.policy = policy)).await;
    let running = Running::start(&queue.store);
    eventually_async("it has failed", LIMIT, async || {
        let state = queue.state("t").await;
        if state == Some(TaskState::Failed) { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await;
    running.stop().await;
    assert_sound(&queue.store).await;
}

#[tokio::test]
async fn a_run_past_its_hard_end_is_ended_although_its_owner_beats() {
    let queue = fresh().await;
    let hand = Hand::new("deaf");
    let run = queue.running(&hand, task("t")).await;
    let _heart = Heart::start(&queue, &hand, &[run]);
    let running = Running::start(&queue.store);
    let abort = AbortRequest { grace: Some(Duration::ZERO), ..AbortRequest::new(id("t"), "me", "why") };
    queue.store.abort(&queue.name, &[abort]).await.unwrap();
    assert_eq!(queue.state("t").await, Some(TaskState::Aborting));
    eventually_async("it is aborted", LIMIT, async || {
        let state = queue.state("t").await;
        if state == Some(TaskState::Aborted) { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await;
    let stats = running.stop().await;
    assert_eq!((stats.ended, stats.reclaimed), (1, 0));
    assert_sound(&queue.store).await;
}

#[tokio::test]
async fn a_due_task_of_a_queue_that_is_new_is_promoted_in_time() {
    let queue = fresh().await;
    let running = Running::start(&queue.store);
    eventually_async("the reaper sweeps", LIMIT, async || {
        if running.reaper.stats().sweeps > 0 { Ok(()) } else { Err("no sweep") }
    })
    .await;
    let new = queue_named("new");
    let due = task_with("t", |t| t.when = When::After(ms(300)));
    queue.store.enqueue(&new, &[due]).await.unwrap();
    let limit = Duration::from_millis(300) + Duration::from_secs(2);
    eventually_async("it is queued", limit, async || {
        let record = queue.store.record(&new, &id("t")).await.unwrap().unwrap();
        if record.state == TaskState::Queued { Ok(()) } else { Err(record.state) }
    })
    .await;
    let stats = running.stop().await;
    assert_eq!((stats.promoted, stats.errors, stats.gaps), (1, 0, 0), "{stats:?}");
    assert_sound(&queue.store).await;
}

#[tokio::test]
async fn what_is_kept_no_longer_goes_from_an_idle_system() {
    let settings = QueueSettings { retain_completed: ms(100), ..short_lease() };
    let queue = real(RedisServer::builder(), settings).await;
    let hand = Hand::new("w");
    let names: Vec<String> = (0..120).map(|n| format!("t{n}")).collect();
    let tasks: Vec<_> = names.iter().map(|name| task(name)).collect();
    queue.enqueue(&tasks).await;
    for _ in 0..2 {
        let runs = queue.claim(&hand, 64).await;
        let ends: Vec<_> = runs.iter().map(done).collect();
        queue.store.finish(&queue.name, &hand.inc, &ends).await.unwrap();
    }
    let run = queue.running(&hand, task("kept")).await;
    let _heart = Heart::start(&queue, &hand, &[run]);
    let running = Running::start(&queue.store);
    eventually_async("all that ended is gone", LIMIT, async || {
        let gone = queue.total("gone");
        if gone == 120 { Ok(()) } else { Err(gone) }
    })
    .await;
    let stats = running.stop().await;
    assert_eq!((stats.deleted, stats.odd), (120, 0));
    assert_eq!(queue.state("t0").await, None);
    assert_eq!(queue.state("kept").await, Some(TaskState::Running));
    let left: u64 = queue.redis(&["EXISTS", &queue.key("task:t0"), &queue.key("body:t0")]);
    assert_eq!(left, 0);
    assert_sound(&queue.store).await;
}

#[tokio::test]
async fn two_reapers_double_nothing() {
    let queue = fresh().await;
    let names: Vec<String> = (0..130).map(|n| format!("t{n}")).collect();
    let tasks: Vec<_> = names.iter().map(|name| task(name)).collect();
    queue.enqueue(&tasks).await;
    let late: Vec<_> =
        (0..130).map(|n| task_with(&format!("late{n}"), |t| t.when = When::After(LEASE))).collect();
    queue.enqueue(&late).await;
    let hand = Hand::new("dead");
    for _ in 0..3 {
        queue.claim(&hand, 64).await;
    }
    let reapers = [Running::start(&queue.store), Running::start(&queue.store)];
    eventually_async("all runs are reclaimed, all tasks due", LIMIT, async || {
        let facts = queue.store.inspect(&queue.name, &[]).await.unwrap().unwrap().facts;
        let queued = facts.queued();
        if queued == 260 { Ok(()) } else { Err(queued) }
    })
    .await;
    let mut total = Stats::default();
    for running in reapers {
        total += running.stop().await;
    }
    assert_eq!((total.reclaimed, total.promoted), (130, 130), "{total:?}");
    assert_eq!(queue.total("reclaimed"), 130);
    for name in &names {
        let record = queue.record(name).await;
        assert_eq!((record.state, record.reclaims), (TaskState::Queued, 1), "{name}");
    }
    assert_sound(&queue.store).await;
}

#[tokio::test]
async fn case_06_a_living_run_is_never_reclaimed_however_often_it_is_looked_at() {
    let queue = fresh().await;
    let hand = Hand::new("alive");
    let mut runs = Vec::new();
    for n in 0..20 {
        runs.push(queue.running(&hand, task(&format!("t{n}"))).await);
    }
    let _heart = Heart::start(&queue, &hand, &runs);
    let reaper = reaper(&queue.store);
    stays_async("all run", LEASE * 3, async || {
        let stats = reaper.run_once().await;
        let running = queue.store.inspect(&queue.name, &[]).await.unwrap().unwrap().facts.number("running");
        if running == 20 && stats.reclaimed + stats.ended == 0 { Ok(()) } else { Err(format!("{stats:?}")) }
    })
    .await;
    assert_eq!(reaper.stats().errors, 0);
    assert_sound(&queue.store).await;
}
