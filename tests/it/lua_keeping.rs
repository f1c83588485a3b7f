//! What is kept, and for how long: retention, logs, delays between attempts.

use leasehold_common::policy::Backoff;
use leasehold_common::record::{FailureDetail, FailureKind};
use leasehold_common::script;
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    AbortRequest, ClaimedTask, FinishAnswer, LogPiece, Outcome, OutputStream, QueueSettings, RetryAdvice,
    When,
};
use leasehold_tests::queue::{
    Hand, Queue, START, V, args, done, end, failed, fixed_with, id, ms, task, task_with,
};

const DAY: u64 = 24 * 3600 * 1000;

fn short(period: u64) -> QueueSettings {
    QueueSettings {
        retain_completed: ms(period),
        retain_failed: ms(period * 2),
        retain_timed_out: ms(period * 2),
        retain_aborted: ms(period * 3),
        ..QueueSettings::default()
    }
}

#[tokio::test]
async fn case_56_kept_to_the_end_of_its_period_and_gone_a_millisecond_later() {
    let queue = Queue::with(short(10_000)).await;
    let hand = Hand::new("w");
    queue.seed(&["c", "f", "a"]).await;
    let runs = queue.claim(&hand, 3).await;
    queue.finish(&hand, end(&runs[0], Outcome::Completed(vec![0; 5000]))).await;
    queue.finish(&hand, failed(&runs[1], RetryAdvice::Fatal)).await;
    queue.store.abort(&queue.name, &[AbortRequest::new(id("a"), "me", "why")]).await.unwrap();
    queue.finish(&hand, end(&runs[2], Outcome::Released)).await;
    for (name, period) in [("c", 10_000), ("f", 20_000), ("a", 30_000)] {
        for (after, kept) in [(period - 1, true), (period, true), (period + 1, false)] {
            queue.set_clock(START + after);
            queue.store.cleanup(&queue.name, 100).await.unwrap();
            assert_eq!(queue.state(name).await.is_some(), kept, "{name} after {after} ms");
        }
        let left: Vec<String> = queue.redis(&["KEYS", &queue.key(&format!("*:{name}"))]);
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(queue.total("gone"), 3);
    queue.check().await;
}

#[tokio::test]
async fn r53_live_tasks_of_great_age_and_tasks_with_a_wrong_index_are_never_cleaned() {
    let queue = Queue::with(short(1000)).await;
    let hand = Hand::new("w");
    queue.running(&hand, task("run")).await;
    queue.running(&hand, task("abo")).await;
    queue.store.abort(&queue.name, &[AbortRequest::new(id("abo"), "me", "why")]).await.unwrap();
    queue.seed(&["q"]).await;
    queue.enqueue(&[task_with("s", |t| t.when = When::After(ms(400 * DAY)))]).await;
    queue.advance(300 * DAY);
    let run = queue.claim(&hand, 1).await.remove(0);
    queue.finish(&hand, done(&run)).await;
    // The index claims that all of them ended long ago.
    for name in ["run", "abo", "q", "s"] {
        queue.redis::<()>(&["ZADD", &queue.key("done:completed"), "1", name]);
    }
    queue.seed(&["q2"]).await;
    let cleaned = queue.store.cleanup(&queue.name, 100).await.unwrap();
    assert_eq!((cleaned.deleted, cleaned.odd), (0, 4));
    let young = queue.redis::<f64>(&["ZSCORE", &queue.key("done:completed"), "q"]);
    assert_eq!(young, queue.now() as f64, "the time of its end is the record's");
    queue.check().await;
}

#[tokio::test]
async fn cleanup_takes_bounded_batches_until_nothing_is_old() {
    let queue = Queue::with(short(1000)).await;
    let hand = Hand::new("w");
    let names: Vec<String> = (0..45).map(|i| format!("t{i}")).collect();
    queue.enqueue(&names.iter().map(|n| task(n)).collect::<Vec<_>>()).await;
    let ends: Vec<_> = queue.claim(&hand, 45).await.iter().map(done).collect();
    queue.store.finish(&queue.name, &hand.inc, &ends).await.unwrap();
    queue.advance(1001);
    let mut sizes = Vec::new();
    loop {
        let cleaned = queue.store.cleanup(&queue.name, 20).await.unwrap();
        sizes.push(cleaned.deleted);
        if !cleaned.more {
            break;
        }
    }
    assert_eq!(sizes, [20, 20, 5]);
    queue.check().await;
}

#[tokio::test]
async fn r50_a_period_of_zero_discards_at_the_end_and_remembers_the_id_for_a_minute() {
    let queue = Queue::with(short(0)).await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, task_with("t", |t| t.body.payload = vec![1; 4000])).await;
    queue.finish(&hand, failed(&run, RetryAdvice::After(ms(0)))).await;
    let run = queue.claim(&hand, 1).await.remove(0);
    assert_eq!(queue.finish(&hand, done(&run)).await, FinishAnswer::Accepted(TaskState::Completed));
    // One that succeeds at once, with a body of its own, a lease, and a result of its own.
    let run = queue.running(&hand, task_with("u", |t| t.body.payload = vec![1; 4000])).await;
    queue.beat(&hand, &run).await;
    let large = end(&run, Outcome::Completed(vec![1; 4000]));
    assert_eq!(queue.finish(&hand, large).await, FinishAnswer::Accepted(TaskState::Completed));
    let run = queue.running(&hand, task_with("v", |t| t.body.payload = vec![1; 4000])).await;
    assert_eq!(queue.finish(&hand, done(&run)).await, FinishAnswer::Accepted(TaskState::Completed));
    for name in ["t", "u", "v"] {
        let left: Vec<String> = queue.redis(&["KEYS", &queue.key(&format!("*:{name}"))]);
        assert!(left.is_empty(), "{left:?}");
        assert!(queue.score("gone", name).is_some());
    }
    queue.seed(&["q"]).await;
    queue.store.abort(&queue.name, &[AbortRequest::new(id("q"), "me", "why")]).await.unwrap();
    assert_eq!(queue.state("q").await, None);
    assert_eq!((queue.total("gone"), queue.total("completed"), queue.total("aborted")), (4, 3, 1));
    queue.check().await;
}

#[tokio::test]
async fn r93_outputs_of_any_size_are_kept_with_their_task() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    for size in [0usize, 1, 1024, 1025, 1 << 20] {
        let name = format!("t{size}");
        let run = queue.running(&hand, task(&name)).await;
        let output: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        queue.finish(&hand, end(&run, Outcome::Completed(output.clone()))).await;
        let detail = queue.store.detail(&queue.name, &run.id).await.unwrap().unwrap();
        assert_eq!(detail.output, Some(output), "{size} bytes");
    }
    queue.check().await;
}

/// What is forgotten keeps up with what is discarded, at any rate.
#[tokio::test]
async fn the_ids_of_the_last_minute_are_forgotten_as_fast_as_they_come() {
    let queue = Queue::start().await;
    let lua = "for i = 1, 9000 do redis.call('ZADD', KEYS[1], ARGV[1], i) end";
    queue.redis::<()>(&["EVAL", lua, "1", &queue.key("gone"), &START.to_string()]);
    queue.advance(59_999);
    assert!(!queue.sweep().await.more);
    queue.advance(1);
    let mut sweeps = 1;
    while queue.sweep().await.more {
        sweeps += 1;
    }
    assert_eq!((sweeps, queue.redis::<u64>(&["ZCARD", &queue.key("gone")])), (3, 0));
    queue.check().await;
}

/// The delays of `attempts` failures under this backoff, ms.
async fn delays(queue: &Queue, name: &str, backoff: Backoff, attempts: u32) -> Vec<u64> {
    let hand = Hand::new(name);
    let new = task_with(name, |t| {
        t.body.policy.backoff = backoff;
        t.body.policy.max_attempts = 10_000;
    });
    let mut run = queue.running(&hand, new).await;
    let mut delays = Vec::new();
    for _ in 0..attempts {
        queue.finish(&hand, failed(&run, RetryAdvice::Policy)).await;
        let due = queue.record(name).await.due_ms.unwrap_or(queue.now());
        assert!(queue.score("scheduled", name).is_none_or(f64::is_finite));
        delays.push(due - queue.now());
        queue.set_clock(due);
        run = queue.claim(&hand, 1).await.remove(0);
        queue.set_clock(START + 1_000_000);
    }
    queue.finish(&hand, done(&run)).await;
    delays
}

#[tokio::test]
async fn case_25_delays_stay_between_zero_and_the_cap_at_every_extreme() {
    let queue = Queue::start().await;
    let most = 10 * 365 * DAY;
    let cases = [
        (1, 10, 2.0),
        (0, most, 1000.0),
        (most, most, 1000.0),
        (most, 0, 1.0),
        (1, most, 1.0),
        (1000, 300_000, 2.0),
    ];
    for (at, (base, cap, factor)) in cases.into_iter().enumerate() {
        let backoff = Backoff { base: ms(base), cap: ms(cap), factor };
        let got = delays(&queue, &format!("t{at}"), backoff, 60).await;
        let ceiling = if base == 0 { 0 } else { cap };
        assert!(got.iter().all(|d| *d <= ceiling), "{backoff:?}: {got:?}");
        let first = base.min(cap);
        assert!(got[0] <= first, "{backoff:?}: the first delay is {}", got[0]);
        if cap >= 300_000 && factor > 1.0 && base > 0 {
            let large = got.iter().filter(|d| **d > cap / 10).count();
            assert!(large > 30, "{backoff:?}: the delays grow and stay: {got:?}");
        }
    }
    queue.check().await;
}

/// Numbers that Rust refuses; a foreign client could send them.
#[tokio::test]
async fn case_25_policies_of_hostile_numbers_give_finite_delays_or_are_refused() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let extremes = [0.0, 1.0, 1e15, 9e15, 1e308, f64::NAN, f64::INFINITY, -1.0];
    let mut accepted = 0;
    for (at, (base, factor)) in
        extremes.iter().flat_map(|b| extremes.iter().map(move |f| (*b, *f))).enumerate()
    {
        let policy = rmp_serde::to_vec(&(9000.0, base, 9e15, factor, 1e15, 1.0, 9e15, 9e15)).unwrap();
        let name = format!("t{at}");
        let mut words = args(&[V, "short", &name, "normal"]);
        words.push(fixed_with(&policy, b"body"));
        if queue.try_script(&script::ENQUEUE, &words).unwrap().tag() == "badargs" {
            continue;
        }
        accepted += 1;
        for _ in 0..4 {
            let runs = queue.claim(&hand, 64).await;
            let Some(run) = runs.iter().find(|r| r.id.as_str() == name) else { break };
            queue.finish(&hand, failed(run, RetryAdvice::Policy)).await;
            let score = queue.score("scheduled", &name);
            assert!(score.is_none_or(f64::is_finite), "{base} {factor}: {score:?}");
        }
    }
    assert_eq!(accepted, 16, "finite numbers up to 9e15");
    queue.check().await;
}

#[tokio::test]
async fn case_25_tasks_that_fail_together_do_not_come_back_together() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let names: Vec<String> = (0..60).map(|i| format!("t{i}")).collect();
    queue.enqueue(&names.iter().map(|n| task(n)).collect::<Vec<_>>()).await;
    let ends: Vec<_> = queue.claim(&hand, 60).await.iter().map(|r| failed(r, RetryAdvice::Policy)).collect();
    queue.store.finish(&queue.name, &hand.inc, &ends).await.unwrap();
    let mut due = Vec::new();
    for name in &names {
        due.extend(queue.record(name).await.due_ms);
    }
    let quarter = |n: u64| due.iter().filter(|d| (**d - START) / 250 == n).count();
    assert!((0..4).all(|n| quarter(n) >= 5), "spread over the first second: {due:?}");
    due.sort_unstable();
    due.dedup();
    assert!(due.len() > 45, "{} different times", due.len());
    queue.check().await;
}

#[tokio::test]
async fn r92_an_unknown_name_waits_longer_each_time_and_is_rejected_after_five_minutes() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let mut run = queue.running(&hand, task("t")).await;
    let mut delays = Vec::new();
    while delays.len() < 100 {
        queue.finish(&hand, end(&run, Outcome::Unknown { name: "t".to_owned() })).await;
        let Some(due) = queue.record("t").await.due_ms else { break };
        delays.push(due - queue.now());
        queue.set_clock(due);
        run = queue.claim(&hand, 1).await.remove(0);
    }
    let record = queue.record("t").await;
    assert_eq!((record.state, record.failures), (TaskState::Failed, 0));
    assert_eq!(record.failure_kind, Some(FailureKind::Rejected));
    assert!(delays.is_sorted() && delays[0] == 1000 && delays.last() == Some(&30_000), "{delays:?}");
    assert!((START + 300_000..START + 330_000).contains(&queue.now()));
    queue.check().await;
}

async fn log(queue: &Queue, hand: &Hand, run: &ClaimedTask, offset: u64, text: Vec<u8>) {
    let (id, run) = (run.id.clone(), run.run.clone());
    let piece = LogPiece { id, run, offset, stream: OutputStream::Out, text };
    queue.store.append_log(&queue.name, &hand.inc, &[piece]).await.unwrap();
}

/// The first 64 KiB to their last byte, and the newest; what lies between shows as a gap of the offsets.
#[tokio::test]
async fn case_47_a_log_keeps_its_head_and_the_newest_under_the_cap() {
    const KIB: usize = 1024;
    for piece in [1000, 40 * KIB, 200 * KIB] {
        let queue = Queue::start().await;
        let hand = Hand::new("w");
        let run = queue.running(&hand, task("t")).await;
        let text: Vec<u8> = (0..3 * KIB * KIB).map(|i| (i / 256 % 251) as u8).collect();
        for (at, part) in text.chunks(piece).enumerate() {
            log(&queue, &hand, &run, (at * piece) as u64, part.to_vec()).await;
        }
        let kept = queue.store.log(&queue.name, &run.id, None, 10_000).await.unwrap();
        let mut bytes = 0;
        for part in &kept {
            let from = part.offset as usize;
            assert_eq!(part.text, text[from..from + part.text.len()], "{piece}: at {from}");
            bytes += part.text.len();
        }
        let head: usize = contiguous(&kept, 0);
        assert!((64 * KIB..64 * KIB + piece.max(KIB)).contains(&head), "{piece}: a head of {head}");
        let gap = kept.windows(2).filter(|w| w[0].offset as usize + w[0].text.len() < w[1].offset as usize);
        assert_eq!(gap.count(), 1, "{piece}: one gap");
        let last = kept.last().unwrap();
        assert_eq!(last.offset as usize + last.text.len(), text.len(), "{piece}: the newest");
        assert!(bytes <= KIB * KIB && bytes > KIB * KIB - piece - KIB, "{piece}: {bytes} bytes kept");
        queue.finish(&hand, done(&run)).await;
        queue.check().await;
    }
}

/// How many bytes are kept from `from` on without a gap.
fn contiguous(kept: &[leasehold_common::store::LogEntry], from: usize) -> usize {
    let mut end = from;
    for part in kept {
        if part.offset as usize != end {
            break;
        }
        end += part.text.len();
    }
    end - from
}

#[tokio::test]
async fn a_log_key_of_a_wrong_type_costs_the_log_and_not_the_run() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, task("t")).await;
    queue.redis::<()>(&["SET", &queue.key("log:t"), "wrong"]);
    let before = queue.digest();
    log(&queue, &hand, &run, 0, b"text".to_vec()).await;
    assert_eq!(queue.digest(), before);
    queue.finish(&hand, done(&run)).await;
    queue.redis::<()>(&["DEL", &queue.key("log:t")]);
    queue.check().await;
}

#[tokio::test]
async fn texts_are_cut_to_their_limits() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, task("t")).await;
    let long = "x".repeat(1 << 20);
    queue.script(&script::ABORT, &[V, "t", "r", "", &long, &long, ""]);
    let stop = queue.record("t").await.stop.unwrap();
    assert_eq!((stop.by.unwrap().len(), stop.reason.unwrap().len()), (256, 1024));
    let mut words = args(&[V, hand.inc.as_str(), "t", run.run.as_str(), "failed"]);
    let said = serde_json::json!({"k": "error", "m": long, "x": {"exit_code": 1, "text": long}});
    words.push(rmp_serde::to_vec(&said).unwrap());
    queue.try_script(&script::FINISH, &words).unwrap();
    let detail = queue.store.detail(&queue.name, &run.id).await.unwrap().unwrap();
    assert_eq!((detail.record.state, detail.failures[0].message.len()), (TaskState::Aborted, 4096));
    assert_eq!(detail.failures[0].detail, FailureDetail::default(), "a detail over its limit is left out");
    queue.check().await;
}

#[tokio::test]
async fn events_are_kept_up_to_their_number_of_transitions() {
    let queue = Queue::start().await;
    for name in ["a", "b", "c"] {
        queue.seed(&[name]).await;
    }
    assert_eq!(queue.redis::<u64>(&["XLEN", &queue.key("events")]), 3);
    queue.redis::<u64>(&["HSET", &queue.key("totals"), "transitions", "100002"]);
    queue.sweep().await;
    let left: Vec<(String, Vec<Vec<u8>>)> = queue.redis(&["XRANGE", &queue.key("events"), "-", "+"]);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].1[3], b"3", "the newest stays");
    queue.check().await;
}
