//! Phases: in the record while they last, in the history afterwards, each with its own bound.

use std::time::Duration;

use leasehold_producer::{FailureKind, Policy, TaskState};
use leasehold_tests::eventually_async;

use super::play::{Step, phase, player, task, task_with};
use crate::aborts::kit::{Kit, LIMIT, quick};

fn once() -> Policy {
    Policy { max_attempts: 1, stop_grace: Duration::from_millis(300), ..quick() }
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_the_phase_of_a_run_is_known_since_when_and_its_past_with_durations() {
    let kit = Kit::new().await;
    let hands = player(&kit, 1).await;
    let steps = [phase("staging", 60_000), Step::Work(150), phase("running", None), Step::Work(600_000)];
    let handle = task(&kit, "t", steps).await.unwrap();
    let id = handle.id().clone();
    let record = eventually_async("the second phase", LIMIT, async || {
        let record = kit.record(&id).await;
        match &record.phase {
            Some(now) if now.name.as_str() == "running" => Ok(record),
            _ => Err(format!("{record:?}")),
        }
    })
    .await;
    let now = record.phase.unwrap();
    assert_eq!((now.timeout_ms, now.ended_ms), (None, None));
    assert!(now.since_ms >= record.started_ms.unwrap() + 150);
    let detail = kit.detail(&id).await;
    let past: Vec<_> = detail.phases.iter().map(|p| (p.name.as_str(), p.attempt)).collect();
    assert_eq!(past, [("staging", 1)]);
    assert!(detail.phases[0].until_ms - detail.phases[0].since_ms >= 150);
    kit.abort(&id).await;
    let record = kit.reaches(&id, TaskState::Aborted).await;
    let last = record.phase.unwrap();
    assert_eq!(
        last.ended_ms, record.ended_ms,
        "the record of an abort names the phase and how long it was in it"
    );
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_23_the_first_bound_that_passes_wins_and_is_named() {
    let kit = Kit::new().await;
    let hands = player(&kit, 2).await;
    let steps = [phase("a", 10_000), Step::Work(100), phase("b", 700), Step::Work(60_000)];
    let policy = Policy { run_timeout: Some(Duration::from_secs(20)), ..once() };
    let overrun = task_with(&kit, "overrun", policy, steps.clone()).await.unwrap();
    let policy = Policy { run_timeout: Some(Duration::from_millis(500)), ..once() };
    let total = task_with(&kit, "total", policy, steps).await.unwrap();
    let record = kit.reaches(overrun.id(), TaskState::TimedOut).await;
    assert_eq!(record.failure_kind, Some(FailureKind::PhaseTimeout));
    let failure = kit.detail(overrun.id()).await.failures.remove(0);
    assert_eq!(failure.phase.unwrap().as_str(), "b");
    assert!((700..4000).contains(&failure.phase_ms.unwrap()), "{:?}", failure.phase_ms);
    let record = kit.reaches(total.id(), TaskState::TimedOut).await;
    assert_eq!(record.failure_kind, Some(FailureKind::RunTimeout));
    let failure = kit.detail(total.id()).await.failures.remove(0);
    assert_eq!(failure.phase.unwrap().as_str(), "b", "r64: the phase that was blocked is named");
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r64_a_phase_timeout_spends_an_attempt_and_the_next_one_may_succeed() {
    let kit = Kit::new().await;
    let hands = player(&kit, 1).await;
    // The second attempt never comes to the slow phase: the first left a checkpoint.
    let steps = [Step::Keep(1), phase("slow", 400), Step::FailFirst, Step::Work(60_000)];
    let policy = Policy { max_attempts: 3, ..once() };
    let handle = task_with(&kit, "t", policy, steps).await.unwrap();
    let record = kit.reaches(handle.id(), TaskState::TimedOut).await;
    assert_eq!((record.failures, record.attempt), (3, 3));
    let kinds: Vec<_> = kit.detail(handle.id()).await.failures.iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FailureKind::Error, FailureKind::PhaseTimeout, FailureKind::PhaseTimeout]);
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r97_a_phase_of_a_bad_name_or_timeout_is_refused_naming_the_field() {
    let kit = Kit::new().await;
    let hands = player(&kit, 1).await;
    for (id, step, said) in
        [("name", phase("a b", None), "invalid phase"), ("time", phase("a", 0), "phase timeout")]
    {
        let handle = task_with(&kit, id, once(), [step]).await.unwrap();
        let record = kit.reaches(handle.id(), TaskState::Failed).await;
        assert_eq!(record.phase, None);
        let failure = kit.detail(handle.id()).await.failures.remove(0);
        assert!(failure.message.contains(said), "{failure:?}");
    }
    hands.stop().await;
    kit.end([]).await;
}
