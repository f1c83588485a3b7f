//! The sweep: two looks, gaps, bounds, and rows that make no sense.

use leasehold_common::policy::OnLeaseExpired;
use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{BeatAnswer, NewTask, Outcome, When};
use leasehold_tests::queue::{B, Hand, Queue, START, T, done, end, id, ms, task, task_with};

/// Sweeps each second until the run is reclaimed; how long that took, ms. Panics after `most`.
async fn reclaimed_after(queue: &Queue, most: u64) -> u64 {
    let begun = queue.now();
    while queue.now() - begun <= most {
        queue.advance(1000);
        if queue.sweep().await.reclaimed > 0 {
            return queue.now() - begun;
        }
    }
    panic!("not reclaimed within {most} ms");
}

fn bounded(name: &str, timeout: u64, attempts: u32) -> NewTask {
    task_with(name, |t| {
        t.body.policy.run_timeout = Some(ms(timeout));
        t.body.policy.max_attempts = attempts;
    })
}

#[tokio::test]
async fn r10_a_dead_owner_is_reclaimed_after_two_looks_a_beat_apart() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    queue.running(&hand, task("t")).await;
    queue.sweep_for(T - 1).await;
    assert!(!queue.record("t").await.suspected, "its lease lives");
    queue.advance(1);
    assert_eq!(queue.sweep().await.suspected, 1, "the first look that misses it");
    assert!(queue.record("t").await.suspected);
    queue.sweep_for(B - 1).await;
    assert_eq!(queue.state("t").await, Some(TaskState::Running), "not before B has passed");
    queue.advance(1);
    assert_eq!(queue.sweep().await.reclaimed, 1);
    let record = queue.record("t").await;
    assert_eq!((record.state, record.reclaims, record.failures), (TaskState::Queued, 1, 0));
    assert_eq!(queue.moves("t"), [">queued", "queued>running", "running>queued"]);
    // It comes back in front of everything but `urgent`.
    queue.enqueue(&[task_with("h", |t| t.body.priority = leasehold_common::policy::Priority::High)]).await;
    let again = queue.claim(&hand, 1).await;
    assert_eq!((again[0].id.as_str(), again[0].attempt, again[0].reclaims), ("t", 2, 1));
    queue.check().await;
}

/// No key is needed for it: the record says when the claim was, and that is a lease of T.
#[tokio::test]
async fn a_claim_is_the_first_lease_and_lasts_as_long_as_any() {
    for (begins, step) in [(T + 1000, 1000), (T + 1700, 500), (T + 1001, 1)] {
        let queue = Queue::start().await;
        let hand = Hand::new("w");
        queue.sweep_for(begins).await;
        queue.running(&hand, task("t")).await;
        let begun = queue.now();
        assert!(!queue.redis::<bool>(&["EXISTS", &queue.key("lease:t")]));
        // Looked at all the time, and early too.
        while queue.now() < begun + T - step.max(500) {
            queue.advance(step.max(500));
            queue.redis::<()>(&["ZADD", &queue.key("running"), "1", "t"]);
            assert_eq!(queue.sweep().await.suspected, 0, "{} ms after the claim", queue.now() - begun);
        }
        queue.set_clock(begun + T - 1);
        queue.redis::<()>(&["ZADD", &queue.key("running"), "1", "t"]);
        assert_eq!(queue.sweep().await.suspected, 0, "its last millisecond");
        assert_eq!(queue.score("running", "t"), Some((begun + T) as f64), "the next look is at its end");
        queue.advance(1);
        assert_eq!(queue.sweep().await.suspected, 1, "T after the claim");
        queue.sweep_for(B - 1).await;
        assert_eq!(queue.state("t").await, Some(TaskState::Running), "not before the second look");
        queue.advance(1);
        assert_eq!(queue.sweep().await.reclaimed, 1);
        queue.check().await;
    }
}

/// A claim that lies in the future says nothing of now. Beats say it, and who beats is never suspected for long.
#[tokio::test]
async fn case_36_after_a_step_back_the_claim_proves_nothing_and_beats_do() {
    for back in [1, B, 3_600_000] {
        let queue = Queue::start().await;
        let (living, dead) = (Hand::new("living"), Hand::new("dead"));
        queue.sweep_for(T + 1000).await;
        let run = queue.running(&living, task("t")).await;
        queue.running(&dead, task("u")).await;
        queue.set_clock(queue.now() - back);
        for name in ["t", "u"] {
            queue.redis::<()>(&["ZADD", &queue.key("running"), "1", name]);
        }
        let swept = queue.sweep().await;
        assert_eq!((swept.gap, swept.suspected), (true, 2), "{back}");
        let stepped = queue.now();
        let mut reclaimed = 0;
        while queue.now() < stepped + 3 * T {
            assert_eq!(queue.beat(&living, &run).await, BeatAnswer::Ok);
            assert!(!queue.record("t").await.suspected, "{back}");
            let swept = queue.sweep_for(1000).await;
            if swept[0].reclaimed > 0 {
                reclaimed = queue.now() - stepped;
            }
        }
        // Watched for a whole T after the gap: from the step on, or from when the claim had lain in the past again.
        assert!((T..=T + B + back.min(T) + 1000).contains(&reclaimed), "{back}: after {reclaimed}");
        assert_eq!(queue.state("u").await, Some(TaskState::Queued), "{back}");
        assert_eq!(
            (queue.state("t").await, queue.total("reclaimed")),
            (Some(TaskState::Running), 1),
            "{back}"
        );
        queue.finish(&living, done(&run)).await;
        queue.check().await;
    }
}

#[tokio::test]
async fn case_02_a_live_worker_takes_its_lost_lease_up_again() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    let run = queue.running(&hand, task("t")).await;
    queue.redis::<()>(&["DEL", &queue.key("lease:t")]);
    queue.sweep_for(T + 1000).await;
    assert!(queue.record("t").await.suspected);
    assert_eq!(queue.beat(&hand, &run).await, BeatAnswer::Ok);
    assert!(!queue.record("t").await.suspected, "suspicion is cleared");
    for _ in 0..10 {
        queue.sweep_for(B).await;
        assert_eq!(queue.beat(&hand, &run).await, BeatAnswer::Ok);
    }
    assert_eq!(queue.total("reclaimed"), 0);
    queue.finish(&hand, done(&run)).await;
    queue.check().await;
}

#[tokio::test]
async fn case_05_after_a_gap_nothing_is_reclaimed_within_a_lease() {
    // The gap before the first look, between the looks, and both; sweeps each second else.
    for (before, gap) in [(0, T * 3), (T + 2000, T * 3), (T + 2000, 2001)] {
        let queue = Queue::start().await;
        let hand = Hand::new("w");
        queue.sweep_for(T + 1000).await;
        queue.running(&hand, task("t")).await;
        let swept = queue.sweep_for(before).await;
        let suspected = swept.iter().map(|s| s.suspected).sum::<u64>() > 0;
        queue.advance(gap);
        assert!(queue.sweep().await.gap, "{before} {gap}");
        // Watched since the first look: 2 s until the gap, of which no more than 2 s count.
        let watched = if suspected { 4000 } else { 0 };
        let took = reclaimed_after(&queue, T * 2).await;
        assert_eq!(took + watched, T, "{before} {gap}");
        queue.check().await;
    }
}

#[tokio::test]
async fn slow_sweeps_delay_a_reclaim_and_never_forbid_it() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.running(&hand, task("t")).await;
    let mut sweeps = 0;
    while queue.state("t").await == Some(TaskState::Running) {
        queue.advance(60_000);
        assert!(queue.sweep().await.gap);
        sweeps += 1;
        assert!(sweeps < 20, "never reclaimed");
    }
    // Each sweep counts 2 s of watching at most, and a lease must be watched.
    assert!(sweeps > T / 2000, "{sweeps} sweeps");
    queue.check().await;
}

#[tokio::test]
async fn case_36_a_clock_that_steps_back_is_a_gap_and_reclaims_nobody() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    let run = queue.running(&hand, task("t")).await;
    queue.sweep_for(T + 2000).await;
    queue.set_clock(START);
    assert!(queue.sweep().await.gap);
    assert_eq!(queue.beat(&hand, &run).await, BeatAnswer::Ok);
    queue.sweep_for(T - 1000).await;
    assert_eq!(queue.total("reclaimed"), 0);
    // Looks that lie too far ahead now are clamped.
    assert!(queue.score("running", "t").unwrap() <= (queue.now() + T + B) as f64);
    queue.check().await;
}

#[tokio::test]
async fn impossible_scores_and_leases_are_clamped() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    for score in ["inf", "-inf", "9e18", "1"] {
        let name = format!("t{score}");
        queue.running(&hand, task(&name)).await;
        queue.redis::<()>(&["ZADD", &queue.key("running"), score, &name]);
    }
    let run = queue.running(&hand, task("far")).await;
    let far = format!("{} {} {}", run.run, hand.inc, queue.now() + 10 * T);
    queue.redis::<()>(&["SET", &queue.key("lease:far"), &far]);
    queue.sweep_for(T + 2 * B + 3000).await;
    for name in ["tinf", "t-inf", "t9e18", "t1"] {
        assert_eq!(queue.state(name).await, Some(TaskState::Queued), "{name}");
    }
    queue.sweep_for(T + 2 * B).await;
    assert_eq!(queue.state("far").await, Some(TaskState::Queued));
    queue.check().await;
}

#[tokio::test]
async fn r28_odd_rows_in_the_indexes_starve_nothing() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    queue.running(&hand, task("t")).await;
    queue.enqueue(&[task_with("s", |t| t.when = When::After(ms(1000)))]).await;
    for i in 0..300 {
        let bad = format!("bad{i}");
        if i % 2 == 0 {
            queue.redis::<()>(&["SET", &queue.key(&format!("task:{bad}")), "junk"]);
        }
        queue.redis::<()>(&["ZADD", &queue.key("running"), "1", &bad]);
        queue.redis::<()>(&["ZADD", &queue.key("scheduled"), "1", &bad]);
    }
    let mut odd = 0;
    for _ in 0..(T + B) / 1000 + 2 {
        queue.advance(1000);
        loop {
            let swept = queue.store.sweep(&queue.name, 10).await.unwrap();
            odd += swept.odd;
            if !swept.more {
                break;
            }
        }
    }
    assert!(odd >= 600, "{odd}");
    assert_eq!(queue.state("s").await, Some(TaskState::Queued), "promoted");
    assert_eq!(queue.state("t").await, Some(TaskState::Queued), "reclaimed");
    assert!(queue.score("running", "bad0").is_some(), "what cannot be read is left for a person");
    assert!(queue.score("running", "bad1").is_none(), "what has no record goes");
    for i in 0..300 {
        let bad = format!("bad{i}");
        queue.redis::<()>(&["DEL", &queue.key(&format!("task:{bad}"))]);
        queue.redis::<()>(&["ZREM", &queue.key("running"), &bad]);
        queue.redis::<()>(&["ZREM", &queue.key("scheduled"), &bad]);
    }
    queue.check().await;
}

#[tokio::test]
async fn a_page_at_a_time_the_sweep_gets_through_all() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    let names: Vec<String> = (0..50).map(|i| format!("t{i}")).collect();
    queue.enqueue(&names.iter().map(|n| task(n)).collect::<Vec<_>>()).await;
    assert_eq!(queue.claim(&hand, 50).await.len(), 50);
    let mut reclaimed = 0;
    for _ in 0..(T + B) / 1000 + 1 {
        queue.advance(1000);
        loop {
            let swept = queue.store.sweep(&queue.name, 7).await.unwrap();
            reclaimed += swept.reclaimed;
            assert!(swept.looked <= 7);
            if !swept.more {
                break;
            }
        }
    }
    assert_eq!(reclaimed, 50);
    queue.check().await;
}

#[tokio::test]
async fn r14_a_task_that_kills_its_worker_each_time_ends_failed_and_says_so() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    queue.enqueue(&[task_with("t", |t| t.body.policy.max_reclaims = 2)]).await;
    for n in 1..=3u64 {
        let run = queue.claim(&hand, 1).await.remove(0);
        assert_eq!((run.attempt, run.failures, run.reclaims), (n, 0, n - 1));
        reclaimed_after(&queue, T + 2 * B).await;
    }
    let detail = queue.store.detail(&queue.name, &id("t")).await.unwrap().unwrap();
    let last = detail.last_failure().unwrap();
    assert_eq!((detail.record.state, last.kind), (TaskState::Failed, FailureKind::LeaseExpired));
    assert!(last.message.contains("3 times") && last.message.contains("max_reclaims 2"), "{}", last.message);
    assert!(last.message.contains("worker w"), "{}", last.message);
    assert_eq!(detail.record.attempts_shown(), (1, 5), "no failure was spent");
    queue.check().await;
}

#[tokio::test]
async fn r13_a_task_that_must_not_run_twice_is_never_started_again() {
    let once = |t: &mut NewTask| t.body.policy.on_lease_expired = OnLeaseExpired::Fail;
    // Its owner dies.
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    queue.running(&hand, task_with("t", once)).await;
    reclaimed_after(&queue, T + 2 * B).await;
    let record = queue.record("t").await;
    assert_eq!((record.state, record.failure_kind), (TaskState::Failed, Some(FailureKind::LeaseExpired)));
    // Its owner dies, and its run timeout passes before that is noticed.
    let both = |t: &mut NewTask| {
        once(t);
        t.body.policy.run_timeout = Some(ms(1000));
    };
    queue.running(&hand, task_with("u", both)).await;
    queue.sweep_for(T + 2 * B).await;
    assert_eq!(queue.state("u").await, Some(TaskState::TimedOut), "with attempts left");
    // Its owner lives and does not obey its bound.
    let run = queue.running(&hand, task_with("v", both)).await;
    while queue.beat(&hand, &run).await != BeatAnswer::Lost {
        queue.sweep_for(1000).await;
        assert!(queue.now() < START + 300_000);
    }
    assert_eq!(queue.state("v").await, Some(TaskState::TimedOut));
    // Its worker stops and hands it back.
    let run = queue.running(&hand, task_with("x", once)).await;
    queue.finish(&hand, end(&run, Outcome::Released)).await;
    assert_eq!(queue.state("x").await, Some(TaskState::Aborted));
    assert_eq!(queue.total("started"), 4);
    queue.check().await;
}

#[tokio::test]
async fn r09_a_run_timeout_is_recorded_by_sweep_or_heartbeat_and_ends_a_frozen_worker_too() {
    for by_beat in [false, true] {
        let queue = Queue::start().await;
        let hand = Hand::new("w");
        queue.sweep_for(T + 1000).await;
        let run = queue.running(&hand, bounded("t", 3000, 2)).await;
        queue.sweep_for(2999).await;
        queue.advance(1);
        let hard_end = queue.now() + 30_000 + T + B;
        if by_beat {
            let stop = BeatAnswer::Stop {
                cause: StopCause::RunTimeout,
                hard_end_ms: hard_end,
                by: "leasehold".into(),
            };
            assert_eq!(queue.beat(&hand, &run).await, stop);
        } else {
            assert_eq!(queue.sweep().await.stopped, 1);
        }
        let stop = queue.record("t").await.stop.unwrap();
        assert_eq!(
            (stop.cause, stop.at_ms, stop.hard_end_ms),
            (StopCause::RunTimeout, queue.now(), hard_end)
        );
        // Attempts are left: it is retried. The next one is the last.
        queue.sweep_for(T + 2 * B).await;
        assert_eq!(queue.record("t").await.failures, 1);
        queue.sweep_for(2000).await;
        let run = queue.claim(&hand, 1).await.remove(0);
        assert_eq!((run.stop, queue.beat(&hand, &run).await), (None, BeatAnswer::Ok), "a fresh run, no stop");
        queue.sweep_for(T + 2 * B + 3000).await;
        let record = queue.record("t").await;
        assert_eq!((record.state, record.failures), (TaskState::TimedOut, 2));
        assert_eq!(record.failure_kind, Some(FailureKind::RunTimeout));
        assert_eq!(record.attempts_shown(), (2, 2));
        queue.check().await;
    }
}

/// A living owner that does not obey is ended at its hard end, to the sweep; a gap moves that on.
#[tokio::test]
async fn case_22_the_hard_end_is_kept_and_a_gap_moves_it() {
    for gap in [0, 40_000] {
        let queue = Queue::start().await;
        let hand = Hand::new("w");
        queue.sweep_for(T + 1000).await;
        let run = queue.running(&hand, bounded("t", 1000, 1)).await;
        queue.sweep_for(1000).await;
        let mut hard_end = queue.record("t").await.stop.unwrap().hard_end_ms;
        assert_eq!(hard_end, queue.now() + 30_000 + T + B);
        if gap > 0 {
            queue.advance(gap);
            queue.beat(&hand, &run).await;
            queue.sweep().await;
            hard_end = queue.now() + 30_000 + T + B;
        }
        while queue.now() + 1000 < hard_end {
            queue.sweep_for(1000).await;
            let answer = queue.beat(&hand, &run).await;
            assert!(
                matches!(answer, BeatAnswer::Stop { hard_end_ms, .. } if hard_end_ms == hard_end),
                "{answer:?}"
            );
        }
        // The last lease ends with the hard end, so that a beat cannot carry the run beyond.
        queue.sweep_for(hard_end - queue.now()).await;
        assert_eq!(queue.state("t").await, Some(TaskState::TimedOut), "gap {gap}");
        queue.check().await;
    }
}

#[tokio::test]
async fn the_sweep_says_when_the_next_look_is_due() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    assert_eq!(queue.sweep().await.next_look, ms(1000));
    queue.running(&hand, task("t")).await;
    queue.sweep_for(T - 300).await;
    assert_eq!(queue.sweep().await.next_look, ms(300));
    queue.advance(300);
    queue.sweep().await;
    queue.check().await;
}
