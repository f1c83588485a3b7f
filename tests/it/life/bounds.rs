//! Bounds of time, through workers: whichever passes first ends the run, and no bound means none.

use std::time::Duration;

use leasehold_producer::{FailureKind, Policy, StopCause, TaskState};
use leasehold_tests::eventually_async;

use super::play::{Step, player, task_with};
use crate::aborts::kit::{GRACE, Kit, LEASE, LIMIT, RECLAIM, quick};

fn once() -> Policy {
    Policy { max_attempts: 1, stop_grace: Duration::from_millis(300), ..quick() }
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[tokio::test(flavor = "multi_thread")]
async fn r24_a_run_that_says_nothing_is_stalled_and_one_that_says_something_is_not() {
    let kit = Kit::new().await;
    let hands = player(&kit, 2).await;
    let silent =
        task_with(&kit, "silent", once(), [Step::Work(60_000)]).stall_timeout(ms(700)).await.unwrap();
    let loud = task_with(&kit, "loud", once(), [Step::Tell(200, 10)]).stall_timeout(ms(700)).await.unwrap();
    let record = kit.reaches(silent.id(), TaskState::TimedOut).await;
    assert_eq!(record.failure_kind, Some(FailureKind::Stalled));
    let record = kit.reaches(loud.id(), TaskState::Completed).await;
    assert!(record.last_event_ms > record.started_ms, "r23: what it says keeps it fresh: {record:?}");
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_24_bytes_of_either_stream_count_and_a_notice_comes_once_a_silence() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 1).await;
    // A byte a second without newline on stderr, then silence, then a word.
    let script = "for i in 1 2 3 4; do printf . >&2; sleep 0.4; done; sleep 2.5; echo again; sleep 60";
    let id = kit.exec(&["--silence-notice", "1s", "--stop-grace", "300ms"], script);
    let silent = eventually_async("the silence is told of", LIMIT, async || {
        let record = kit.record(&id).await;
        record.silent_since_ms.ok_or_else(|| format!("{record:?}"))
    })
    .await;
    let begun = kit.record(&id).await.started_ms.unwrap();
    assert!(silent >= begun + 1100, "bytes on stderr counted: {silent} against {begun}");
    eventually_async("its end, too", LIMIT, async || {
        let record = kit.record(&id).await;
        if record.silent_since_ms.is_none() { Ok(()) } else { Err(format!("{record:?}")) }
    })
    .await;
    assert_eq!(kit.record(&id).await.state, TaskState::Running, "a notice ends nothing");
    kit.abort(&id).await;
    kit.reaches(&id, TaskState::Aborted).await;
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r09_a_deadline_ends_the_task_wherever_it_is_retries_included() {
    let kit = Kit::new().await;
    let reaper = kit.reaper();
    let hands = player(&kit, 2).await;
    let running = task_with(&kit, "running", once(), [Step::Work(60_000)]).deadline(ms(1500)).await.unwrap();
    let mut slow = quick();
    slow.backoff.base = Duration::from_secs(600);
    slow.backoff.cap = slow.backoff.base;
    let between = task_with(&kit, "between", slow, [Step::Fail]).deadline(ms(1500)).await.unwrap();
    let later = task_with(&kit, "later", once(), []).delay(Duration::from_secs(600)).deadline(ms(1500));
    let later = later.await.unwrap();
    for handle in [running, between, later] {
        let record = kit.reaches(handle.id(), TaskState::TimedOut).await;
        assert_eq!(record.failure_kind, Some(FailureKind::Deadline), "{record:?}");
        let lasted = record.ended_ms.unwrap() - record.enqueued_ms;
        assert!((1500..9000).contains(&lasted), "{}: {lasted} ms", record.id);
        assert!(record.failures <= 1, "it is final");
    }
    hands.stop().await;
    kit.end([reaper]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_22_a_bound_passes_by_itself_when_the_worker_is_frozen_or_dead() {
    let kit = Kit::new().await;
    let reaper = kit.reaper();
    let frozen = kit.worker_with("frozen", 1, &["--allow-exec"]).await;
    let id = kit.exec(&["--deadline", "4s", "--stop-grace", "300ms"], "sleep 60");
    kit.reaches(&id, TaskState::Running).await;
    frozen.stop();
    let record =
        kit.reaches_within(&id, TaskState::TimedOut, Duration::from_secs(4) + GRACE + RECLAIM + LEASE).await;
    assert_eq!(record.failure_kind, Some(FailureKind::Deadline));
    frozen.cont();
    kit.end([frozen, reaper]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_04_no_bound_means_none() {
    let kit = Kit::new().await;
    let reaper = kit.reaper();
    let hands = player(&kit, 1).await;
    let policy = Policy { run_timeout: None, ..once() };
    let handle = task_with(&kit, "t", policy, [Step::Work(5 * 2000)]).await.unwrap();
    let record = kit.reaches(handle.id(), TaskState::Completed).await;
    assert_eq!(
        (record.attempt, record.stop, record.reclaims),
        (1, None, 0),
        "five leases long, and nothing stopped it"
    );
    hands.stop().await;
    kit.end([reaper]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r61_blocked_handler() {
    use leasehold_worker::{Context, Task, TaskError};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Blocks {
        secret: String,
    }
    impl Task for Blocks {
        const NAME: &'static str = "blocks";
        type Output = ();
    }

    let kit = Kit::new().await;
    let reaper = kit.reaper();
    let (wait, hold) = std::sync::mpsc::channel::<()>();
    let hold = std::sync::Arc::new(std::sync::Mutex::new(hold));
    let hands = kit
        .hands(1, |worker| {
            worker.handle(move |context: Context, _: Blocks| {
                let hold = hold.clone();
                async move {
                    context.phase("model call", None).await.ok();
                    context.phase("model-call", None).await?;
                    // Blocks its thread until the test lets it go.
                    hold.lock().unwrap().recv().ok();
                    Ok::<(), TaskError>(())
                }
            })
        })
        .await;
    let secret = "hunter2-the-payload".to_owned();
    let handle = kit.producer.enqueue(Blocks { secret: secret.clone() }).queue("default");
    let handle = handle.max_attempts(1).run_timeout(ms(1000)).stop_grace(ms(300)).await.unwrap();
    let record = kit.reaches(handle.id(), TaskState::TimedOut).await;
    assert_eq!(record.failure_kind, Some(FailureKind::RunTimeout));
    let detail = kit.detail(handle.id()).await;
    let failure = &detail.failures[0];
    assert_eq!(failure.phase.as_ref().unwrap().as_str(), "model-call", "r64: the blocked phase is named");
    assert!(failure.phase_ms.unwrap() >= 900, "and how long: {failure:?}");
    assert!(!format!("{failure:?}").contains(&secret));
    assert_eq!(record.stop.unwrap().cause, StopCause::RunTimeout);
    wait.send(()).unwrap();
    hands.stop().await;
    kit.end([reaper]).await;
}
