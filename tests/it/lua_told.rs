//! What runs tell of themselves: budgets, checkpoints and phases, whole, once, and by their own run only.

use std::collections::BTreeMap;

use leasehold_common::Error;
use leasehold_common::name::BudgetName;
use leasehold_common::record::{BudgetUse, FailureDetail, FailureKind, StopCause};
use leasehold_common::script;
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    BeatAnswer, NewTask, Outcome, QueueSettings, RetryAdvice, RetryAnswer, RetryMode, SpendAnswer,
    UpdateAnswer,
};
use leasehold_tests::queue::{
    Hand, Queue, T, V, budget, budgets, done, end, failed, in_lane, ms, task, task_with,
};

fn of_calls(name: &str, most: u64) -> NewTask {
    task_with(name, |t| {
        t.body.bounds.budgets = budgets(&[("calls", most), ("tokens", 1_000_000_000_000)]);
    })
}

async fn spent(queue: &Queue, name: &str) -> u64 {
    queue.record("t").await.budgets[&budget(name)].spent
}

#[tokio::test]
async fn r62_a_charge_is_taken_whole_or_not_at_all_and_the_one_above_the_rest_ends_the_run() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, of_calls("t", 10)).await;
    let spend = async |number, charges: &[u64]| queue.spend(&hand, &run, number, "calls", charges).await;
    assert_eq!(spend(1, &[3]).await, SpendAnswer::Taken { rest: 7 });
    assert_eq!(spend(2, &[0, 2, 1]).await, SpendAnswer::Taken { rest: 4 });
    assert_eq!(queue.beat(&hand, &run).await, BeatAnswer::Ok);
    // In order, each whole: 3 is taken, 2 is refused whole, and 1 behind it is not tried.
    assert_eq!(spend(3, &[3, 2, 1]).await, SpendAnswer::Exceeded { taken: 1, rest: 1 });
    assert_eq!(spent(&queue, "calls").await, 9);
    let stop = queue.record("t").await.stop.unwrap();
    assert_eq!((stop.cause, stop.reason.as_deref()), (StopCause::BudgetExceeded, Some("budget calls")));
    let told = queue.beat(&hand, &run).await;
    assert!(matches!(told, BeatAnswer::Stop { cause: StopCause::BudgetExceeded, .. }), "{told:?}");
    // Its clean-up may spend what is left.
    assert_eq!(spend(4, &[1]).await, SpendAnswer::Taken { rest: 0 });
    let detail = FailureDetail::default();
    let outcome =
        Outcome::Stopped { cause: StopCause::BudgetExceeded, message: "too many".to_owned(), detail };
    queue.finish(&hand, end(&run, outcome)).await;
    let record = queue.record("t").await;
    assert_eq!((record.state, record.failures), (TaskState::Failed, 1), "final, though attempts are left");
    assert_eq!(record.failure_kind, Some(FailureKind::BudgetExceeded));
    queue.check().await;
}

#[tokio::test]
async fn r62_exactly_the_maximum_can_be_spent_and_numbers_do_not_lose_digits() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let most = (1 << 53) - 1;
    let run =
        queue.running(&hand, task_with("t", |t| t.body.bounds.budgets = budgets(&[("micros", most)]))).await;
    let spend = async |number, charge| queue.spend(&hand, &run, number, "micros", &[charge]).await;
    assert_eq!(spend(1, 1).await, SpendAnswer::Taken { rest: most - 1 });
    assert_eq!(spend(2, u64::MAX).await, SpendAnswer::Exceeded { taken: 0, rest: most - 1 });
    assert_eq!(spend(3, most - 1).await, SpendAnswer::Taken { rest: 0 });
    assert_eq!(queue.record("t").await.budgets[&budget("micros")], BudgetUse { most, spent: most });
    queue.check().await;
}

#[tokio::test]
async fn r62_repeats_get_their_answer_and_spend_nothing() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, of_calls("t", 10)).await;
    queue.spend(&hand, &run, 1, "calls", &[3]).await;
    let second = queue.spend(&hand, &run, 2, "calls", &[4, 9]).await;
    assert_eq!(second, SpendAnswer::Exceeded { taken: 1, rest: 3 });
    let before = queue.digest();
    for number in [2, 1, 0] {
        assert_eq!(queue.spend(&hand, &run, number, "calls", &[4, 9]).await, second, "{number}");
    }
    let unknown = queue.spend(&hand, &run, 3, "money", &[1]).await;
    assert_eq!(unknown, SpendAnswer::Unknown);
    assert_eq!(queue.digest(), before, "and a budget that it does not have");
    // The number of the refused name is free still.
    assert_eq!(queue.spend(&hand, &run, 3, "calls", &[1]).await, SpendAnswer::Taken { rest: 2 });
    queue.check().await;
}

#[tokio::test]
async fn r62_a_budget_holds_across_attempts_and_workers_and_begins_anew_by_a_person() {
    let queue = Queue::start().await;
    let (a, b) = (Hand::new("a"), Hand::new("b"));
    queue.sweep_for(T + 1000).await;
    let run = queue.running(&a, of_calls("t", 10)).await;
    queue.spend(&a, &run, 5, "calls", &[4]).await;
    queue.finish(&a, failed(&run, RetryAdvice::After(ms(0)))).await;
    let run = queue.claim(&b, 1).await.remove(0);
    assert_eq!(
        queue.spend(&b, &run, 1, "calls", &[1]).await,
        SpendAnswer::Taken { rest: 5 },
        "its own number 1"
    );
    let stale = run.clone();
    queue.sweep_for(T + 7000).await;
    let run = queue.claim(&a, 1).await.remove(0);
    let before = queue.digest();
    assert_eq!(queue.spend(&b, &stale, 2, "calls", &[1]).await, SpendAnswer::Lost, "a superseded run");
    assert_eq!(queue.spend(&b, &run, 1, "calls", &[1]).await, SpendAnswer::Lost, "of another worker");
    assert_eq!(queue.digest(), before);
    let refused = queue.spend(&a, &run, 1, "calls", &[6]).await;
    assert_eq!(refused, SpendAnswer::Exceeded { taken: 0, rest: 5 });
    queue.finish(&a, failed(&run, RetryAdvice::Fatal)).await;
    queue.retry("t", RetryMode::Keep).await;
    let all: BTreeMap<BudgetName, BudgetUse> = queue.record("t").await.budgets;
    assert_eq!(all[&budget("calls")], BudgetUse { most: 10, spent: 0 });
    let run = queue.claim(&a, 1).await.remove(0);
    assert_eq!(queue.spend(&a, &run, 1, "calls", &[10]).await, SpendAnswer::Taken { rest: 0 });
    queue.check().await;
}

#[tokio::test]
async fn r62_a_run_that_does_not_obey_is_ended_by_its_budget() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    let run = queue.running(&hand, of_calls("t", 1)).await;
    queue.spend(&hand, &run, 1, "calls", &[2]).await;
    for _ in 0..60 {
        queue.sweep_for(1000).await;
        queue.beat(&hand, &run).await;
    }
    let record = queue.record("t").await;
    assert_eq!((record.state, record.failure_kind), (TaskState::Failed, Some(FailureKind::BudgetExceeded)));
    queue.check().await;
}

#[tokio::test]
async fn a_checkpoint_is_there_for_the_next_attempt_and_a_late_one_changes_nothing() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    let run = queue.running(&hand, task("t")).await;
    assert_eq!(queue.checkpoint("t").await, None);
    queue.leave_checkpoint(&hand, &run, 1, b"one").await;
    queue.leave_checkpoint(&hand, &run, 3, b"three").await;
    let before = queue.digest();
    for number in [3, 2, 0] {
        assert_eq!(queue.leave_checkpoint(&hand, &run, number, b"late").await, UpdateAnswer::Ok);
    }
    assert_eq!(queue.digest(), before);
    let size = async || queue.record("t").await.checkpoint_bytes;
    assert_eq!(size().await, Some(5));
    // Through a failure, a reclaim and a hand-back.
    queue.finish(&hand, failed(&run, RetryAdvice::After(ms(0)))).await;
    queue.claim(&hand, 1).await;
    queue.sweep_for(T + 7000).await;
    let next = queue.claim(&hand, 1).await.remove(0);
    assert_eq!(next.attempt, 3);
    assert_eq!((queue.checkpoint("t").await.as_deref(), size().await), (Some(&b"three"[..]), Some(5)));
    let before = queue.digest();
    assert_eq!(queue.leave_checkpoint(&hand, &run, 9, b"stale").await, UpdateAnswer::Lost);
    assert_eq!(queue.digest(), before);
    queue.leave_checkpoint(&hand, &next, 1, b"").await;
    assert_eq!(
        (queue.checkpoint("t").await.as_deref(), size().await),
        (Some(&b""[..]), Some(0)),
        "an empty one is one"
    );
    queue.check().await;
}

#[tokio::test]
async fn r12_a_retry_keeps_or_drops_the_checkpoint_and_resume_refuses_without_one() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let mut run = queue.running(&hand, task("t")).await;
    queue.finish(&hand, failed(&run, RetryAdvice::Fatal)).await;
    let before = queue.digest();
    let refused = queue.retry("t", RetryMode::Resume).await;
    assert_eq!(refused, RetryAnswer::NoCheckpoint(TaskState::Failed));
    assert_eq!(queue.digest(), before);
    for (mode, left) in [
        (RetryMode::Keep, None),
        (RetryMode::Keep, Some("half")),
        (RetryMode::Resume, Some("half")),
        (RetryMode::Fresh, None),
    ] {
        let rev = queue.record("t").await.rev;
        assert_eq!(queue.retry("t", mode).await, RetryAnswer::Retried(TaskState::Queued), "{mode:?}");
        // A repeat answers the same, whatever its mode.
        let ends = [(leasehold_tests::queue::id("t"), rev)];
        let again = queue.store.retry_with(&queue.name, &ends, RetryMode::Fresh).await.unwrap();
        assert_eq!(again, [RetryAnswer::Retried(TaskState::Queued)]);
        run = queue.claim(&hand, 1).await.remove(0);
        assert_eq!(queue.checkpoint("t").await, left.map(|text| text.as_bytes().to_vec()), "{mode:?}");
        assert_eq!(queue.record("t").await.checkpoint_bytes, left.map(|text| text.len() as u64), "{mode:?}");
        queue.leave_checkpoint(&hand, &run, 1, b"half").await;
        queue.finish(&hand, failed(&run, RetryAdvice::Fatal)).await;
    }
    queue.check().await;
}

#[tokio::test]
async fn a_full_redis_takes_checkpoints_charges_and_phases_and_refuses_a_lane() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, of_calls("t", 10)).await;
    queue.enqueue(&[in_lane("a"), in_lane("b"), in_lane("c")]).await;
    queue.redis::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    assert!(queue.server.used_memory() > 1 << 20, "over its limit");
    assert_eq!(queue.leave_checkpoint(&hand, &run, 1, b"half").await, UpdateAnswer::Ok);
    assert_eq!(queue.spend(&hand, &run, 1, "calls", &[1]).await, SpendAnswer::Taken { rest: 9 });
    assert_eq!(queue.phase(&hand, &run, 1, "build", None).await, UpdateAnswer::Ok);
    assert_eq!(queue.unkillable(&hand, &run).await, UpdateAnswer::Ok);
    let before = queue.digest();
    for new in [
        in_lane("d"),
        of_calls("u", 1),
        task_with("o", |t| t.body.owner = Some(leasehold_tests::queue::owner("me"))),
    ] {
        let refused = queue.store.enqueue(&queue.name, &[new]).await;
        assert!(matches!(refused, Err(Error::StorageFull { .. })), "{refused:?}");
    }
    let refused = queue.store.set_lane_limit(&queue.name, &leasehold_tests::queue::lane("l"), 2).await;
    assert!(matches!(refused, Err(Error::StorageFull { .. })), "{refused:?}");
    assert_eq!(queue.digest(), before, "refused whole");
    // A lane goes on.
    queue.finish(&hand, done(&run)).await;
    let run = queue.claim(&hand, 1).await.remove(0);
    queue.finish(&hand, done(&run)).await;
    assert_eq!(queue.states("a b c").await, "completed queued waiting");
    assert_eq!(queue.checkpoint("t").await.as_deref(), Some(&b"half"[..]));
    queue.redis::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    queue.check().await;
}

/// Every kind of word, by a run that is not the owner any more, for a task that is gone, and in a wrong form.
#[tokio::test]
async fn r67_every_kind_of_word_is_fenced_and_of_a_form() {
    const KINDS: [(&str, &str, &str); 6] = [
        ("progress", "0.5", "half"),
        ("log", "out", "text"),
        ("phase", "1000", "build"),
        ("spend", "1 2", "calls"),
        ("checkpoint", "", "bytes"),
        ("unkillable", "", "17"),
    ];
    let settings = QueueSettings { retain_completed: ms(0), ..QueueSettings::default() };
    let queue = Queue::with(settings).await;
    let (a, b) = (Hand::new("a"), Hand::new("b"));
    let old = queue.running(&a, of_calls("t", 10)).await;
    queue.finish(&a, end(&old, Outcome::Released)).await;
    let run = queue.claim(&b, 1).await.remove(0);
    let gone = queue.running(&b, task("gone")).await;
    queue.finish(&b, done(&gone)).await;
    queue.redis::<()>(&["SET", &queue.key("task:bad"), "junk"]);
    let say = |kind: &str, hand: &Hand, task: &str, run: &str, value: &str, text: &str| {
        queue.script(&script::UPDATE, &[V, hand.inc.as_str(), kind, task, run, "9", value, text])
    };
    let before = queue.digest();
    for (kind, value, text) in KINDS {
        let tag = |hand, task: &str, run: &str| say(kind, hand, task, run, value, text).items()[0].to_owned();
        assert_eq!(tag(&a, "t", old.run.as_str()), "lost", "{kind} of a superseded run");
        assert_eq!(tag(&a, "t", run.run.as_str()), "lost", "{kind} of another worker");
        assert_eq!(tag(&b, "t", "normal:1-1"), "lost", "{kind} of no run");
        assert_eq!(tag(&b, "never", run.run.as_str()), "lost", "{kind} of no task");
        assert_eq!(tag(&b, "gone", gone.run.as_str()), "gone", "{kind} of a task that was discarded");
        assert_eq!(tag(&b, "bad", run.run.as_str()), "corrupt", "{kind}");
    }
    for (kind, value, text) in [
        ("progress", "2", "x"),
        ("progress", "-0.1", "x"),
        ("log", "both", "x"),
        ("phase", "0", "build"),
        ("phase", "soon", "build"),
        ("phase", "1000", ""),
        ("phase", "1000", "two words"),
        ("spend", "", "calls"),
        ("spend", "-1", "calls"),
        ("spend", "1,2", "calls"),
        ("spend", " 1", "calls"),
        ("checkpoint", "1", "x"),
        ("unkillable", "1", "17"),
        ("nonsense", "", "x"),
    ] {
        assert_eq!(
            say(kind, &b, "t", run.run.as_str(), value, text).tag(),
            "badargs",
            "{kind} {value:?} {text:?}"
        );
    }
    assert_eq!(say("phase", &b, "t", run.run.as_str(), "", &"x".repeat(65)).tag(), "badargs");
    assert_eq!(say("unkillable", &b, "t", run.run.as_str(), "", &"1".repeat(257)).tag(), "badargs");
    assert_eq!(queue.digest(), before, "none of all this changed anything");
    for (kind, value, text) in KINDS {
        assert_eq!(say(kind, &b, "t", run.run.as_str(), value, text).items()[0], "ok", "{kind}");
    }
    queue.redis::<()>(&["DEL", &queue.key("task:bad")]);
    queue.check().await;
}

#[tokio::test]
async fn the_last_hundred_phases_are_kept_and_those_of_earlier_attempts_among_them() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let run = queue.running(&hand, task("t")).await;
    queue.phase(&hand, &run, 1, "first", None).await;
    queue.finish(&hand, failed(&run, RetryAdvice::After(ms(0)))).await;
    let run = queue.claim(&hand, 1).await.remove(0);
    for number in 1..=100 {
        queue.phase(&hand, &run, number, &format!("p{number}"), None).await;
        queue.advance(1);
    }
    let phases = async || {
        let detail =
            queue.store.detail(&queue.name, &leasehold_tests::queue::id("t")).await.unwrap().unwrap();
        detail.phases.iter().map(|p| (p.name.clone(), p.attempt)).collect::<Vec<_>>()
    };
    let kept = phases().await;
    assert_eq!((kept.len(), kept[0].clone()), (100, ("first".to_owned(), 1)));
    queue.finish(&hand, done(&run)).await;
    let kept = phases().await;
    assert_eq!(
        (kept.len(), kept[0].clone(), kept[99].clone()),
        (100, ("p1".to_owned(), 2), ("p100".to_owned(), 2))
    );
    queue.check().await;
}
