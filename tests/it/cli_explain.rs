//! What `task explain` and `task show` say, on a queue whose clock the test drives.

use std::time::Duration;

use leasehold_common::name::{BudgetName, PhaseName};
use leasehold_common::record::{FailureDetail, StopCause};
use leasehold_common::store::{ClaimedTask, LogPiece, Outcome, OutputStream, RetryAdvice, Teller};
use leasehold_tests::Leasehold;
use leasehold_tests::process::Finished;
use leasehold_tests::queue::{Hand, Queue, done, end, failed};
use serde_json::{Value, json};

async fn ground() -> Queue {
    let queue = Queue::start().await;
    queue.store.announce_queue(&queue.name).await.unwrap();
    queue
}

fn run(queue: &Queue, arguments: &[&str]) -> Finished {
    Leasehold::new(&queue.server).args(arguments).run()
}

fn enqueue(queue: &Queue, id: &str, flags: &[&str]) {
    let arguments = ["enqueue", "q", "t", "--id", id];
    Leasehold::new(&queue.server).args(arguments).args(flags).run().success();
}

fn show(queue: &Queue, id: &str) -> Value {
    run(queue, &["task", "show", id, "--queue", "q", "--json"]).success().json()
}

fn shown(queue: &Queue, id: &str) -> String {
    run(queue, &["task", "show", id, "--queue", "q"]).success().stdout
}

#[track_caller]
fn explained(queue: &Queue, id: &str, words: &[&str]) -> Value {
    let text = run(queue, &["task", "explain", id, "--queue", "q"]).success().stdout;
    assert_eq!(text.lines().count(), 1, "one paragraph: {text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    let told = run(queue, &["task", "explain", id, "--queue", "q", "--json"]).success().json();
    assert_eq!(told["text"], text.trim_end());
    told
}

fn teller<'a>(hand: &'a Hand, task: &'a ClaimedTask, number: u64) -> Teller<'a> {
    Teller { incarnation: &hand.inc, id: &task.id, run: &task.run, number }
}

#[tokio::test]
async fn r85_a_task_is_explained_in_every_state() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    enqueue(&queue, "later", &["--delay", "5m"]);
    let told = explained(&queue, "later", &["is scheduled since", "(in 5m) it is due"]);
    assert_eq!((&told["state"], &told["by"]), (&json!("scheduled"), &json!("2023-11-14T22:18:20.000Z")));
    let flags = ["--lane", "l", "--max-attempts", "1", "--run-timeout", "90s", "--stall-timeout", "30s"];
    enqueue(&queue, "first", &flags);
    enqueue(&queue, "second", &["--lane", "l"]);
    let words = [
        "at most 0 tasks before it",
        "until a worker of queue q claims it. No worker of queue q lives: start one",
        "It has its turn in lane \"l\"",
    ];
    explained(&queue, "first", &words);
    let first = queue.claim(&hand, 1).await.remove(0);
    let words = [
        "1 is ahead of it",
        "Task first is running there on worker w1",
        "until its stalled at",
        "(in 30s) and 30s of grace",
        "Once 1 of those ahead has ended",
        "No worker of queue q lives: start one",
    ];
    let told = explained(&queue, "second", &words);
    assert_eq!(told["by"], Value::Null, "no machine owes it a step of its own: {told}");
    explained(&queue, "first", &["Worker w1 runs it, attempt 1.", "its last attempt"]);
    run(&queue, &["task", "abort", "first", "--queue", "q", "--reason", "user left"]).success();
    let words = [
        "is aborting",
        "(user left)",
        "Termination requested; process still running.",
        "(in 50s) at the latest",
    ];
    explained(&queue, "first", &words);
    queue.finish(&hand, done(&first)).await;
    explained(&queue, "second", &["is queued", "It has its turn"]);
    let second = queue.claim(&hand, 1).await.remove(0);
    queue.finish(&hand, failed(&second, RetryAdvice::After(Duration::from_secs(60)))).await;
    explained(&queue, "second", &["Attempt 1 failed (error: it broke), failure 1 of at most 5"]);
    run(&queue, &["task", "abort", "second", "--queue", "q"]).success();
    explained(
        &queue,
        "second",
        &["It was aborted by cli", "A reaper removes it at", "after 3d of retention"],
    );
    run(&queue, &["task", "explain", "nope"]).expect_code(4);
    queue.check().await;
}

#[tokio::test]
async fn r01_r62_r63_r64_a_task_shows_its_phases_budgets_checkpoint_and_what_blocked_it() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    let flags =
        ["--budget", "calls=10", "--owner", "me", "--lane", "l", "--deadline", "1h", "--max-attempts", "1"];
    enqueue(&queue, "t", &flags);
    let task = queue.claim(&hand, 1).await.remove(0);
    let (plan, load) = (PhaseName::new("plan").unwrap(), PhaseName::new("download").unwrap());
    let store = &queue.store;
    store.enter_phase(&queue.name, &teller(&hand, &task, 1), &plan, None).await.unwrap();
    queue.advance(2000);
    let most = Some(Duration::from_secs(60));
    store.enter_phase(&queue.name, &teller(&hand, &task, 2), &load, most).await.unwrap();
    let calls = BudgetName::new("calls").unwrap();
    store.spend(&queue.name, &teller(&hand, &task, 1), &calls, &[3]).await.unwrap();
    store.set_checkpoint(&queue.name, &teller(&hand, &task, 1), b"\xa3abc").await.unwrap();
    queue.advance(1000);
    let told = show(&queue, "t");
    assert_eq!((&told["owner"], &told["lane"]), (&json!("me"), &json!("l")));
    assert_eq!((&told["phase"]["name"], &told["phase"]["timeout_ms"]), (&json!("download"), &json!(60_000)));
    assert_eq!(
        (&told["phases"][0]["name"], &told["phases"][0]["duration_ms"]),
        (&json!("plan"), &json!(2000))
    );
    assert_eq!(told["budgets"], json!({ "calls": { "most": 10, "spent": 3, "rest": 7 } }));
    assert_eq!((&told["checkpoint_bytes"], &told["notices"]), (&json!(4), &json!([])));
    assert_eq!(told["deadline_at"], "2023-11-14T23:13:20.000Z");
    assert_eq!(told["last_event_at"], "2023-11-14T22:13:22.000Z");
    let text = shown(&queue, "t");
    for words in [
        "download since 2023-11-14T22:13:22.000Z (1s ago), timeout 60 s, passing in 59s",
        "plan took 2 s, in attempt 1",
        "calls: 3 of 10 spent, 7 left",
        "4 bytes",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Its phase takes too long: the beat of the worker tells it so, and it stops.
    for _ in 0..12 {
        queue.advance(5000);
        queue.beat(&hand, &task).await;
    }
    explained(&queue, "t", &["asked to end (phase_timeout)", "It then ends timed_out, for that spends"]);
    let detail = FailureDetail::default();
    let message = "killed".to_owned();
    queue
        .finish(&hand, end(&task, Outcome::Stopped { cause: StopCause::PhaseTimeout, message, detail }))
        .await;
    let told = show(&queue, "t");
    assert_eq!(
        (&told["state"], &told["failure"]["kind"]),
        (&json!("timed_out"), &json!("phase_timeout")),
        "{told}"
    );
    assert_eq!(told["failure"]["phase"], "download");
    let words = "phase_timeout in phase download after 61 s";
    assert!(shown(&queue, "t").contains(words), "{}", shown(&queue, "t"));
    explained(&queue, "t", &[words, "task resume t"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("checkpoint");
    let flags = ["task", "checkpoint", "t", "--queue", "q", "-o", file.to_str().unwrap()];
    run(&queue, &flags).success();
    assert_eq!(std::fs::read(file).unwrap(), b"\xa3abc");
    let json = run(&queue, &["task", "checkpoint", "t", "--queue", "q", "--json"]).success().json();
    assert_eq!((&json["bytes"], &json["checkpoint"]), (&json!(4), &json!("abc")));
    queue.check().await;
}

#[tokio::test]
async fn r24_a_silence_is_told_with_its_length_and_is_over_with_the_next_output() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    enqueue(&queue, "t", &["--silence-notice", "120s"]);
    let task = queue.claim(&hand, 1).await.remove(0);
    queue.advance(119_000);
    queue.beat(&hand, &task).await;
    assert_eq!(show(&queue, "t")["notices"], json!([]));
    queue.advance(1000);
    queue.beat(&hand, &task).await;
    let told = show(&queue, "t");
    assert_eq!(told["notices"], json!(["No output for 120s."]));
    assert_eq!((&told["silence_notice_ms"], &told["silent_since"]), (&json!(120_000), &told["started_at"]));
    assert!(shown(&queue, "t").contains("No output for 120s."));
    explained(&queue, "t", &["No output for 120s."]);
    queue.advance(5000);
    assert_eq!(show(&queue, "t")["notices"], json!(["No output for 125s."]));
    let piece = LogPiece {
        id: task.id.clone(),
        run: task.run.clone(),
        offset: 0,
        stream: OutputStream::Out,
        text: b"hi".to_vec(),
    };
    queue.store.append_log(&queue.name, &hand.inc, &[piece]).await.unwrap();
    let told = show(&queue, "t");
    assert_eq!((&told["notices"], &told["silent_since"]), (&json!([]), &Value::Null));
    assert_eq!(told["last_event_at"], "2023-11-14T22:15:25.000Z");
    queue.finish(&hand, done(&task)).await;
    queue.check().await;
}

#[tokio::test]
async fn r26_r27_a_killed_run_stays_visible_and_a_person_may_give_it_up_on_record() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    enqueue(&queue, "t", &["--lane", "l"]);
    enqueue(&queue, "next", &["--lane", "l"]);
    let task = queue.claim(&hand, 1).await.remove(0);
    run(&queue, &["task", "abort", "t", "--queue", "q", "--grace", "1s"]).success();
    assert_eq!(show(&queue, "t")["notices"], json!(["Termination requested; process still running."]));
    assert!(shown(&queue, "t").contains("Termination requested; process still running."));
    run(&queue, &["task", "delete", "t", "--queue", "q"]).expect_code(1);
    queue.advance(6000);
    queue.store.tell_unkillable(&queue.name, &teller(&hand, &task, 0), "41 42").await.unwrap();
    let told = show(&queue, "t");
    assert_eq!((&told["state"], &told["unkillable"]), (&json!("aborting"), &json!("41 42")));
    let words = "The system does not end its processes 41 42";
    assert!(shown(&queue, "t").contains(words), "{}", shown(&queue, "t"));
    explained(&queue, "t", &[words, "`leasehold task abort t --abandon`"]);
    explained(&queue, "next", &["whose processes the system does not end"]);
    let given_up = run(&queue, &["task", "abort", "t", "--queue", "q", "--abandon", "--reason", "dead disk"]);
    assert_eq!(given_up.success().line(), "failed");
    let told = show(&queue, "t");
    assert_eq!((&told["failure"]["kind"], &told["notices"]), (&json!("abandoned"), &json!([])));
    assert_eq!(show(&queue, "next")["state"], "queued", "its lane goes on");
    queue.check().await;
}

#[tokio::test]
async fn r12_resume_goes_on_from_a_checkpoint_and_fresh_drops_it() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    enqueue(&queue, "t", &["--max-attempts", "1"]);
    let claim = async || queue.claim(&hand, 1).await.remove(0);
    let task = claim().await;
    queue.finish(&hand, failed(&task, RetryAdvice::Policy)).await;
    let refused = run(&queue, &["task", "resume", "t", "--queue", "q"]).expect_code(1);
    for words in ["no run of it left a checkpoint: nothing was changed", "leasehold task retry t"] {
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
    }
    run(&queue, &["task", "checkpoint", "t", "--queue", "q"]).expect_code(4);
    assert_eq!(run(&queue, &["task", "retry", "t", "--queue", "q"]).success().line(), "queued");
    let task = claim().await;
    queue.store.set_checkpoint(&queue.name, &teller(&hand, &task, 1), b"\x01").await.unwrap();
    queue.finish(&hand, failed(&task, RetryAdvice::Policy)).await;
    assert_eq!(run(&queue, &["task", "resume", "t", "--queue", "q"]).success().line(), "queued");
    let told = show(&queue, "t");
    assert_eq!(
        (&told["checkpoint_bytes"], &told["attempt"], &told["failures"]),
        (&json!(1), &json!(2), &json!(0))
    );
    assert_eq!(told["history"].as_array().unwrap().len(), 2, "history is kept: {told}");
    let task = claim().await;
    queue.finish(&hand, failed(&task, RetryAdvice::Policy)).await;
    run(&queue, &["task", "retry", "t", "--queue", "q", "--fresh"]).success();
    assert_eq!(show(&queue, "t")["checkpoint_bytes"], Value::Null);
    queue.check().await;
}

#[tokio::test]
async fn r84_a_reconciled_task_says_when_by_whom_and_by_what_proof() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    enqueue(&queue, "t", &["--on-lease-expired", "fail"]);
    queue.claim(&hand, 1).await;
    queue.sweep_for(25_000).await;
    let told = show(&queue, "t");
    assert_eq!((&told["state"], &told["reconciled_by"]), (&json!("failed"), &json!("sweep")));
    assert!(told["reconciled_at"].is_string() && told["reconciled_reason"].is_string(), "{told}");
    assert!(shown(&queue, "t").contains("by sweep: "), "{}", shown(&queue, "t"));
    explained(&queue, "t", &["The end of a run was decided for it by sweep at", "lease_expired"]);
    queue.check().await;
}
