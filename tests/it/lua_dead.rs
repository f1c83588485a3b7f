//! Incarnations declared dead: their runs are reclaimed without waiting for leases, and they are handed nothing again.

use leasehold_common::name::{Incarnation, QueueName};
use leasehold_common::policy::OnLeaseExpired;
use leasehold_common::record::FailureKind;
use leasehold_common::script;
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    AbortAnswer, AbortRequest, BeatAnswer, ClaimAnswer, ClaimRequest, Declared, FinishAnswer, NewTask,
};
use leasehold_tests::queue::{Hand, Queue, V, args, done, id, ms, task, task_with};

/// Declares an incarnation dead, page by page. Answers the pages.
async fn declare(queue: &Queue, hand: &Hand, limit: usize) -> Vec<Declared> {
    let (mut pages, mut cursor) = (Vec::new(), 0);
    loop {
        let page = queue.store.declare_dead(&queue.name, &hand.inc, cursor, limit).await.expect("declare");
        pages.push(page);
        match page.more {
            Some(next) => cursor = next,
            None => return pages,
        }
    }
}

async fn abort(queue: &Queue, name: &str) -> AbortAnswer {
    queue.store.abort(&queue.name, &[AbortRequest::new(id(name), "me", "why")]).await.unwrap().remove(0)
}

/// Claims so many tasks under one incarnation.
async fn claim_all(queue: &Queue, hand: &Hand, count: usize) {
    let mut got = 0;
    while got < count {
        let tasks = queue.claim(hand, (count - got).min(200)).await.len();
        assert!(tasks > 0, "{got} of {count} are claimed");
        got += tasks;
    }
}

/// What is remembered of its last claim.
fn memory(queue: &Queue, hand: &Hand) -> serde_json::Value {
    let packed: Vec<u8> = queue.redis(&["GET", &queue.key(&format!("claim:{}", hand.inc))]);
    rmp_serde::from_slice(&packed).expect("MessagePack")
}

#[tokio::test]
async fn r11_runs_of_a_declared_one_are_reclaimed_at_once_by_their_own_policy() {
    let queue = Queue::start().await;
    let (dead, living) = (Hand::new("dead"), Hand::new("living"));
    let fail = |name: &str| task_with(name, |t| t.body.policy.on_lease_expired = OnLeaseExpired::Fail);
    let spent = |name: &str| task_with(name, |t| t.body.policy.max_reclaims = 0);
    let bounded = |name: &str| task_with(name, |t| t.body.policy.run_timeout = Some(ms(1000)));
    let all: Vec<NewTask> =
        vec![task("again"), fail("once"), spent("spent"), bounded("late"), task("aborting")];
    queue.enqueue(&all).await;
    let runs = queue.claim(&dead, 5).await;
    assert!(matches!(abort(&queue, "aborting").await, AbortAnswer::Requested { .. }));
    let other = queue.running(&living, task("other")).await;
    queue.advance(1000);
    assert_eq!(declare(&queue, &dead, 100).await, [Declared { more: None, looked: 6, reclaimed: 5 }]);
    let record = queue.record("again").await;
    assert_eq!((record.state, record.reclaims, record.failures), (TaskState::Queued, 1, 0));
    for name in ["once", "spent"] {
        let record = queue.record(name).await;
        assert_eq!(
            (record.state, record.failure_kind),
            (TaskState::Failed, Some(FailureKind::LeaseExpired)),
            "{name}"
        );
    }
    let detail = queue.store.detail(&queue.name, &id("again")).await.unwrap().unwrap();
    assert_eq!(detail.last_failure().map(|f| f.message.as_str()), Some("worker dead is gone: it died"));
    assert_eq!(queue.record("late").await.failures, 1, "its bound had passed: that is what it is told");
    assert_eq!(queue.state("aborting").await, Some(TaskState::Aborted));
    assert_eq!(queue.total("reclaimed"), 5);
    // The other one's run is as it was, and what the dead one still sends is late.
    assert_eq!(queue.beat(&living, &other).await, BeatAnswer::Ok);
    assert_eq!(queue.beat(&dead, &runs[0]).await, BeatAnswer::Lost);
    assert_eq!(queue.finish(&dead, done(&runs[0])).await, FinishAnswer::Lost);
    assert!(queue.take_wake(), "somebody is woken for it");
    assert_eq!(queue.claim(&living, 1).await[0].attempt, 2);
    queue.check().await;
}

#[tokio::test]
async fn r11_a_declared_one_is_refused_every_later_claim_and_its_memory_is_kept() {
    let queue = Queue::start().await;
    let dead = Hand::new("dead");
    queue.seed(&["a", "b"]).await;
    queue.claim(&dead, 1).await;
    declare(&queue, &dead, 100).await;
    let kept = memory(&queue, &dead);
    assert_eq!((&kept["n"], &kept["ids"], &kept["dead"]), (&1.into(), &"a".into(), &queue.now().into()));
    let ttl: i64 = queue.redis(&["PTTL", &queue.key(&format!("claim:{}", dead.inc))]);
    assert!((86_000_000..=86_400_000).contains(&ttl), "{ttl}");
    queue.take_wake();
    for (number, closing) in [(2, false), (1, false), (0, false), (1, true), (3, true)] {
        let request = ClaimRequest { closing, ..dead.request(number, 5) };
        assert_eq!(queue.ask(&request).await, ClaimAnswer::Dead, "{number} {closing}");
        assert!(queue.take_wake(), "a marker that it may have taken is given back");
    }
    assert_eq!(queue.state("b").await, Some(TaskState::Queued));
    // One that had claimed nothing here as well.
    let new = Hand::new("new");
    declare(&queue, &new, 100).await;
    assert_eq!(queue.ask(&new.next(1)).await, ClaimAnswer::Dead);
    // Again it changes nothing but the time that it is remembered.
    queue.advance(1000);
    assert_eq!(declare(&queue, &dead, 100).await, [Declared::default()]);
    assert_eq!(memory(&queue, &dead), kept);
    queue.check().await;
}

#[tokio::test]
async fn r11_a_thousand_runs_are_walked_in_bounded_steps_while_their_scores_move() {
    let queue = Queue::start().await;
    let (dead, living) = (Hand::new("dead"), Hand::new("living"));
    let names: Vec<String> = (0..1500).map(|n| format!("t{n}")).collect();
    queue.seed(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for _ in 0..5 {
        claim_all(&queue, &dead, 200).await;
        claim_all(&queue, &living, 100).await;
    }
    let (mut cursor, mut pages) = (0, Vec::new());
    loop {
        let page = queue.store.declare_dead(&queue.name, &dead.inc, cursor, 100).await.unwrap();
        assert!(page.looked <= 300, "{page:?}");
        pages.push(page);
        let Some(next) = page.more else { break };
        cursor = next;
        // Rows move to the front and to the back between the steps.
        for name in &names[pages.len() * 40..pages.len() * 40 + 20] {
            let score = if pages.len() % 2 == 0 { queue.now() - 1 } else { queue.now() + 19_000 };
            queue.redis::<()>(&["ZADD", &queue.key("running"), "XX", &score.to_string(), name]);
        }
    }
    assert!((5..60).contains(&pages.len()), "{} steps", pages.len());
    assert_eq!(pages.iter().map(|page| page.reclaimed).sum::<u64>(), 1000);
    assert_eq!(queue.redis::<u64>(&["ZCARD", &queue.key("running")]), 500);
    assert_eq!(queue.redis::<u64>(&["XLEN", &queue.key("ready:again")]), 1000);
    queue.check().await;
}

#[tokio::test]
async fn r06_r11_an_abort_of_a_run_whose_incarnation_is_declared_dead_ends_it_in_the_same_call() {
    let queue = Queue::start().await;
    let (dead, living) = (Hand::new("dead"), Hand::new("living"));
    let names: Vec<String> = (0..300).map(|n| format!("t{n}")).collect();
    queue.seed(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    claim_all(&queue, &dead, 300).await;
    queue.running(&living, task("other")).await;
    // The walk has only begun, and its lease is fresh.
    let page = queue.store.declare_dead(&queue.name, &dead.inc, 0, 1).await.unwrap();
    assert!(page.more.is_some(), "{page:?}");
    let mut left = Vec::new();
    for name in &names {
        if queue.state(name).await == Some(TaskState::Running) {
            left.push(name);
        }
    }
    assert_eq!(abort(&queue, left[0]).await, AbortAnswer::Ended(TaskState::Aborted));
    assert_eq!(queue.moves(left[0]).last().unwrap(), "aborting>aborted");
    assert!(matches!(abort(&queue, "other").await, AbortAnswer::Requested { .. }), "its owner is not");
    declare(&queue, &dead, 100).await;
    assert_eq!(queue.state(left[0]).await, Some(TaskState::Aborted), "it is never started again");
    queue.check().await;
}

#[tokio::test]
async fn r11_junk_beside_a_declaration_is_refused_before_any_write_or_left_alone() {
    let queue = Queue::start().await;
    let dead = Hand::new("dead");
    queue.seed(&["good", "bad"]).await;
    queue.claim(&dead, 2).await;
    let before = queue.digest();
    let long = "x".repeat(65);
    let cases: [&[&str]; 6] = [&[""], &["", "0"], &["inc"], &["inc", "-1"], &["inc", "x"], &[&long, "0"]];
    for items in cases {
        let words = [&[V, "10"], items].concat();
        assert_eq!(queue.script(&script::SWEEP, &words).tag(), "badargs", "{items:?}");
    }
    let many: Vec<String> = (0..17).flat_map(|n| [format!("inc-{n}"), "0".to_owned()]).collect();
    let words: Vec<&str> = [V, "10"].into_iter().chain(many.iter().map(String::as_str)).collect();
    assert_eq!(queue.script(&script::SWEEP, &words).tag(), "badargs");
    assert_eq!(queue.script(&script::SWEEP, &words[..34]).tag(), "ok", "16 at once");
    queue.reset().await;
    queue.seed(&["good", "bad"]).await;
    queue.claim(&dead, 2).await;
    let key = queue.key(&format!("claim:{}", dead.inc));
    for spoil in [vec!["SET", &key, "junk"], vec!["LPUSH", &key, "junk"]] {
        queue.redis::<()>(&["DEL", &key]);
        queue.redis::<()>(&spoil);
        let before = queue.digest();
        let answer = queue.try_script(&script::SWEEP, &args(&[V, "10", dead.inc.as_str(), "0"])).unwrap();
        assert_eq!(answer.parts, ["wrongtype", &key]);
        assert_eq!(queue.digest(), before);
        // Nor is it evidence for an abort.
        assert!(matches!(abort(&queue, "good").await, AbortAnswer::Requested { .. }));
    }
    queue.redis::<()>(&["DEL", &key]);
    // A record that cannot be read, but names the dead one, proves nothing.
    queue.set_raw_record("bad", format!("junk {}", dead.inc).as_bytes());
    assert_eq!(declare(&queue, &dead, 100).await, [Declared { more: None, looked: 2, reclaimed: 1 }]);
    assert!(queue.score("running", "bad").is_some(), "it is left alone");
    assert_ne!(queue.digest(), before);
}

#[tokio::test]
async fn r11_a_queue_that_is_not_registered_is_not_made_by_a_declaration() {
    let queue = Queue::start().await;
    let other = QueueName::new("other").unwrap();
    let inc = Incarnation::new("inc-dead").unwrap();
    assert_eq!(queue.store.declare_dead(&other, &inc, 0, 100).await.unwrap(), Declared::default());
    assert_eq!(queue.redis::<Vec<String>>(&["KEYS", "lh:{other}:*"]), Vec::<String>::new());
}
