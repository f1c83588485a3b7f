//! Bounds of a run: run timeout, phases, silence and stall, by the sweep and by the heartbeat alike; and a hard end that
//! waits for what the system does not end.

use leasehold_common::bounds::Deadline;
use leasehold_common::record::{FailureDetail, FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    AbortAnswer, AbortRequest, BeatAnswer, ClaimedTask, FinishAnswer, LogPiece, NewTask, Outcome,
    OutputStream, Progress, QueueSettings, UpdateAnswer,
};
use leasehold_tests::RedisServer;
use leasehold_tests::queue::{B, Hand, Queue, T, budgets, done, end, id, ms, task, task_with};

use crate::reaper_kit::real;

/// The default stop grace.
const GRACE: u64 = 30_000;

/// A queue on which somebody has swept for long, and a run.
async fn running(change: impl FnOnce(&mut NewTask)) -> (Queue, Hand, ClaimedTask) {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    let run = queue.running(&hand, task_with("t", change)).await;
    (queue, hand, run)
}

/// Lets `ms` pass while the run beats and somebody sweeps, or nobody.
async fn pass(queue: &Queue, hand: &Hand, run: &ClaimedTask, ms: u64, sweeps: bool) {
    let end = queue.now() + ms;
    while queue.now() < end {
        let step = (end - queue.now()).min(1000);
        if sweeps {
            queue.sweep_for(step).await;
        } else {
            queue.advance(step);
        }
        if queue.now() < end || !sweeps {
            queue.beat(hand, run).await;
        }
    }
}

fn stopped(cause: StopCause) -> Outcome {
    Outcome::Stopped { cause, message: "it was stopped".to_owned(), detail: FailureDetail::default() }
}

async fn stop_of(queue: &Queue) -> Option<(StopCause, u64)> {
    queue.record("t").await.stop.map(|s| (s.cause, s.at_ms))
}

#[tokio::test]
async fn r09_each_bound_stops_a_run_at_its_moment_by_the_sweep_and_by_the_heartbeat() {
    for sweeps in [true, false] {
        for cause in [StopCause::RunTimeout, StopCause::PhaseTimeout, StopCause::Stalled] {
            let (queue, hand, run) = running(|t| {
                t.body.policy.max_attempts = 2;
                match cause {
                    StopCause::RunTimeout => t.body.policy.run_timeout = Some(ms(20_000)),
                    StopCause::Stalled => t.body.bounds.stall_timeout = Some(ms(20_000)),
                    _ => {}
                }
            })
            .await;
            if cause == StopCause::PhaseTimeout {
                queue.phase(&hand, &run, 1, "build", Some(20_000)).await;
            }
            let due = queue.now() + 20_000;
            pass(&queue, &hand, &run, 19_999, sweeps).await;
            assert_eq!(stop_of(&queue).await, None, "{cause:?} {sweeps}");
            pass(&queue, &hand, &run, 1, sweeps).await;
            assert_eq!(stop_of(&queue).await, Some((cause, due)), "{cause:?} {sweeps}");
            let told = queue.beat(&hand, &run).await;
            assert!(matches!(told, BeatAnswer::Stop { cause: c, .. } if c == cause), "{told:?}");
            // It spends a failure; with attempts left it is tried again, then it ends for good.
            queue.finish(&hand, end(&run, stopped(cause))).await;
            let record = queue.record("t").await;
            assert_eq!((record.state, record.failures), (TaskState::Scheduled, 1), "{cause:?}");
            assert_eq!(record.stop, None);
            queue.advance(5000);
            let run = queue.claim(&hand, 1).await.remove(0);
            queue.finish(&hand, end(&run, stopped(cause))).await;
            let record = queue.record("t").await;
            let kind = record.failure_kind.map(FailureKind::as_str);
            assert_eq!((record.state, kind), (TaskState::TimedOut, Some(cause.as_str())));
            queue.check().await;
        }
    }
}

#[tokio::test]
async fn r09_a_bound_of_a_run_that_does_not_obey_ends_it_without_its_worker() {
    let (queue, hand, run) = running(|t| {
        t.body.policy.max_attempts = 1;
        t.body.bounds.stall_timeout = Some(ms(20_000));
    })
    .await;
    let due = queue.now() + 20_000;
    pass(&queue, &hand, &run, 20_000 + GRACE + T + B - 1, true).await;
    assert_eq!(queue.state("t").await, Some(TaskState::Running));
    assert_eq!(stop_of(&queue).await, Some((StopCause::Stalled, due)));
    pass(&queue, &hand, &run, 1, true).await;
    let record = queue.record("t").await;
    assert_eq!((record.state, record.failure_kind), (TaskState::TimedOut, Some(FailureKind::Stalled)));
    assert_eq!(queue.finish(&hand, done(&run)).await, FinishAnswer::Lost);
    queue.check().await;
}

#[tokio::test]
async fn the_first_bound_that_passes_decides_and_an_abort_outranks_it() {
    let (queue, hand, run) = running(|t| {
        t.body.policy.run_timeout = Some(ms(9000));
        t.body.bounds.stall_timeout = Some(ms(6000));
        t.body.bounds.budgets = budgets(&[("calls", 1)]);
    })
    .await;
    queue.phase(&hand, &run, 1, "build", Some(3000)).await;
    let began = queue.now();
    pass(&queue, &hand, &run, 12_000, true).await;
    assert_eq!(
        stop_of(&queue).await,
        Some((StopCause::PhaseTimeout, began + 3000)),
        "though all have passed"
    );
    queue.spend(&hand, &run, 1, "calls", &[2]).await;
    assert_eq!(stop_of(&queue).await.map(|s| s.0), Some(StopCause::PhaseTimeout));
    queue.abort("t").await;
    let stop = queue.record("t").await.stop.unwrap();
    assert_eq!((stop.cause, stop.earlier_cause), (StopCause::Abort, Some(StopCause::PhaseTimeout)));
    assert_eq!(stop.hard_end_ms, began + 3000 + GRACE + T + B, "never extended");
    // The worker speaks of the bound still: the abort stands.
    queue.finish(&hand, end(&run, stopped(StopCause::PhaseTimeout))).await;
    assert_eq!(queue.state("t").await, Some(TaskState::Aborted));
    queue.check().await;
    // Found in one look, the earliest of several that have passed decides.
    let (queue, hand, run) = running(|t| {
        t.body.policy.run_timeout = Some(ms(9000));
        t.body.bounds.stall_timeout = Some(ms(6000));
    })
    .await;
    queue.advance(10_000);
    queue.beat(&hand, &run).await;
    assert_eq!(stop_of(&queue).await.map(|s| s.0), Some(StopCause::Stalled));
    queue.check().await;
}

#[tokio::test]
async fn no_timeout_means_none_and_a_plain_run_has_that_of_a_day() {
    const DAY: u64 = 86_400_000;
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.enqueue(&[task_with("no_timeout", |t| t.body.policy.run_timeout = None), task("plain")]).await;
    let runs = queue.claim(&hand, 2).await;
    // In steps that the lease allows, and few.
    let mut left = 2 * DAY;
    let mut stopped_at = None;
    while left > 0 {
        queue.advance(T - 1);
        left = left.saturating_sub(T - 1);
        let first = queue.beat(&hand, &runs[0]).await;
        assert_eq!(first, BeatAnswer::Ok, "no bound was asked for");
        if stopped_at.is_none() && queue.beat(&hand, &runs[1]).await != BeatAnswer::Ok {
            stopped_at = Some(queue.now() - runs_began(&queue, "plain").await);
        }
    }
    let stopped_at = stopped_at.expect("the plain one is stopped");
    assert!((DAY..DAY + T).contains(&stopped_at), "{stopped_at}");
    queue.sweep().await;
    let record = queue.record("no_timeout").await;
    assert_eq!((record.state, record.stop), (TaskState::Running, None));
}

async fn runs_began(queue: &Queue, name: &str) -> u64 {
    queue.record(name).await.started_ms.expect("it runs")
}

#[tokio::test]
async fn r24_a_silence_is_told_once_and_so_is_its_end() {
    for sweeps in [true, false] {
        let (queue, hand, run) = running(|t| t.body.bounds.silence_notice = Some(ms(10_000))).await;
        let began = queue.now();
        let told =
            || queue.whys("t").into_iter().filter(|why| why.starts_with("silence")).collect::<Vec<_>>();
        pass(&queue, &hand, &run, 9999, sweeps).await;
        assert_eq!(told(), [""; 0], "{sweeps}");
        pass(&queue, &hand, &run, 1, sweeps).await;
        queue.beat(&hand, &run).await;
        assert_eq!(told(), ["silence"]);
        assert_eq!(queue.record("t").await.silent_since_ms, Some(began));
        pass(&queue, &hand, &run, 50_000, sweeps).await;
        assert_eq!(told(), ["silence"], "once");
        let number = 1;
        let item =
            Progress { id: id("t"), run: run.run.clone(), number, share: None, message: String::new() };
        queue.store.progress(&queue.name, &hand.inc, std::slice::from_ref(&item)).await.unwrap();
        assert_eq!(told(), ["silence", "silence over"]);
        let spoke = queue.now();
        let record = queue.record("t").await;
        assert_eq!((record.silent_since_ms, record.last_event_ms), (None, Some(spoke)));
        // A late duplicate is no sign of life.
        pass(&queue, &hand, &run, 9000, sweeps).await;
        queue.store.progress(&queue.name, &hand.inc, &[item]).await.unwrap();
        pass(&queue, &hand, &run, 1000, sweeps).await;
        queue.beat(&hand, &run).await;
        assert_eq!(told(), ["silence", "silence over", "silence"], "the next one");
        assert_eq!(queue.record("t").await.silent_since_ms, Some(spoke));
        assert_eq!(stop_of(&queue).await, None, "a notice stops nothing");
        queue.finish(&hand, done(&run)).await;
        assert_eq!(queue.record("t").await.silent_since_ms, None);
        queue.check().await;
    }
}

#[tokio::test]
async fn r24_every_word_of_a_run_is_a_sign_of_life() {
    for word in ["log", "phase", "charge", "checkpoint", "progress"] {
        let (queue, hand, run) = running(|t| {
            t.body.bounds.stall_timeout = Some(ms(10_000));
            t.body.bounds.budgets = budgets(&[("calls", 5)]);
        })
        .await;
        queue.advance(9999);
        match word {
            "log" => {
                let (stream, text) = (OutputStream::Out, b"x".to_vec());
                let piece = LogPiece { id: id("t"), run: run.run.clone(), offset: 0, stream, text };
                drop(queue.store.append_log(&queue.name, &hand.inc, &[piece]).await.unwrap());
            }
            "phase" => drop(queue.phase(&hand, &run, 1, "p", None).await),
            "charge" => drop(queue.spend(&hand, &run, 1, "calls", &[1]).await),
            "checkpoint" => drop(queue.leave_checkpoint(&hand, &run, 1, b"x").await),
            _ => {
                let item = Progress {
                    id: id("t"),
                    run: run.run.clone(),
                    number: 1,
                    share: Some(0.1),
                    message: String::new(),
                };
                drop(queue.store.progress(&queue.name, &hand.inc, &[item]).await.unwrap());
            }
        }
        queue.advance(9999);
        assert_eq!(queue.beat(&hand, &run).await, BeatAnswer::Ok, "{word}");
        queue.advance(1);
        let told = queue.beat(&hand, &run).await;
        assert!(matches!(told, BeatAnswer::Stop { cause: StopCause::Stalled, .. }), "{word}: {told:?}");
        queue.check().await;
    }
}

#[tokio::test]
async fn r64_a_failure_names_the_phase_and_how_long_it_had_been_there() {
    let (queue, hand, run) = running(|t| t.body.policy.max_attempts = 1).await;
    queue.phase(&hand, &run, 1, "fetch", None).await;
    let began = queue.now();
    queue.advance(1000);
    queue.phase(&hand, &run, 2, "build", Some(5000)).await;
    queue.advance(5000);
    queue.beat(&hand, &run).await;
    queue.advance(700);
    queue.finish(&hand, end(&run, stopped(StopCause::PhaseTimeout))).await;
    let detail = queue.store.detail(&queue.name, &id("t")).await.unwrap().unwrap();
    let failure = detail.last_failure().unwrap();
    assert_eq!(failure.kind, FailureKind::PhaseTimeout);
    assert_eq!((failure.phase.as_ref().unwrap().as_str(), failure.phase_ms), ("build", Some(5700)));
    let history: Vec<(&str, u64, u64)> =
        detail.phases.iter().map(|p| (p.name.as_str(), p.since_ms - began, p.until_ms - began)).collect();
    assert_eq!(history, [("fetch", 0, 1000), ("build", 1000, 6700)]);
    assert_eq!(detail.record.phase.and_then(|p| p.ended_ms), Some(began + 6700));
    queue.check().await;
    // An abort names it, too.
    let (queue, hand, run) = running(|_| {}).await;
    queue.phase(&hand, &run, 1, "wait", None).await;
    queue.advance(900);
    queue.abort("t").await;
    queue.finish(&hand, end(&run, stopped(StopCause::Abort))).await;
    let detail = queue.store.detail(&queue.name, &id("t")).await.unwrap().unwrap();
    let failure = detail.last_failure().unwrap();
    assert_eq!((failure.phase.as_ref().unwrap().as_str(), failure.phase_ms), ("wait", Some(900)));
    queue.check().await;
}

#[tokio::test]
async fn a_phase_entered_again_begins_anew_and_one_without_a_timeout_has_none() {
    let (queue, hand, run) = running(|_| {}).await;
    queue.phase(&hand, &run, 1, "build", Some(10_000)).await;
    pass(&queue, &hand, &run, 9000, true).await;
    queue.phase(&hand, &run, 2, "build", Some(10_000)).await;
    pass(&queue, &hand, &run, 9000, true).await;
    assert_eq!(stop_of(&queue).await, None);
    queue.phase(&hand, &run, 3, "rest", None).await;
    pass(&queue, &hand, &run, 60_000, true).await;
    assert_eq!(stop_of(&queue).await, None);
    // A bound before the look that is planned is found at its moment.
    queue.phase(&hand, &run, 4, "short", Some(1500)).await;
    let due = queue.now() + 1500;
    queue.sweep_for(1500).await;
    assert_eq!(stop_of(&queue).await, Some((StopCause::PhaseTimeout, due)));
    queue.check().await;
}

#[tokio::test]
async fn what_a_run_said_of_its_phases_is_not_the_next_ones() {
    let (queue, hand, run) = running(|_| {}).await;
    queue.phase(&hand, &run, 7, "build", Some(1000)).await;
    queue.finish(&hand, end(&run, Outcome::Released)).await;
    let next = queue.claim(&hand, 1).await.remove(0);
    assert_eq!(queue.record("t").await.phase, None);
    pass(&queue, &hand, &next, 5000, true).await;
    assert_eq!(stop_of(&queue).await, None, "the timeout was the other run's");
    let before = queue.digest();
    assert_eq!(queue.phase(&hand, &run, 8, "late", None).await, UpdateAnswer::Lost);
    assert_eq!(queue.phase(&Hand::new("v"), &next, 8, "late", None).await, UpdateAnswer::Lost);
    assert_eq!(queue.digest(), before);
    assert_eq!(queue.phase(&hand, &next, 1, "fetch", None).await, UpdateAnswer::Ok, "its own first number");
    let before = queue.digest();
    assert_eq!(queue.phase(&hand, &next, 1, "other", None).await, UpdateAnswer::Ok);
    assert_eq!(queue.phase(&hand, &next, 0, "other", None).await, UpdateAnswer::Ok);
    assert_eq!(queue.digest(), before, "numbers that are not above the last write nothing");
    queue.check().await;
}

#[tokio::test]
async fn r27_a_hard_end_waits_while_a_living_worker_says_unkillable_and_not_longer() {
    let (queue, hand, run) = running(|t| {
        t.body.lane = Some(leasehold_tests::queue::lane("l"));
        t.body.policy.stop_grace = ms(1000);
    })
    .await;
    queue.enqueue(&[leasehold_tests::queue::in_lane("behind")]).await;
    queue.abort("t").await;
    let hard_end = queue.record("t").await.stop.unwrap().hard_end_ms;
    // Long past its hard end: told with each beat, as a worker does.
    while queue.now() < hard_end + 60_000 {
        queue.sweep_for(1000).await;
        assert_eq!(queue.unkillable(&hand, &run).await, UpdateAnswer::Ok);
        assert!(matches!(queue.beat(&hand, &run).await, BeatAnswer::Stop { .. }));
        assert_eq!(queue.states("t behind").await, "aborting waiting", "its lane stays closed");
    }
    assert_eq!(queue.record("t").await.unkillable.as_deref(), Some("17"));
    assert_eq!(queue.whys("t").iter().filter(|why| *why == "unkillable").count(), 1, "told once");
    // A sweep does not look at it all the time meanwhile.
    queue.advance(1);
    queue.sweep().await;
    let next_look = queue.score("running", "t").unwrap();
    assert!(next_look >= (queue.now() + B) as f64, "{next_look} at {}", queue.now());
    let said = queue.now() - 1;
    while queue.state("t").await == Some(TaskState::Aborting) {
        queue.beat(&hand, &run).await;
        queue.sweep_for(500).await;
        assert!(queue.now() <= said + T + B + 500, "not longer than its last word holds");
    }
    assert!(queue.now() >= said + T + B);
    assert_eq!(queue.states("t behind").await, "aborted queued");
    queue.check().await;
}

#[tokio::test]
async fn r27_unkillable_and_dead_is_dead() {
    let (queue, hand, run) = running(|t| t.body.policy.stop_grace = ms(1000)).await;
    queue.abort("t").await;
    queue.beat(&hand, &run).await;
    queue.unkillable(&hand, &run).await;
    queue.sweep_for(T + B + 2000).await;
    assert_eq!(queue.state("t").await, Some(TaskState::Aborted));
    queue.check().await;
}

#[tokio::test]
async fn r27_only_what_is_unkillable_can_be_given_up() {
    let abandon = |name: &str| AbortRequest { abandon: true, ..AbortRequest::new(id(name), "me", "why") };
    let (queue, hand, run) = running(|t| t.body.lane = Some(leasehold_tests::queue::lane("l"))).await;
    queue.enqueue(&[leasehold_tests::queue::in_lane("behind"), task("queued")]).await;
    // Of anything else it is an abort as any.
    assert_eq!(queue.abort_as(abandon("queued")).await, AbortAnswer::Ended(TaskState::Aborted));
    assert!(matches!(queue.abort_as(abandon("t")).await, AbortAnswer::Requested { .. }));
    queue.unkillable(&hand, &run).await;
    queue.advance(T + B);
    assert!(matches!(queue.abort_as(abandon("t")).await, AbortAnswer::Requested { .. }), "its word is old");
    assert_eq!(queue.states("t behind").await, "aborting waiting");
    queue.beat(&hand, &run).await;
    queue.unkillable(&hand, &run).await;
    let request = abandon("t");
    assert_eq!(queue.abort_as(request.clone()).await, AbortAnswer::Ended(TaskState::Failed));
    assert_eq!(queue.states("t behind").await, "failed queued");
    let detail = queue.store.detail(&queue.name, &id("t")).await.unwrap().unwrap();
    let failure = detail.last_failure().unwrap();
    assert_eq!(failure.kind, FailureKind::Abandoned);
    assert!(failure.message.contains("me") && failure.message.contains("17"), "{}", failure.message);
    assert_eq!(detail.record.unkillable, None);
    let before = queue.digest();
    assert_eq!(queue.abort_as(request).await, AbortAnswer::Ended(TaskState::Failed), "a repeat");
    assert_eq!(queue.abort_as(abandon("t")).await, AbortAnswer::Already(TaskState::Failed));
    assert_eq!(queue.unkillable(&hand, &run).await, UpdateAnswer::Lost);
    assert_eq!(queue.finish(&hand, done(&run)).await, FinishAnswer::Lost);
    assert_eq!(queue.digest(), before);
    queue.check().await;
}

#[tokio::test]
async fn r82_what_was_decided_for_a_run_stands_in_its_record() {
    let (queue, hand, run) = running(|_| {}).await;
    assert_eq!(queue.record("t").await.reconciled, None);
    queue.sweep_for(T + 7000).await;
    let told = queue.record("t").await.reconciled.unwrap();
    assert_eq!((told.by.as_str(), told.reason.as_str()), ("sweep", "its lease expired"));
    assert!(told.at_ms > queue.now() - 7000);
    assert_eq!(queue.finish(&hand, done(&run)).await, FinishAnswer::Lost);
    // By a person who finds it dead.
    let at = queue.now();
    let run = queue.claim(&hand, 1).await.remove(0);
    while queue.now() < at + T + B {
        queue.sweep_for(500).await;
    }
    if queue.state("t").await == Some(TaskState::Running) {
        queue.advance(500);
        queue.abort("t").await;
    }
    assert_eq!(queue.finish(&hand, done(&run)).await, FinishAnswer::Lost);
    // A person's retry begins anew.
    queue.abort("t").await;
    queue.retry("t", leasehold_common::store::RetryMode::Keep).await;
    assert_eq!(queue.record("t").await.reconciled, None);
    queue.check().await;
}

/// On a clock that nobody drives the lease key tells a heartbeat most, so it has to say where the record is to be asked.
#[tokio::test]
async fn a_lease_key_says_look_where_a_run_has_bounds_of_its_own() {
    let queue = real(RedisServer::builder().no_persistence(), QueueSettings::default()).await;
    let hand = Hand::new("w");
    let bounded = |name: &str, change: fn(&mut NewTask)| task_with(name, change);
    let new = [
        task("plain"),
        bounded("silence", |t| t.body.bounds.silence_notice = Some(ms(600_000))),
        bounded("stall", |t| t.body.bounds.stall_timeout = Some(ms(600_000))),
        bounded("deadline", |t| t.body.bounds.deadline = Some(Deadline::After(ms(600_000)))),
        bounded("timeout", |t| t.body.policy.run_timeout = Some(ms(600_000))),
        bounded("owner", |t| t.body.owner = Some(leasehold_tests::queue::owner("me"))),
    ];
    queue.enqueue(&new).await;
    let runs = queue.claim(&hand, 9).await;
    let key = |name: &str| queue.redis::<String>(&["GET", &queue.key(&format!("lease:{name}"))]);
    for run in &runs {
        for round in 0..3 {
            assert_eq!(queue.beat(&hand, run).await, BeatAnswer::Ok, "{} {round}", run.id);
            let name = run.id.as_str();
            let word = if matches!(name, "plain" | "owner") { "" } else { " look" };
            assert_eq!(key(name), format!("{} {}{word}", run.run, hand.inc), "{round}");
        }
    }
    // A phase says so from its begin on, and the next beat finds that its time has passed.
    let plain = &runs[0];
    queue.phase(&hand, plain, 1, "short", Some(1)).await;
    assert!(key("plain").ends_with(" look"), "{}", key("plain"));
    let passes = queue.record("plain").await.phase.unwrap().since_ms + 1;
    while queue.store.now_ms().await.unwrap() < passes {}
    let told = queue.beat(&hand, plain).await;
    assert!(matches!(told, BeatAnswer::Stop { cause: StopCause::PhaseTimeout, .. }), "{told:?}");
    assert!(key("plain").ends_with(" stop"), "{}", key("plain"));
    queue.abort("stall").await;
    assert!(key("stall").ends_with(" stop"), "{}", key("stall"));
    queue.check().await;
}
