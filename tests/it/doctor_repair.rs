//! `doctor --repair`: places follow the records, and what is closed is closed by the proof of the sweep alone.

use leasehold_common::doctor::{examine, repair};
use leasehold_common::name::{Lane, Owner};
use leasehold_common::state::TaskState;
use leasehold_common::store::{NewTask, Repaired, When};
use leasehold_tests::queue::{B, Hand, Queue, T, done, id, ms, task, task_with};

use crate::doctor_seeds::options;

fn in_lane(name: &str) -> NewTask {
    task_with(name, |t| {
        t.body.lane = Some(Lane::new("l").unwrap());
        t.body.owner = Some(Owner::new("o").unwrap());
    })
}

/// A queue with a task in every place: `scheduled`, `dl` (queued, with a deadline), `running`, `done`, and in the lane
/// `first` (queued) and `waits`.
async fn populated(hand: &Hand) -> Queue {
    let queue = Queue::start().await;
    let ended = queue.running(hand, task("done")).await;
    queue.finish(hand, done(&ended)).await;
    queue.running(hand, task("running")).await;
    let deadline = leasehold_common::bounds::Deadline::After(ms(600_000));
    queue
        .enqueue(&[
            task_with("scheduled", |t| t.when = When::After(ms(60_000))),
            task_with("dl", |t| t.body.bounds.deadline = Some(deadline)),
            in_lane("first"),
            in_lane("waits"),
        ])
        .await;
    queue
}

async fn mend(queue: &Queue) -> Vec<(String, Option<String>)> {
    let report = examine(&queue.store, &options()).await.unwrap();
    assert!(!report.is_clean(), "the breach is found\n{report}");
    let repairs = repair(&queue.store, &report).await.unwrap();
    repairs.into_iter().map(|r| (r.id.to_string(), r.done)).collect()
}

#[tokio::test]
async fn r82_the_doctor_puts_a_task_back_where_its_record_says_and_says_so() {
    let lane = |queue: &Queue| queue.keys().lane(&Lane::new("l").unwrap());
    let owner = |queue: &Queue| queue.keys().owner(&Owner::new("o").unwrap());
    let key = |suffix: &'static str| move |queue: &Queue| queue.key(suffix);
    type KeyOf = Box<dyn Fn(&Queue) -> String>;
    let breaks: Vec<(&str, Vec<&str>, KeyOf)> = vec![
        ("scheduled", vec!["ZREM", "KEY", "scheduled"], Box::new(key("scheduled"))),
        ("running", vec!["ZREM", "KEY", "running"], Box::new(key("running"))),
        ("done", vec!["ZREM", "KEY", "done"], Box::new(key("done:completed"))),
        ("done", vec!["ZADD", "KEY", "1", "done"], Box::new(key("scheduled"))),
        ("dl", vec!["DEL", "KEY"], Box::new(key("ready:normal"))),
        ("dl", vec!["ZREM", "KEY", "dl"], Box::new(key("deadlines"))),
        ("waits", vec!["ZREM", "KEY", "waits"], Box::new(key("waiting"))),
        ("waits", vec!["ZREM", "KEY", "waits"], Box::new(lane)),
        ("first", vec!["ZREM", "KEY", "first"], Box::new(owner)),
    ];
    for (broken, command, key_of) in breaks {
        let hand = Hand::new("w");
        let queue = populated(&hand).await;
        queue.check().await;
        let key = key_of(&queue);
        let words: Vec<&str> =
            command.iter().map(|word| if *word == "KEY" { key.as_str() } else { word }).collect();
        queue.redis::<i64>(&words);
        let mended = mend(&queue).await;
        let told = mended.iter().find(|(task, _)| task == broken);
        let what = told.and_then(|(_, done)| done.clone()).unwrap_or_else(|| panic!("{words:?}: {mended:?}"));
        let record = queue.record(broken).await;
        let reconciled = record.reconciled.unwrap_or_else(|| panic!("{words:?} leaves a mark"));
        assert_eq!((reconciled.by.as_str(), reconciled.reason), ("doctor", what));
        assert!(queue.events().iter().flatten().any(|m| m.id == broken && m.why.starts_with(b"repaired")));
        queue.check().await;
    }
}

#[tokio::test]
async fn r84_a_lane_that_was_held_back_by_a_lost_row_goes_on_after_the_repair() {
    let hand = Hand::new("w");
    let queue = populated(&hand).await;
    // The first of the lane was lost with all it has.
    let lost = queue.record("first").await;
    assert_eq!(lost.state, TaskState::Queued);
    queue.redis::<i64>(&["DEL", &queue.key("task:first")]);
    mend(&queue).await;
    queue.sweep().await;
    assert_eq!(queue.record("waits").await.state, TaskState::Queued);
}

#[tokio::test]
async fn r82_a_repair_closes_a_run_only_by_the_proof_of_the_sweep() {
    let hand = Hand::new("w");
    let queue = populated(&hand).await;
    let repaired = async |name: &str| {
        let ids = [id(name)];
        queue.store.repair(&queue.name, &ids, "doctor").await.unwrap().remove(0)
    };
    assert_eq!(repaired("running").await, Repaired::Sound);
    // Its lease is over, but nobody has looked twice.
    queue.advance(T + 1);
    assert_eq!(repaired("running").await, Repaired::Sound);
    queue.sweep_for(B).await;
    assert_eq!(queue.record("running").await.state, TaskState::Running);
    // The second look is due, and the doctor comes before the reaper.
    for _ in 0..20 {
        queue.advance(1000);
        let suspected = queue.record("running").await.suspected;
        if suspected && repaired("running").await != Repaired::Sound {
            break;
        }
        queue.redis::<()>(&[
            "EVAL",
            "redis.call('HINCRBY', KEYS[1], 'watch', 1000) redis.call('HINCRBY', KEYS[1], 'last', 1000)",
            "1",
            &queue.key("pulse"),
        ]);
    }
    let record = queue.record("running").await;
    assert_eq!((record.state, record.reclaims), (TaskState::Queued, 1));
    assert_eq!(record.reconciled.unwrap().by, "doctor");
    queue.check().await;
}

#[tokio::test]
async fn r82_what_is_sound_or_unreadable_is_left_alone_and_rests_of_no_task_go() {
    let hand = Hand::new("w");
    let queue = populated(&hand).await;
    let names = ["scheduled", "dl", "running", "done", "first", "waits"].map(id);
    let before = queue.digest();
    let answers = queue.store.repair(&queue.name, &names, "doctor").await.unwrap();
    assert!(answers.iter().all(|answer| *answer == Repaired::Sound), "{answers:?}");
    assert_eq!(queue.digest(), before);
    queue.redis::<()>(&["SET", &queue.key("task:done"), "junk"]);
    queue.redis::<i64>(&["RPUSH", &queue.key("errors:nobody"), "x"]);
    queue.redis::<i64>(&["ZADD", &queue.key("deadlines"), "1", "nobody"]);
    let answers = queue.store.repair(&queue.name, &[id("done"), id("nobody")], "doctor").await.unwrap();
    assert_eq!(answers[0], Repaired::Corrupt);
    assert!(matches!(&answers[1], Repaired::Removed(_)), "{answers:?}");
    assert_eq!(queue.redis::<i64>(&["EXISTS", &queue.key("errors:nobody")]), 0);
    assert_eq!(queue.score("deadlines", "nobody"), None);
}
