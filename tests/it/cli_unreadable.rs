//! A record that nobody can read: every view shows the rest and says which it is, and no command fails for the others.

use leasehold_common::state::TaskState;
use leasehold_producer::{DeleteAnswer, RetryAnswer};
use leasehold_tests::Leasehold;
use leasehold_tests::process::Finished;
use leasehold_tests::queue::{Queue, lane};
use serde_json::{Value, json};

use crate::producer_kit::{Add, Kit, id, queue as named};

/// Three tasks of one owner and lane, the second of which is junk.
struct Scene {
    queue: Queue,
    record: String,
    kept: String,
}

impl Scene {
    async fn new() -> Self {
        let queue = Queue::start().await;
        queue.store.announce_queue(&queue.name).await.unwrap();
        for id in ["o1", "o2", "o3"] {
            let task = ["enqueue", "q", "t", "--id", id, "--owner", "w", "--lane", "l"];
            Leasehold::new(&queue.server).args(task).run().success();
        }
        let (record, kept) = (queue.key("task:o2"), queue.key("kept"));
        queue.redis::<()>(&["COPY", &record, &kept]);
        Self { queue, record, kept }
    }

    fn put(&self, words: &[&str]) {
        self.queue.redis::<()>(&["DEL", &self.record]);
        self.queue.redis::<()>(words);
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        Leasehold::new(&self.queue.server).args(arguments).run()
    }

    /// What a view shows, as text and as JSON: the sound ones, and a word about the other.
    #[track_caller]
    fn view(&self, arguments: &[&str]) -> Value {
        let text = self.run(arguments).success();
        let words = "warning: the record of task o2 cannot be read: `leasehold doctor` tells more";
        assert!(text.stderr.contains(words), "{arguments:?}: {}", text.stderr);
        assert!(!text.stdout.contains("o2"), "{arguments:?}: {}", text.stdout);
        Leasehold::new(&self.queue.server).arg("--json").args(arguments).run().success().json()
    }

    /// Puts the record back, so that the queue can be judged.
    async fn end(self) {
        self.queue.redis::<()>(&["RENAME", &self.kept, &self.record]);
        // Its lane could not let it go meanwhile.
        self.queue.limit_lane_of(&lane("l"), 1).await;
        self.queue.check().await;
    }
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn r01_r85_a_record_that_cannot_be_read_hides_no_other_task() {
    let scene = Scene::new().await;
    let record = scene.record.clone();
    for junk in [&["SET", &record, "junk"][..], &["HSET", &record, "a", "b"]] {
        scene.put(junk);
        let list = scene.view(&["task", "list", "--queue", "q"]);
        let mut shown = ids(&list["tasks"]);
        shown.sort_unstable();
        assert_eq!((shown, &list["unreadable"]), (vec!["o1", "o3"], &json!(["o2"])));
        for filter in [["--owner", "w"], ["--lane", "l"], ["--state", "waiting"]] {
            let flags = ["task", "list", "--queue", "q", filter[0], filter[1]];
            assert_eq!(scene.view(&flags)["unreadable"], json!(["o2"]), "{filter:?}");
        }
        let owner = scene.view(&["owner", "show", "q", "w"]);
        assert_eq!((ids(&owner["tasks"]).len(), &owner["unreadable"]), (2, &json!(["o2"])));
        let lanes = scene.view(&["lane", "list", "q"]);
        let lane = &lanes["lanes"][0];
        assert_eq!((&lane["unreadable"], &lane["oldest_waiting"]), (&json!(["o2"]), &json!("o3")));
        let lane = scene.view(&["lane", "show", "q", "l"]);
        assert_eq!((ids(&lane["tasks"]), &lane["unreadable"]), (vec!["o1", "o3"], &json!(["o2"])));
        assert_eq!(lane["tasks"][1]["place"], 3, "its place is its own: {lane}");
        assert!(lane["tasks"][1]["why"].as_str().unwrap().contains("2 ahead"), "{lane}");
        let told = scene.run(&["task", "explain", "o3", "--queue", "q"]).success().stdout;
        for words in ["2 are ahead of it", "The record of task o2", "cannot be read"] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }
    scene.put(&["SET", &record, "junk"]);
    scene.run(&["task", "show", "o2", "--queue", "q"]).expect_code(1);
    scene.end().await;
}

#[tokio::test]
async fn r01_an_abort_by_filter_counts_what_it_cannot_read_and_aborts_the_rest() {
    let scene = Scene::new().await;
    scene.put(&["SET", &scene.record, "junk"]);
    let dry = scene.view(&["task", "abort", "--queue", "q", "--lane", "l", "--dry-run"]);
    assert_eq!((&dry["found"], &dry["corrupt"], &dry["unreadable"]), (&json!(2), &json!(1), &json!(["o2"])));
    let abort = ["task", "abort", "--queue", "q", "--owner", "w", "--yes"];
    let done = scene.run(&[&abort[..], &["--json"]].concat()).expect_code(1).json();
    assert_eq!((&done["found"], &done["ended"], &done["corrupt"]), (&json!(3), &json!(2), &json!(1)));
    assert_eq!(done["unreadable"], json!(["o2"]));
    for id in ["o1", "o3"] {
        assert_eq!(scene.queue.state(id).await, Some(TaskState::Aborted));
    }
    let again = scene.run(&abort).expect_code(1);
    assert_eq!(again.line(), "1 tasks: 0 aborted at once, 0 asked to end, 1 cannot be read");
    scene.end().await;
}

#[tokio::test]
async fn r92_a_record_that_cannot_be_read_is_answered_for_among_many() {
    let kit = Kit::new().await;
    let ids = ["a", "b", "c"].map(id);
    for id in &ids {
        kit.producer.enqueue(Add { a: 1, b: 2 }).id(id.clone()).await.unwrap().abort("").await.unwrap();
    }
    let (record, kept) = ("lh:{default}:task:b", "lh:{default}:kept");
    kit.redis.command::<()>(&["RENAME", record, kept]);
    kit.redis.command::<()>(&["SET", record, "junk"]);
    let retried = RetryAnswer::Retried(TaskState::Queued);
    let answers = kit.producer.retry_many(&named("default"), &ids).await.unwrap();
    assert_eq!(answers, [retried, RetryAnswer::Corrupt, retried]);
    let live = DeleteAnswer::Live(TaskState::Queued);
    let answers = kit.producer.delete_many(&named("default"), &ids).await.unwrap();
    assert_eq!(answers, [live, DeleteAnswer::Corrupt, live]);
    kit.redis.command::<()>(&["RENAME", kept, record]);
    kit.end().await;
}
