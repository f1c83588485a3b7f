//! The record as the scripts write it: what it carries on, what of it is answered, and that the short way of plain tasks
//! gives what the long way gives.

use std::collections::BTreeMap;

use leasehold_common::policy::Priority;
use leasehold_common::script;
use leasehold_common::store::{AbortRequest, NewTask, Outcome, RetryAdvice, When};
use leasehold_tests::queue::{
    FORMAT_BYTE, Hand, Queue, START, T, V, done, end, failed, fixed, id, ms, task, task_with,
};
use redis::Value;

/// A field that this release does not know: text, a list and a map.
const NEW: &str = "x.zz = { 'new', 7, { deep = 'er' } }; x.zy = 'bytes \\0\\255'";
const KEPT: &str = "return { x.zz and x.zz[1] or '', x.zz and x.zz[3].deep or '', x.zy or '' }";

fn is_kept(queue: &Queue, name: &str, when: &str) {
    let kept: Vec<Vec<u8>> = queue.of_record(name, KEPT);
    assert_eq!(kept, [&b"new"[..], b"er", b"bytes \0\xff"], "{name} {when}");
}

#[tokio::test]
async fn fields_of_a_newer_release_go_on_through_all_that_becomes_of_a_task() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    queue.seed(&["t"]).await;
    queue.enqueue(&[task_with("s", |t| t.when = When::After(ms(1000)))]).await;
    for name in ["t", "s"] {
        queue.edit_record(name, NEW);
    }
    let run = queue.claim(&hand, 1).await.remove(0);
    is_kept(&queue, "t", "claimed");
    queue.edit_record("t", "x.ml = 5");
    queue.beat(&hand, &run).await;
    assert!(!queue.record("t").await.suspected, "the beat has written it");
    is_kept(&queue, "t", "beaten");
    queue.finish(&hand, failed(&run, RetryAdvice::After(ms(0)))).await;
    is_kept(&queue, "t", "failed");
    let run = queue.claim(&hand, 1).await.remove(0);
    queue.finish(&hand, done(&run)).await;
    is_kept(&queue, "t", "completed");
    let rev = queue.record("t").await.rev;
    queue.store.retry(&queue.name, &[(id("t"), rev)]).await.unwrap();
    is_kept(&queue, "t", "retried");
    queue.claim(&hand, 1).await;
    queue.sweep_for(1000).await;
    is_kept(&queue, "s", "promoted");
    queue.sweep_for(T + 6000).await;
    assert_eq!(queue.record("t").await.reclaims, 1);
    is_kept(&queue, "t", "reclaimed");
    queue.store.abort(&queue.name, &["t", "s"].map(|n| AbortRequest::new(id(n), "me", "why"))).await.unwrap();
    for name in ["t", "s"] {
        is_kept(&queue, name, "aborted");
    }
    queue.check().await;
}

/// The tasks of a claim's answer, byte by byte: id, record, and the body if it lies apart.
fn claimed(queue: &Queue, words: &[&str]) -> BTreeMap<String, (Vec<u8>, Option<Vec<u8>>)> {
    let mut command = redis::cmd("EVAL");
    command.arg(script::CLAIM.source()).arg(2).arg(queue.key("config")).arg(queue.key("never")).arg(words);
    let values: Vec<Value> = command.query(&mut queue.server.connection()).unwrap();
    let mut tasks = BTreeMap::new();
    let mut rest = &values[4..];
    while let [Value::BulkString(id), Value::BulkString(record), after @ ..] = rest {
        let (apart, after) = match after {
            [Value::Array(body), after @ ..] => match &body[..] {
                [Value::BulkString(body)] => (Some(body.clone()), after),
                other => panic!("{other:?} for a body"),
            },
            after => (None, after),
        };
        tasks.insert(String::from_utf8_lossy(id).into_owned(), (record.clone(), apart));
        rest = after;
    }
    assert!(rest.is_empty(), "{rest:?}");
    tasks
}

#[tokio::test]
async fn a_claim_answers_the_records_as_they_lie_and_a_repeat_answers_them_again() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let back = queue.running(&hand, task("back")).await;
    queue.finish(&hand, failed(&back, RetryAdvice::After(ms(0)))).await;
    queue.enqueue(&[task_with("big", |t| t.body.payload = vec![1; 5000]), task("plain")]).await;
    queue.enqueue(&[task_with("due", |t| t.when = When::After(ms(5)))]).await;
    queue.enqueue(&[task_with("own", |t| t.body.policy.max_attempts = 2)]).await;
    queue.edit_record("plain", "x.zz = 'new'");
    queue.redis::<()>(&["XADD", &queue.key("ready:normal"), "*", "i", "nobody"]);
    queue.advance(5);
    let words = [V, hand.inc.as_str(), "w", "2", "9", "1048576", "open", "0"];
    for round in ["first", "again", "with a stop"] {
        let tasks = claimed(&queue, &words);
        assert_eq!(tasks.keys().collect::<Vec<_>>(), ["back", "big", "due", "own", "plain"], "{round}");
        for (name, (mut told_record, told_apart)) in tasks {
            let mut record = queue.raw_record(&name);
            if round != "first" {
                // Packed anew: the map of rare fields may be in another order.
                told_record.sort_unstable();
                record.sort_unstable();
            }
            assert_eq!(told_record, record, "{round}: {name}");
            let apart: Option<Vec<u8>> = queue.redis(&["GET", &queue.key(&format!("body:{name}"))]);
            assert_eq!(told_apart, apart, "{round}: {name}");
        }
        if round == "again" {
            let request = AbortRequest::new(id("plain"), "me", "why");
            queue.store.abort(&queue.name, &[request]).await.unwrap();
        }
    }
    queue.check().await;
}

/// All of a record but what tells two tasks apart: its entry or run, and its token.
const COMPARED: &str = "
    local s, le = x.sp or {}, x.le or {}
    return cmsgpack.pack({ r.st, r.rev, r.at, r.lv, r.n, r.f, r.c, r.bg, r.inc, r.w, r.en, r.fixed, o, le[2] or 0,
      le[3] or 0, x.fk or 0, s.c or 0, s.at or 0, s.he or 0, x.ml or 0, string.match(r.run, '^%a*') })
";

/// Of two equal tasks, one plain and one that is sent the long way by a field that means nothing.
#[tokio::test]
async fn the_short_way_of_plain_tasks_gives_what_the_long_way_gives() {
    let queue = Queue::start().await;
    let hand = Hand::new("worker-of-both");
    let detour = "x.zz = 1";
    let equal = |when: &str| {
        let [plain, long] = ["plain", "long"].map(|name| queue.of_record::<Vec<u8>>(name, COMPARED));
        assert_eq!(plain, long, "{when}");
        assert_eq!(queue.of_record::<Option<u64>>("plain", "return x.zz"), None, "{when}");
        assert_eq!(queue.of_record::<Option<u64>>("long", "return x.zz"), Some(1), "{when}");
    };
    for priority in Priority::ALL {
        for outcome in ["completed", "large", "empty", "failed", "released", "aborted"] {
            queue.reset().await;
            let both: [NewTask; 2] =
                ["plain", "long"].map(|name| task_with(name, |t| t.body.priority = priority));
            queue.enqueue(&both).await;
            queue.edit_record("long", detour);
            equal("enqueued");
            queue.advance(3);
            let request = hand.next(2);
            let runs = queue.claimed(&request).await.tasks;
            equal("claimed");
            assert_eq!(runs[1].token, runs[0].token + 1);
            assert_eq!((runs[0].attempt, &runs[0].body), (runs[1].attempt, &runs[1].body));
            queue.advance(4);
            if outcome == "aborted" {
                let abort = |name| AbortRequest::new(id(name), "me", "why");
                queue.store.abort(&queue.name, &[abort("plain"), abort("long")]).await.unwrap();
                equal("aborted");
            }
            let ends = runs.iter().map(|run| match outcome {
                "completed" | "aborted" => done(run),
                "large" => end(run, Outcome::Completed(vec![3; 5000])),
                "empty" => end(run, Outcome::Completed(Vec::new())),
                "failed" => failed(run, RetryAdvice::Fatal),
                _ => end(run, Outcome::Released),
            });
            let answers =
                queue.store.finish(&queue.name, &hand.inc, &ends.collect::<Vec<_>>()).await.unwrap();
            assert_eq!(answers[0], answers[1]);
            equal(outcome);
            let moves = ["plain", "long"].map(|name| queue.moves(name));
            assert_eq!(moves[0], moves[1], "{outcome}");
            queue.check().await;
        }
    }
}

/// The layout itself, byte by byte: what other releases must be able to read.
#[tokio::test]
async fn a_fresh_record_has_the_bytes_that_the_layout_says() {
    let queue = Queue::start().await;
    queue.script(
        &script::ENQUEUE,
        &[V, "full", "t", "high", &fixed("body"), "", "", "s", "low", &fixed("body"), "+5", ""],
    );
    let run = queue.of_record::<String>("t", "return r.run");
    let be = |n: u64, width: usize| n.to_be_bytes()[8 - width..].to_vec();
    let expected = |state: u8, level: u8, at: u64, run: &str| {
        let mut bytes = vec![0xc1, FORMAT_BYTE, state];
        bytes.extend([be(1, 4), be(at, 6), vec![level], vec![0; 8], vec![0; 6], vec![0; 8]].concat());
        bytes.push(u8::try_from(run.len()).unwrap());
        bytes.extend(run.as_bytes());
        // No incarnation, nothing rare, no worker.
        bytes.extend([vec![0; 5], be(START, 6), fixed("body").into_bytes()].concat());
        bytes
    };
    assert!(run.starts_with("high:"), "{run}");
    assert_eq!(queue.raw_record("t"), expected(2, 3, 0, &run));
    assert_eq!(queue.raw_record("s"), expected(1, 5, START + 5, ""));
    queue.redis::<()>(&["DEL", &queue.key("task:s"), &queue.key("scheduled")]);
}
