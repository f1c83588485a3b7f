//! Repeats and late duplicates: a call whose answer was lost may be sent again, at any time, at no harm.

use leasehold_common::bounds::Deadline;
use leasehold_common::record::StopCause;
use leasehold_common::script;
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    AbortRequest, ClaimAnswer, ClaimRequest, DeleteAnswer, Enqueued, FinishAnswer, KnownState, LogPiece,
    NewTask, Outcome, OutputStream, Progress, QueueSettings, RetryAdvice, RetryAnswer,
};
use leasehold_tests::queue::{
    Hand, Queue, T, V, budgets, done, end, failed, fixed, id, in_lane_with, ms, owner, task, task_with,
};

/// The same items twice in one call, and in two calls on a twin queue: the answers and the records are equal.
#[tokio::test]
async fn an_item_twice_in_one_call_gives_what_two_calls_give() {
    for retain in [false, true] {
        let settings = || {
            let mut settings = QueueSettings::default();
            if !retain {
                settings.retain_completed = ms(0);
            }
            settings
        };
        let (once, twice) = (Queue::with(settings()).await, Queue::with(settings()).await);
        let step = |script: &'static script::ScriptSpec, head: &[&str], item: &[&str]| {
            let both: Vec<&str> = head.iter().chain(item).chain(item).copied().collect();
            let one: Vec<&str> = head.iter().chain(item).copied().collect();
            let together = once.script(script, &both);
            let apart = [twice.script(script, &one), twice.script(script, &one)];
            let apart: Vec<&str> = apart.iter().flat_map(|a| a.items()).collect();
            assert_eq!(together.items(), apart, "{} {item:?}", script.name);
        };
        let hand = Hand::new("w");
        let body = fixed("body");
        step(&script::ENQUEUE, &[V, "full"], &["t", "high", &body, "", ""]);
        step(&script::ENQUEUE, &[V, "full"], &["q", "low", &body, "", ""]);
        step(&script::ENQUEUE, &[V, "full"], &["d", "low", &body, "+5000", ""]);
        step(&script::ENQUEUE, &[V, "full"], &["big", "low", &fixed(&"x".repeat(2900)), "", ""]);
        for name in ["l1", "l2"] {
            let new = in_lane_with(name, |t| {
                t.body.owner = Some(owner("me"));
                t.body.bounds.deadline = Some(Deadline::After(ms(90_000)));
                t.body.bounds.budgets = budgets(&[("calls", 5)]);
            });
            let ask = async |queue: &Queue, tasks: &[NewTask]| {
                queue.store.enqueue(&queue.name, tasks).await.unwrap()
            };
            let apart = [
                ask(&twice, std::slice::from_ref(&new)).await,
                ask(&twice, std::slice::from_ref(&new)).await,
            ];
            assert_eq!(ask(&once, &[new.clone(), new]).await, apart.concat());
        }
        let request = hand.next(1);
        let run = once.claimed(&request).await.tasks.remove(0);
        let runs = [run.run.clone(), twice.claimed(&request).await.tasks.remove(0).run];
        // Stream ids differ between servers: give both the same run.
        let digits = runs[0].as_str().len() - 5;
        for queue in [&once, &twice] {
            queue.edit_record("t", &format!("r.run = 'high:' .. string.rep('7', {digits})"));
        }
        let run = format!("high:{}", "7".repeat(digits));
        let inc = hand.inc.as_str();
        step(&script::HEARTBEAT, &[V, inc], &["t", &run]);
        step(&script::UPDATE, &[V, inc, "progress"], &["t", &run, "1", "0.5", "half"]);
        step(&script::UPDATE, &[V, inc, "log"], &["t", &run, "0", "out", "text"]);
        step(&script::UPDATE, &[V, inc, "phase"], &["t", &run, "1", "500", "build"]);
        step(&script::UPDATE, &[V, inc, "phase"], &["t", &run, "2", "", "test"]);
        step(&script::UPDATE, &[V, inc, "checkpoint"], &["t", &run, "1", "", "half"]);
        step(&script::UPDATE, &[V, inc, "unkillable"], &["t", &run, "0", "", "17"]);
        for queue in [&once, &twice] {
            queue.edit_record("t", "x.bu = { calls = { 5, 0 } }");
        }
        step(&script::UPDATE, &[V, inc, "spend"], &["t", &run, "1", "2 1", "calls"]);
        step(&script::UPDATE, &[V, inc, "spend"], &["t", &run, "1", "9", "money"]);
        step(&script::ABORT, &[V], &["l1", "r1", "", "me", "", ""]);
        step(&script::RETRY, &[V], &["l1", "2", "keep"]);
        step(&script::ABORT, &[V], &["l1", "r2", "", "me", "", "abandon"]);
        step(&script::DELETE, &[V], &["l1", "4"]);
        step(&script::ABORT, &[V], &["q", "r1", "", "me", "", ""]);
        step(&script::ABORT, &[V], &["d", "r1", "", "me", "", ""]);
        step(&script::ABORT, &[V], &["t", "r1", "", "me", "", ""]);
        step(&script::FINISH, &[V, inc], &["t", &run, "completed", "out"]);
        step(&script::RETRY, &[V], &["q", "2", "keep"]);
        step(&script::DELETE, &[V], &["d", "2"]);
        step(&script::RETRY, &[V], &["d", "2", "keep"]);
        let totals = |queue: &Queue| {
            let all: Vec<String> = queue.redis(&["HGETALL", &queue.key("totals")]);
            let mut pairs: Vec<_> = all.chunks(2).map(|c| (c[0].clone(), c[1].clone())).collect();
            pairs.sort();
            pairs
        };
        assert_eq!(totals(&once), totals(&twice));
        // But for the entry that a queued task waits under, which is another on each server.
        let all = "local s, p = x.sp or {}, x.ph or {}; return cmsgpack.pack({ r.st, r.lv, r.rev, r.n, r.f, r.c, r.en, \
                   r.at, r.bg, r.st == 2 or r.run, r.inc, r.w, r.fixed, o, s.c or 0, s.at or 0, s.he or 0, s.rq or 0, \
                   x.rr or 0, x.us or 0, x.lo or 0, x.up or 0, x.uc or 0, x.ck or 0, x.ub or 0, x.bu or 0, p.n or 0, \
                   p.at or 0, p.tm or 0, p.e or 0, x.uk or 0, x.ln or 0, x.dl or 0 })";
        for name in ["t", "q", "d", "big", "l1", "l2"] {
            let there = once.redis::<bool>(&["EXISTS", &once.key(&format!("task:{name}"))]);
            assert_eq!(there, twice.state(name).await.is_some(), "{name}");
            if there {
                let left: [Vec<u8>; 2] = [&once, &twice].map(|queue| queue.of_record(name, all));
                assert_eq!(left[0], left[1], "{name}");
            }
        }
        once.check().await;
        twice.check().await;
    }
}

/// What the second item of an id says is held against what the first one has made of it.
#[tokio::test]
async fn the_second_item_of_a_batch_meets_what_the_first_one_left() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let (one, other) = (fixed("one"), fixed("other"));
    let words = [V, "full", "t", "low", &one, "", "", "t", "low", &other, "+5", "", "u", "low", &one, "", ""];
    assert_eq!(queue.script(&script::ENQUEUE, &words).items(), ["created", "conflict", "created"]);
    let runs = queue.claim(&hand, 2).await;
    let (inc, run) = (hand.inc.as_str(), runs[0].run.as_str());
    let words = [V, inc, "t", run, "released", "", "t", run, "completed", "late", "u", "x", "released", ""];
    assert_eq!(queue.script(&script::FINISH, &words).items(), ["ok", "repeat", "lost"]);
    assert_eq!(queue.state("t").await, Some(TaskState::Queued), "the first word holds");
    let words = [V, "t", "r1", "", "me", "", "", "t", "r2", "", "you", "", "", "t", "r1", "", "me", "", ""];
    assert_eq!(queue.script(&script::ABORT, &words).items(), ["ended", "already", "ended"]);
    let rev = queue.record("t").await.rev;
    let (seen, next) = (rev.to_string(), (rev + 1).to_string());
    assert_eq!(
        queue.script(&script::RETRY, &[V, "t", &seen, "keep", "t", &next, "keep"]).items(),
        ["retried", "live"]
    );
    queue.script(&script::ABORT, &[V, "t", "r3", "", "me", "", ""]);
    let rev = (rev + 2).to_string();
    let words = [V, "t", &rev, "t", &rev, "t", "1"];
    assert_eq!(queue.script(&script::DELETE, &words).items(), ["deleted", "deleted", "deleted"]);
    assert_eq!(queue.script(&script::RETRY, &[V, "t", &rev, "keep"]).items(), ["not_found"]);
    assert_eq!((queue.total("gone"), queue.total("aborted"), queue.total("released")), (1, 2, 1));
    queue.check().await;
}

#[tokio::test]
async fn case_42_enqueue_again_answers_what_became_of_the_task() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let mut other = task("t");
    other.body.payload.push(1);
    let mut headers = task("t");
    headers.body.headers.insert("trace".to_owned(), "2".to_owned());
    let ask = async |new: &leasehold_common::store::NewTask| {
        queue.store.enqueue(&queue.name, std::slice::from_ref(new)).await.unwrap().remove(0)
    };
    assert_eq!(ask(&task("t")).await, Enqueued::Created(TaskState::Queued));
    let run = queue.claim(&hand, 1).await.remove(0);
    for (state, act) in [(TaskState::Running, false), (TaskState::Completed, true)] {
        if act {
            queue.finish(&hand, done(&run)).await;
        }
        let before = queue.digest();
        assert_eq!(ask(&headers).await, Enqueued::Exists(KnownState::Is(state)), "headers apart");
        assert_eq!(ask(&other).await, Enqueued::Conflict(KnownState::Is(state)));
        assert_eq!(queue.digest(), before);
    }
    let rev = queue.record("t").await.rev;
    queue.store.delete(&queue.name, &[(id("t"), rev)]).await.unwrap();
    queue.advance(59_999);
    assert_eq!(ask(&task("t")).await, Enqueued::Exists(KnownState::Gone));
    queue.advance(1);
    assert_eq!(ask(&task("t")).await, Enqueued::Created(TaskState::Queued), "a minute later it is forgotten");
    queue.sweep().await;
    queue.check().await;
}

#[tokio::test]
async fn case_10_a_claim_repeated_gives_the_same_runs_with_fresh_leases_and_their_stop() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.seed(&["a", "b", "c", "d"]).await;
    let request = hand.next(3);
    let first = queue.claimed(&request).await.tasks;
    queue.advance(T - 1);
    assert_eq!(queue.claimed(&request).await.tasks, first, "the same, and not the fourth");
    queue.advance(T - 1);
    queue.sweep().await;
    assert!(!queue.record("a").await.suspected, "the lease is a fresh one");
    // What has ended meanwhile is not handed out again; what is asked to stop says so.
    queue.finish(&hand, done(&first[0])).await;
    queue.store.abort(&queue.name, &[AbortRequest::new(id("b"), "me", "why")]).await.unwrap();
    let again = queue.claimed(&request).await.tasks;
    assert_eq!(again.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(again[0].stop.map(|s| s.0), Some(StopCause::Abort));
    assert_eq!((again[0].run.clone(), again[1].clone()), (first[1].run.clone(), first[2].clone()));
    // A lower number is a late duplicate.
    assert_eq!(queue.claim(&hand, 1).await.len(), 1);
    let before = queue.digest();
    assert_eq!(queue.ask(&request).await, ClaimAnswer::Stale);
    assert_eq!(queue.digest(), before);
    queue.check().await;
}

#[tokio::test]
async fn r94_a_closing_claim_hands_out_the_unanswered_one_and_refuses_every_later_claim() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.seed(&["a", "b", "c"]).await;
    let answered = queue.claim(&hand, 1).await;
    let request = hand.next(1);
    let lost = queue.claimed(&request).await.tasks;
    let closing = ClaimRequest { closing: true, ..request.clone() };
    for _ in 0..2 {
        assert_eq!(queue.claimed(&closing).await.tasks, lost);
    }
    for late in [request.clone(), hand.request(hand.number() + 1, 1)] {
        assert_eq!(queue.ask(&late).await, ClaimAnswer::Closed);
    }
    assert_eq!(
        queue.finish(&hand, end(&lost[0], Outcome::Released)).await,
        FinishAnswer::Accepted(TaskState::Queued)
    );
    assert!(queue.claimed(&closing).await.tasks.is_empty(), "it was handed back");
    queue.finish(&hand, done(&answered[0])).await;
    // A closing claim under a new number: nothing was open.
    let other = Hand::new("v");
    let run = queue.claim(&other, 1).await;
    let closing = ClaimRequest { closing: true, ..other.next(1) };
    assert!(queue.claimed(&closing).await.tasks.is_empty());
    queue.finish(&other, done(&run[0])).await;
    queue.check().await;
}

#[tokio::test]
async fn an_empty_claim_is_remembered_too() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let request = hand.next(1);
    assert!(queue.claimed(&request).await.tasks.is_empty());
    queue.seed(&["a"]).await;
    assert!(queue.claimed(&request).await.tasks.is_empty(), "a late duplicate takes nothing");
    assert_eq!(queue.claim(&hand, 1).await.len(), 1);
    queue.check().await;
}

#[tokio::test]
async fn r12_retry_and_delete_act_on_the_end_that_was_seen_and_only_answer_again() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, task_with("t", |t| t.body.policy.max_attempts = 2)).await;
    queue.finish(&hand, failed(&run, RetryAdvice::Fatal)).await;
    let rev = queue.record("t").await.rev;
    let retry = async |rev| queue.store.retry(&queue.name, &[(id("t"), rev)]).await.unwrap().remove(0);
    let delete = async |rev| queue.store.delete(&queue.name, &[(id("t"), rev)]).await.unwrap().remove(0);
    assert_eq!(retry(rev - 1).await, RetryAnswer::Changed(TaskState::Failed));
    assert_eq!(delete(rev + 1).await, DeleteAnswer::Changed(TaskState::Failed));
    assert_eq!(retry(rev).await, RetryAnswer::Retried(TaskState::Queued));
    let record = queue.record("t").await;
    assert_eq!((record.attempt, record.failures, record.reclaims), (1, 0, 0), "attempt goes on");
    assert_eq!(retry(rev).await, RetryAnswer::Retried(TaskState::Queued));
    assert_eq!(retry(rev + 1).await, RetryAnswer::Live(TaskState::Queued));
    assert_eq!(delete(rev).await, DeleteAnswer::Live(TaskState::Queued));
    let run = queue.claim(&hand, 1).await;
    assert_eq!((run[0].attempt, run[0].failures), (2, 0));
    queue.finish(&hand, failed(&run[0], RetryAdvice::Fatal)).await;
    let before = queue.digest();
    assert_eq!(retry(rev).await, RetryAnswer::Retried(TaskState::Failed), "a late duplicate");
    assert_eq!(queue.digest(), before);
    let detail = queue.store.detail(&queue.name, &id("t")).await.unwrap().unwrap();
    assert_eq!(detail.failures.len(), 2, "history is kept");
    let rev = detail.record.rev;
    for _ in 0..2 {
        assert_eq!(delete(rev).await, DeleteAnswer::Deleted);
    }
    assert_eq!(retry(rev).await, RetryAnswer::NotFound);
    assert_eq!(queue.total("gone"), 1);
    queue.check().await;
}

#[tokio::test]
async fn updates_under_an_old_number_or_offset_write_nothing() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, task("t")).await;
    let progress = async |number, share, message: &str| {
        let (id, run, message) = (run.id.clone(), run.run.clone(), message.to_owned());
        let item = Progress { id, run, number, share, message };
        queue.store.progress(&queue.name, &hand.inc, &[item]).await.unwrap();
    };
    let log = async |offset, text: &[u8]| {
        let (id, run) = (run.id.clone(), run.run.clone());
        let piece = LogPiece { id, run, offset, stream: OutputStream::Err, text: text.to_vec() };
        queue.store.append_log(&queue.name, &hand.inc, &[piece]).await.unwrap();
    };
    progress(2, Some(0.5), "half").await;
    log(0, b"0123").await;
    log(6, b"67").await;
    let before = queue.digest();
    progress(2, Some(0.9), "again").await;
    progress(1, Some(0.1), "late").await;
    log(0, b"0123").await;
    log(4, b"4567").await;
    assert_eq!(queue.digest(), before);
    progress(3, None, "").await;
    log(4, b"456789").await;
    let detail = queue.store.detail(&queue.name, &id("t")).await.unwrap().unwrap();
    assert_eq!((detail.record.progress, detail.note.as_deref()), (Some(0.5), Some("half")));
    let pieces = queue.store.log(&queue.name, &id("t"), None, 10).await.unwrap();
    let texts: Vec<(u64, &[u8])> = pieces.iter().map(|p| (p.offset, &p.text[..])).collect();
    assert_eq!(texts, [(0, &b"0123"[..]), (6, b"67"), (8, b"89")], "no byte twice, the gap at 4 visible");
    // The next run begins anew: its first number and offset are taken, the old message is not its own.
    queue.finish(&hand, failed(&run, RetryAdvice::After(ms(0)))).await;
    let run = queue.claim(&hand, 1).await.remove(0);
    let detail = queue.store.detail(&queue.name, &id("t")).await.unwrap().unwrap();
    assert_eq!((detail.record.progress, detail.note), (None, None));
    let (id, run_id) = (run.id.clone(), run.run.clone());
    let piece = LogPiece { id, run: run_id, offset: 0, stream: OutputStream::Out, text: b"new".to_vec() };
    queue.store.append_log(&queue.name, &hand.inc, &[piece]).await.unwrap();
    let pieces = queue.store.log(&queue.name, &run.id, None, 10).await.unwrap();
    assert_eq!(pieces.last().map(|p| (p.attempt, p.offset)), Some((2, 0)));
    queue.check().await;
}
