//! What is left when records are lost or places written into: found, and after a repair nothing is left of it.

use leasehold_common::bounds::Deadline;
use leasehold_common::doctor::{Options, Report, examine, repair};
use leasehold_common::state::TaskState;
use leasehold_common::store::{AbortAnswer, Repaired, When};
use leasehold_tests::queue::{Hand, Queue, T, done, id, in_lane_with, lane, ms, owner, task, task_with};

use crate::doctor_seeds::options;

async fn report(queue: &Queue) -> Report {
    examine(&queue.store, &options()).await.unwrap()
}

/// Tasks with an owner `o` and a deadline in every state: `done`, `running`, `scheduled`, `queued`, and of the lane `l` `first`
/// (queued) and `waits`.
async fn populated(hand: &Hand) -> Queue {
    let queue = Queue::start().await;
    let all = |t: &mut leasehold_common::store::NewTask| {
        t.body.owner = Some(owner("o"));
        t.body.bounds.deadline = Some(Deadline::After(ms(3_600_000)));
    };
    let ended = queue.running(hand, task_with("done", all)).await;
    queue.finish(hand, done(&ended)).await;
    queue.running(hand, task_with("running", all)).await;
    queue
        .enqueue(&[
            task_with("scheduled", |t| {
                all(t);
                t.when = When::After(ms(60_000));
            }),
            task_with("queued", all),
            in_lane_with("first", all),
            in_lane_with("waits", all),
        ])
        .await;
    queue
}

/// A breach by raw commands: `Q:` stands for the queue's prefix, `LANE`, `ENDS` and `OWNER` for keys.
type Seed = (&'static str, &'static [&'static [&'static str]]);

const SEEDS: &[Seed] = &[
    ("index-without-record", &[&["DEL", "Q:task:queued"]]),
    ("row-without-record", &[&["DEL", "Q:task:queued"]]),
    ("stray-entry", &[&["DEL", "Q:task:queued"]]),
    ("index-without-record", &[&["DEL", "Q:task:running"]]),
    ("index-without-record", &[&["DEL", "Q:task:scheduled"]]),
    ("index-without-record", &[&["DEL", "Q:task:done"]]),
    ("row-without-record", &[&["DEL", "Q:task:first"]]),
    ("row-without-record", &[&["DEL", "Q:task:waits"]]),
    ("row-without-record", &[&["DEL", "Q:task:waits"], &["ZREM", "Q:waiting", "waits"]]),
    ("totals-do-not-add-up", &[&["DEL", "Q:task:queued", "Q:ready:normal"]]),
    ("stray-entry", &[&["XADD", "Q:ready:low", "*", "i", "nobody"]]),
    ("stray-entry", &[&["XADD", "Q:ready:low", "*", "i", ""]]),
    ("stray-entry", &[&["XADD", "Q:ready:again", "*", "i", "queued"]]),
    ("stray-entry", &[&["XADD", "Q:ready:high", "*", "i", "done"]]),
    ("due-time-differs", &[&["ZADD", "Q:scheduled", "1800000000000", "scheduled"]]),
    ("look-too-far", &[&["ZADD", "Q:running", "+inf", "running"]]),
    ("deadline-differs", &[&["ZADD", "Q:deadlines", "+inf", "queued"]]),
    ("deadline-differs", &[&["ZADD", "Q:deadlines", "1700090000000", "running"]]),
    ("deadline-differs", &[&["ZADD", "Q:deadlines", "1", "waits"]]),
    ("deadline-row", &[&["ZREM", "Q:deadlines", "waits"]]),
    ("index-without-record", &[&["ZADD", "Q:scheduled", "1800000000000", "nobody"]]),
    ("index-without-record", &[&["ZADD", "Q:deadlines", "1800000000000", "nobody"]]),
    ("totals-do-not-add-up", &[&["DEL", "Q:totals"]]),
    ("totals-do-not-add-up", &[&["HINCRBY", "Q:totals", "enqueued", "5"]]),
    ("gone-but-there", &[&["ZADD", "Q:gone", "1", "queued"]]),
    ("lease-of-no-run", &[&["SET", "Q:lease:queued", "a b", "PX", "9000"]]),
    ("row-without-record", &[&["ZADD", "ENDS", "1", "nobody"]]),
    ("row-without-record", &[&["ZADD", "OWNER", "1", "nobody"]]),
    ("missing-from-lane", &[&["DEL", "LANE"]]),
    ("wrong-type", &[&["DEL", "Q:task:queued"], &["SADD", "Q:task:queued", "x"]]),
    ("record-unreadable", &[&["SET", "Q:task:waits", "junk"]]),
    ("record-unreadable", &[&["SET", "Q:task:running", "junk"]]),
    ("record-unreadable", &[&["SET", "Q:task:queued", "junk"]]),
];

#[tokio::test]
async fn r57_after_a_repair_nothing_is_left_of_a_lost_task_and_a_second_look_is_clean() {
    for (code, commands) in SEEDS {
        let hand = Hand::new("w");
        let queue = populated(&hand).await;
        queue.check().await;
        for command in *commands {
            let words: Vec<String> = command
                .iter()
                .map(|word| match (*word, word.strip_prefix("Q:")) {
                    ("LANE", _) => queue.keys().lane(&lane("l")),
                    ("ENDS", _) => queue.keys().lane_ends(&lane("l")),
                    ("OWNER", _) => queue.keys().owner(&owner("o")),
                    (_, Some(suffix)) => queue.key(suffix),
                    (word, None) => word.to_owned(),
                })
                .collect();
            queue.redis::<redis::Value>(&words.iter().map(String::as_str).collect::<Vec<_>>());
        }
        let found = report(&queue).await;
        assert!(found.of_code(code).count() > 0, "{commands:?}: no {code} in\n{found}");
        let mut repairs = repair(&queue.store, &found).await.unwrap();
        if let Some(bad) = found.of_code("record-unreadable").chain(found.of_code("wrong-type")).next() {
            // Its advice is followed.
            let bad = bad.id.clone().unwrap();
            assert!(repairs.iter().any(|r| r.id == bad.to_string() && r.done.is_none()), "{repairs:?}");
            let answer = queue.abort(bad.as_str()).await;
            assert!(matches!(answer, AbortAnswer::Corrupt), "{answer:?}");
            queue.redis::<i64>(&["UNLINK", &queue.key(&format!("task:{bad}"))]);
            repairs = repair(&queue.store, &report(&queue).await).await.unwrap();
        }
        let after = report(&queue).await;
        assert!(after.is_clean(), "{commands:?}, repaired as {repairs:?}:\n{after}");
        queue.check().await;
        assert_eq!(repair(&queue.store, &after).await.unwrap(), [], "{commands:?}: again");
    }
}

#[tokio::test]
async fn r57_a_thousand_and_more_rests_are_repaired_in_one_go() {
    let queue = Queue::start().await;
    for _ in 0..1500 {
        queue.redis::<String>(&["XADD", &queue.key("ready:low"), "*", "i", "nobody"]);
    }
    let thorough = Options { each: 10_000, ..options() };
    repair(&queue.store, &examine(&queue.store, &thorough).await.unwrap()).await.unwrap();
    queue.check().await;
}

#[tokio::test]
async fn r57_a_lost_task_counts_as_gone_once_whoever_finds_it() {
    for (lost, finder) in [
        ("running", "sweep"),
        ("scheduled", "sweep"),
        ("scheduled", "claim"),
        ("queued", "claim"),
        ("done", "cleanup"),
        ("waits", "lane"),
        ("queued", "repair"),
    ] {
        let queue = Queue::start().await;
        let hand = Hand::new("w");
        let in_lane = |name: &str| in_lane_with(name, |_| {});
        let ended = queue.running(&hand, task("done")).await;
        queue.finish(&hand, done(&ended)).await;
        let first = queue.running(&hand, in_lane("first")).await;
        queue.running(&hand, task("running")).await;
        let later = task_with("scheduled", |t| t.when = When::After(ms(1000)));
        queue.enqueue(&[later, task("queued"), in_lane("waits")]).await;
        queue.redis::<i64>(&["DEL", &queue.key(&format!("task:{lost}"))]);
        match finder {
            "sweep" => drop(queue.sweep_for(T).await),
            "claim" => {
                queue.advance(1000);
                queue.claim(&hand, 9).await;
            }
            "cleanup" => {
                queue.advance(30 * 86_400_000);
                queue.store.cleanup(&queue.name, 100).await.unwrap();
            }
            "lane" => drop(queue.finish(&hand, done(&first)).await),
            _ => drop(repair(&queue.store, &report(&queue).await).await.unwrap()),
        }
        for _ in 0..2 {
            queue.sweep().await;
            assert_eq!(queue.total("gone"), 1, "{lost} by {finder}");
        }
        queue.check().await;
    }
}

#[tokio::test]
async fn r09_a_deadline_that_cannot_be_is_put_right_by_the_sweep_and_ends_its_task() {
    let queue = Queue::start().await;
    let deadline = Some(Deadline::After(ms(60_000)));
    queue
        .enqueue(&[
            task_with("queued", |t| t.body.bounds.deadline = deadline),
            task_with("scheduled", |t| t.when = When::After(ms(60_000))),
        ])
        .await;
    let due = queue.score("deadlines", "queued");
    queue.redis::<i64>(&["ZADD", &queue.key("deadlines"), "+inf", "queued", "+inf", "nobody"]);
    queue.redis::<i64>(&["ZADD", &queue.key("scheduled"), "+inf", "scheduled"]);
    queue.sweep_for(1000).await;
    assert_eq!(queue.score("deadlines", "queued"), due);
    queue.sweep_for(60_000).await;
    assert_eq!(queue.states("queued scheduled").await, "timed_out queued");
    queue.check().await;
}

/// Its next claims are refused, as when a worker of its name had been started again.
fn declare(queue: &Queue, hand: &Hand) {
    let memory = "redis.call('SET', KEYS[1], cmsgpack.pack({ n = 1, ids = '', dead = 1 }), 'PX', 60000)";
    queue.redis::<()>(&["EVAL", memory, "1", &queue.keys().claim(&hand.inc)]);
}

#[tokio::test]
async fn r06_r82_a_run_whose_worker_is_recorded_dead_is_closed_by_the_repair_and_the_sweep_too() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(3 * T).await;
    queue.running(&hand, task("a")).await;
    declare(&queue, &hand);
    let found = report(&queue).await;
    assert_eq!(found.of_code("owner-dead").count(), 1, "{found}");
    let answer = queue.store.repair(&queue.name, &[id("a")], "doctor").await.unwrap();
    assert_eq!(answer, [Repaired::Mended("its run was closed: it died".to_owned())]);
    let record = queue.record("a").await;
    let reconciled = record.reconciled.unwrap();
    assert_eq!((record.state, record.reclaims), (TaskState::Queued, 1));
    assert_eq!((reconciled.by.as_str(), reconciled.reason.as_str()), ("doctor", "it died"));
    queue.check().await;
    // The sweep that misses the lease need not look twice.
    let queue = Queue::start().await;
    queue.sweep_for(3 * T).await;
    queue.running(&hand, task("a")).await;
    declare(&queue, &hand);
    queue.sweep_for(T).await;
    assert_eq!(queue.record("a").await.state, TaskState::Queued);
    queue.check().await;
}
