//! Aborting many tasks from the command line, by what they have in common.

use leasehold_common::name::{Lane, Owner, TaskName};
use leasehold_common::state::TaskState;
use leasehold_common::store::{NewTask, When};
use leasehold_tests::process::Finished;
use leasehold_tests::queue::{Hand, Queue, done, task_with};
use leasehold_tests::{Leasehold, RedisServer};
use serde_json::{Value, json};

async fn ground() -> Queue {
    let queue = Queue::start().await;
    queue.store.announce_queue(&queue.name).await.unwrap();
    queue
}

fn abort(queue: &Queue, flags: &[&str]) -> Finished {
    Leasehold::new(&queue.server).args(["task", "abort", "--queue", "q"]).args(flags).run()
}

fn counts(queue: &Queue, flags: &[&str]) -> (u64, u64, u64) {
    let told =
        Leasehold::new(&queue.server).args(["task", "abort", "--queue", "q", "--json"]).args(flags).run();
    let told = told.success().json();
    let number = |field: &str| told[field].as_u64().unwrap_or_else(|| panic!("{field}: {told}"));
    (number("found"), number("ended"), number("requested"))
}

fn owned(name: &str, owner: &str) -> NewTask {
    task_with(name, |task| task.body.owner = Some(Owner::new(owner).unwrap()))
}

fn in_lane(name: &str, lane: &str) -> NewTask {
    task_with(name, |task| task.body.lane = Some(Lane::new(lane).unwrap()))
}

#[tokio::test]
async fn r03_r21_all_tasks_of_an_owner_are_aborted_and_nobody_elses() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    let mine: Vec<NewTask> = (0..250).map(|n| owned(&format!("mine-{n}"), "me")).collect();
    queue.enqueue(&mine).await;
    let running = queue.claim(&hand, 3).await;
    queue.enqueue(&[owned("yours", "you")]).await;
    queue.enqueue(&[task_with("ended", |task| task.body.owner = Some(Owner::new("me").unwrap()))]).await;

    let dry = abort(&queue, &["--owner", "me", "--dry-run", "--json"]).success().json();
    assert_eq!((&dry["found"], &dry["dry_run"]), (&json!(251), &json!(true)));
    assert_eq!(dry["tasks"].as_array().unwrap().len(), 251);
    let listed = abort(&queue, &["--owner", "me", "--dry-run"]).success();
    assert!(listed.stderr.contains("251 tasks would be aborted; nothing was done"), "{}", listed.stderr);
    assert_eq!(listed.stdout.lines().count(), 252);
    let refused = abort(&queue, &["--owner", "me"]).expect_code(2);
    assert!(refused.stderr.contains("251 tasks") && refused.stderr.contains("--yes"), "{}", refused.stderr);
    assert_eq!(queue.total("aborted"), 0, "nothing was done so far");

    let done_all = abort(&queue, &["--owner", "me", "--yes", "--reason", "user left"]).success();
    assert_eq!(done_all.line(), "251 tasks: 248 aborted at once, 3 asked to end");
    assert!(done_all.stderr.contains("100 of 251 tasks"), "{}", done_all.stderr);
    for task in &running {
        assert_eq!(queue.record(task.id.as_str()).await.state, TaskState::Aborting);
    }
    let record = queue.record("mine-200").await;
    assert_eq!(
        (record.state, record.stop.unwrap().reason.as_deref()),
        (TaskState::Aborted, Some("user left"))
    );
    assert_eq!(queue.state("yours").await, Some(TaskState::Queued));
    assert_eq!(counts(&queue, &["--owner", "me", "--yes"]), (0, 0, 0), "a second time finds none");
    assert_eq!(counts(&queue, &["--state", "aborting", "--yes", "--grace", "0s"]), (3, 0, 3));
    for task in &running {
        queue.finish(&hand, done(task)).await;
    }
    queue.check().await;
}

#[tokio::test]
async fn a_lane_is_emptied_without_starting_what_waits() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    let lane: Vec<NewTask> = (0..130).map(|n| in_lane(&format!("l-{n}"), "l")).collect();
    queue.enqueue(&lane).await;
    let later = task_with("later", |task| {
        task.body.lane = Some(Lane::new("l").unwrap());
        task.when = When::After(std::time::Duration::from_secs(60));
    });
    queue.enqueue(&[later, in_lane("other", "m")]).await;
    let first = queue.claim(&hand, 1).await.remove(0);
    assert_eq!(counts(&queue, &["--lane", "l", "--yes"]), (131, 130, 1));
    let moves = |id: &str| queue.moves(id);
    assert_eq!(moves("l-1"), [">waiting", "waiting>aborted"], "it never had its turn");
    assert_eq!(moves("l-129"), [">waiting", "waiting>aborted"]);
    assert_eq!(queue.state("other").await, Some(TaskState::Queued));
    queue.finish(&hand, done(&first)).await;
    queue.check().await;
}

#[tokio::test]
async fn tasks_are_aborted_by_name_and_state() {
    let queue = ground().await;
    let named = |id: &str, name: &str| task_with(id, |task| task.body.name = TaskName::new(name).unwrap());
    queue.enqueue(&[named("a", "mail"), named("b", "resize"), named("c", "mail")]).await;
    let later = task_with("d", |task| {
        task.body.name = TaskName::new("mail").unwrap();
        task.when = When::After(std::time::Duration::from_secs(60));
    });
    queue.enqueue(&[later]).await;
    // One alone is no more than an ID would be: nobody is asked.
    assert_eq!(counts(&queue, &["--name", "mail", "--state", "scheduled"]), (1, 1, 0));
    assert_eq!(queue.state("a").await, Some(TaskState::Queued));
    assert_eq!(counts(&queue, &["--name", "mail", "--yes"]), (2, 2, 0));
    assert_eq!(queue.state("b").await, Some(TaskState::Queued));
    assert_eq!(counts(&queue, &["--name", "nothing"]), (0, 0, 0));
    queue.check().await;
}

#[test]
fn r97_an_abort_names_one_task_or_a_filter_of_live_ones() {
    let nobody = "redis://127.0.0.1:1/";
    for (flags, words) in [
        (&[][..], "--owner, --lane, --name or --state"),
        (&["--yes"], "name a task by its ID"),
        (&["x", "--owner", "me"], "do not go together"),
        (&["x", "--dry-run"], "do not go together"),
        (&["--state", "failed"], "failed is an end"),
        (&["--state", "done"], "invalid state"),
        (&["--owner", ""], "invalid owner"),
    ] {
        let refused = Leasehold::new(nobody).args(["task", "abort"]).args(flags).run().expect_code(2);
        assert!(refused.stderr.contains(words), "{flags:?}: {}", refused.stderr);
    }
    let redis = RedisServer::start();
    let missing = Leasehold::new(&redis).args(["task", "abort", "--queue", "q", "--owner", "me"]).run();
    missing.expect_code(4);
    let json: Value = Leasehold::new(&redis).args(["queue", "list", "--json"]).run().success().json();
    assert_eq!(json["queues"], json!([]), "looking makes nothing");
}
