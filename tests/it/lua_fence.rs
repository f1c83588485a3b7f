//! The fence: a run that no longer owns its task changes nothing, whatever it sends and however late.

use leasehold_common::name::{Incarnation, RunId};
use leasehold_common::record::{FailureDetail, StopCause};
use leasehold_common::script;
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    Beat, BeatAnswer, ClaimedTask, Finish, FinishAnswer, LogPiece, Outcome, OutputStream, Progress,
    QueueSettings, RetryAdvice, UpdateAnswer,
};
use leasehold_tests::queue::{Hand, Queue, T, V, done, end, id, ms, task, task_with};

/// All outcomes that a run can send.
fn outcomes() -> Vec<Outcome> {
    let detail = FailureDetail::default();
    vec![
        Outcome::Completed(vec![1]),
        failed_outcome(RetryAdvice::Policy),
        failed_outcome(RetryAdvice::Fatal),
        Outcome::Stopped { cause: StopCause::RunTimeout, message: "late".to_owned(), detail },
        Outcome::Snoozed(ms(1)),
        Outcome::Released,
        Outcome::Unknown { name: "x".to_owned() },
    ]
}

fn failed_outcome(retry: RetryAdvice) -> Outcome {
    let kind = leasehold_common::record::FailureKind::Error;
    Outcome::Failed { kind, message: "late".to_owned(), retry, detail: FailureDetail::default() }
}

/// Sends everything that a run can send under this fence; the database must stay as it is.
async fn changes_nothing(
    queue: &Queue,
    inc: &Incarnation,
    name: &str,
    run: &RunId,
    finish: FinishAnswer,
    beat: BeatAnswer,
    update: UpdateAnswer,
) {
    let before = queue.digest();
    let case = format!("{name} {run} {inc}");
    for outcome in outcomes() {
        let late = Finish { id: id(name), run: run.clone(), outcome, before_stop: false };
        let got = queue.store.finish(&queue.name, inc, &[late]).await.unwrap();
        assert_eq!(got, [finish], "finish by {case}");
    }
    let beats = [Beat { id: id(name), run: run.clone(), stopping: false }];
    let got = queue.store.heartbeat(&queue.name, inc, &beats).await.unwrap().answers;
    assert_eq!(got, [beat], "heartbeat by {case}");
    let progress =
        Progress { id: id(name), run: run.clone(), number: 99, share: Some(1.0), message: "late".to_owned() };
    assert_eq!(queue.store.progress(&queue.name, inc, &[progress]).await.unwrap(), [update], "{case}");
    let piece = LogPiece {
        id: id(name),
        run: run.clone(),
        offset: 1 << 20,
        stream: OutputStream::Out,
        text: b"late".to_vec(),
    };
    assert_eq!(queue.store.append_log(&queue.name, inc, &[piece]).await.unwrap(), [update], "{case}");
    let tag = match update {
        UpdateAnswer::Ok => "ok",
        UpdateAnswer::Gone => "gone",
        UpdateAnswer::Lost => "lost",
        UpdateAnswer::Corrupt => "corrupt",
    };
    for (kind, value, text) in [
        ("phase", "5", "late"),
        ("spend", "1", "calls"),
        ("checkpoint", "", "late"),
        ("unkillable", "", "17"),
    ] {
        let words = [V, inc.as_str(), kind, name, run.as_str(), "99", value, text];
        assert_eq!(queue.script(&script::UPDATE, &words).items(), [tag], "{kind}: {case}");
    }
    assert_eq!(queue.digest(), before, "{case} changed something");
}

async fn is_lost(queue: &Queue, inc: &Incarnation, name: &str, run: &RunId) {
    changes_nothing(queue, inc, name, run, FinishAnswer::Lost, BeatAnswer::Lost, UpdateAnswer::Lost).await;
}

#[tokio::test]
async fn r67_a_stale_run_or_incarnation_changes_nothing_and_is_told_lost() {
    let queue = Queue::start().await;
    let (a, b) = (Hand::new("a"), Hand::new("b"));
    let run = queue.running(&a, task("t")).await;
    let other = RunId::new("normal:1-1").unwrap();
    is_lost(&queue, &a.inc, "t", &other).await;
    is_lost(&queue, &b.inc, "t", &run.run).await;
    is_lost(&queue, &a.inc, "never-there", &run.run).await;
    queue.finish(&a, done(&run)).await;
    is_lost(&queue, &b.inc, "t", &run.run).await;
    queue.check().await;
}

#[tokio::test]
async fn r67_a_run_that_ended_gets_its_answer_again_and_changes_nothing() {
    let queue = Queue::start().await;
    let (a, b) = (Hand::new("a"), Hand::new("b"));
    for (name, outcome, state) in [
        ("c", Outcome::Completed(vec![2; 2000]), TaskState::Completed),
        ("f", failed_outcome(RetryAdvice::Fatal), TaskState::Failed),
        ("s", Outcome::Snoozed(ms(5000)), TaskState::Scheduled),
        ("r", Outcome::Released, TaskState::Queued),
    ] {
        let run = queue.running(&a, task(name)).await;
        assert_eq!(queue.finish(&a, end(&run, outcome)).await, FinishAnswer::Accepted(state));
        let again = (FinishAnswer::Repeated(state), BeatAnswer::Ended(state));
        changes_nothing(&queue, &a.inc, name, &run.run, again.0, again.1, UpdateAnswer::Lost).await;
    }
    // Claimed again by another worker: the run that ended last still gets its answer, until the next one ends.
    let old = queue.record("r").await.run.unwrap();
    let run = queue.claim(&b, 1).await.remove(0);
    let (repeat, ended) = (FinishAnswer::Repeated(TaskState::Queued), BeatAnswer::Ended(TaskState::Queued));
    changes_nothing(&queue, &a.inc, "r", &old, repeat, ended, UpdateAnswer::Lost).await;
    queue.finish(&b, done(&run)).await;
    is_lost(&queue, &a.inc, "r", &old).await;
    queue.check().await;
}

#[tokio::test]
async fn finish_repeated_after_a_manual_retry_is_answered_and_the_retry_stands() {
    let queue = Queue::start().await;
    let a = Hand::new("a");
    let run = queue.running(&a, task("t")).await;
    queue.finish(&a, done(&run)).await;
    let rev = queue.record("t").await.rev;
    queue.store.retry(&queue.name, &[(id("t"), rev)]).await.unwrap();
    let (repeat, ended) =
        (FinishAnswer::Repeated(TaskState::Completed), BeatAnswer::Ended(TaskState::Completed));
    changes_nothing(&queue, &a.inc, "t", &run.run, repeat, ended, UpdateAnswer::Lost).await;
    assert_eq!(queue.state("t").await, Some(TaskState::Queued));
    queue.check().await;
}

#[tokio::test]
async fn finish_repeated_after_a_discard_is_answered_gone_for_a_minute() {
    let settings = QueueSettings { retain_completed: ms(0), ..QueueSettings::default() };
    let queue = Queue::with(settings).await;
    let a = Hand::new("a");
    let run = queue.running(&a, task("t")).await;
    queue.finish(&a, done(&run)).await;
    queue.sweep_for(59_000).await;
    let gone = (FinishAnswer::Gone, BeatAnswer::Gone, UpdateAnswer::Gone);
    changes_nothing(&queue, &a.inc, "t", &run.run, gone.0, gone.1, gone.2).await;
    // After the minute also when nobody sweeps.
    queue.advance(1000);
    is_lost(&queue, &a.inc, "t", &run.run).await;
    queue.sweep().await;
    assert_eq!(queue.score("gone", "t"), None, "forgotten");
    queue.check().await;
}

/// Runs that the reaper took away: the owner, back from its freeze, is told `lost`, not that it had finished.
#[tokio::test]
async fn case_03_a_reclaimed_run_that_comes_back_is_told_lost() {
    let queue = Queue::start().await;
    let (a, b) = (Hand::new("a"), Hand::new("b"));
    let stale = queue.running(&a, task("t")).await;
    queue.sweep_for(T + 7000).await;
    assert_eq!(queue.state("t").await, Some(TaskState::Queued), "reclaimed");
    is_lost(&queue, &a.inc, "t", &stale.run).await;
    let run = queue.claim(&b, 1).await.remove(0);
    is_lost(&queue, &a.inc, "t", &stale.run).await;
    queue.finish(&b, end(&run, Outcome::Completed(b"B".to_vec()))).await;
    is_lost(&queue, &a.inc, "t", &stale.run).await;
    let detail = queue.store.detail(&queue.name, &id("t")).await.unwrap().unwrap();
    assert_eq!((detail.record.attempt, detail.output), (2, Some(b"B".to_vec())));
    queue.check().await;
}

#[tokio::test]
async fn case_20_a_run_that_was_ended_past_its_hard_end_is_told_lost() {
    let queue = Queue::start().await;
    let a = Hand::new("a");
    let run = queue.running(&a, task_with("t", |t| t.body.policy.run_timeout = Some(ms(1000)))).await;
    // It beats happily but never ends: 1 s + grace 30 s + T + B, and a sweep.
    for _ in 0..54 {
        queue.sweep_for(1000).await;
        queue.beat(&a, &run).await;
    }
    let record = queue.record("t").await;
    assert_eq!((record.state, record.failures), (TaskState::Queued, 1), "a failure, with attempts left");
    is_lost(&queue, &a.inc, "t", &run.run).await;
    queue.check().await;
}

#[tokio::test]
async fn every_script_called_by_a_run_looks_at_the_fence_of_each_item() {
    let queue = Queue::start().await;
    let (a, b) = (Hand::new("a"), Hand::new("b"));
    queue.seed(&["1", "2", "3"]).await;
    let runs: Vec<ClaimedTask> = queue.claim(&a, 3).await;
    queue.finish(&a, done(&runs[1])).await;
    let stranger = queue.running(&b, task("4")).await;
    let all = [&runs[0], &stranger, &runs[1], &runs[2]];
    let mut words = vec![V, a.inc.as_str()];
    words.extend(all.iter().flat_map(|r| [r.id.as_str(), r.run.as_str()]));
    assert_eq!(queue.script(&script::HEARTBEAT, &words).items(), ["ok", "lost", "ended", "ok"]);
    let mut words = vec![V, a.inc.as_str(), "progress"];
    words.extend(all.iter().flat_map(|r| [r.id.as_str(), r.run.as_str(), "1", "0.5", "half"]));
    assert_eq!(queue.script(&script::UPDATE, &words).items(), ["ok", "lost", "lost", "ok"]);
    let mut words = vec![V, a.inc.as_str()];
    words.extend(all.iter().flat_map(|r| [r.id.as_str(), r.run.as_str(), "completed", "out"]));
    assert_eq!(queue.script(&script::FINISH, &words).items(), ["ok", "lost", "repeat", "ok"]);
    queue.check().await;
}
