//! Lanes and owners from the command line, on a queue whose clock the test drives.

use std::time::Duration;

use leasehold_common::name::PhaseName;
use leasehold_common::store::{AbortRequest, NewTask, RetryAdvice, Teller};
use leasehold_tests::Leasehold;
use leasehold_tests::process::Finished;
use leasehold_tests::queue::{Hand, Queue, done, failed, lane, owner, task_with};
use serde_json::{Value, json};

/// A queue that the registry knows.
async fn ground() -> Queue {
    let queue = Queue::start().await;
    queue.store.announce_queue(&queue.name).await.unwrap();
    queue
}

fn run(queue: &Queue, arguments: &[&str]) -> Finished {
    Leasehold::new(&queue.server).args(arguments).run()
}

fn json_of(queue: &Queue, arguments: &[&str]) -> Value {
    Leasehold::new(&queue.server).arg("--json").args(arguments).run().success().json()
}

fn enqueue(queue: &Queue, id: &str, flags: &[&str]) {
    let arguments = ["enqueue", "q", "t", "--id", id];
    Leasehold::new(&queue.server).args(arguments).args(flags).run().success();
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn r80_r85_a_lane_shows_what_runs_what_waits_and_why_and_how_the_last_ones_ended() {
    let queue = ground().await;
    for id in ["a", "b", "c"] {
        enqueue(&queue, id, &["--lane", "user 7"]);
    }
    enqueue(&queue, "other", &["--lane", "z"]);
    let hand = Hand::new("w1");
    let first = queue.claim(&hand, 1).await.remove(0);
    let lanes = json_of(&queue, &["lane", "list", "q"]);
    let lane = &lanes["lanes"][0];
    assert_eq!((&lane["lane"], &lane["limit"], &lane["members"]), (&json!("user 7"), &json!(1), &json!(3)));
    assert_eq!((&lane["running"], &lane["oldest_waiting"]), (&json!(["a"]), &json!("b")));
    assert!(lane["waiting_since"].is_string() && lanes["lanes"][1]["oldest_waiting"].is_null(), "{lanes}");
    let table = run(&queue, &["lane", "list", "q"]).success();
    assert!(table.stdout.contains("user 7\t1\t3\ta\tb\t"), "{}", table.stdout);

    let shown = json_of(&queue, &["lane", "show", "q", "user 7"]);
    assert_eq!(
        (&shown["status"], &shown["task"], &shown["members"]),
        (&json!("running"), &json!("a"), &json!(3))
    );
    assert_eq!(ids(&shown["tasks"]), ["a", "b", "c"]);
    let why = |at: usize| shown["tasks"][at]["why"].as_str().unwrap();
    assert!(why(0).starts_with("on w1, started"), "{shown}");
    assert!(why(1).ends_with("1 ahead, 1 at a time") && why(2).ends_with("2 ahead, 1 at a time"), "{shown}");
    let task = json_of(&queue, &["task", "show", "c", "--queue", "q"]);
    assert_eq!((&task["state"], &task["lane"]), (&json!("waiting"), &json!("user 7")));
    assert!(task["waiting_since"].is_string(), "{task}");
    assert!(run(&queue, &["queue", "list"]).success().stdout.contains("waiting"));
    assert_eq!(json_of(&queue, &["queue", "show", "q"])["waiting"], 2);

    let limited = json_of(&queue, &["lane", "limit", "q", "user 7", "2"]);
    assert_eq!(limited, json!({ "queue": "q", "lane": "user 7", "limit": 2, "before": 1 }));
    assert_eq!(json_of(&queue, &["task", "show", "b", "--queue", "q"])["state"], "queued");
    queue.finish(&hand, failed(&first, RetryAdvice::Fatal)).await;
    let shown = json_of(&queue, &["lane", "show", "q", "user 7"]);
    assert_eq!(
        (&shown["status"], &shown["last_outcome"], &shown["limit"]),
        (&json!("failed"), &json!("failed"), &json!(2))
    );
    assert_eq!((ids(&shown["tasks"]), ids(&shown["ended"])), (vec!["b", "c"], vec!["a"]));
    let text = run(&queue, &["lane", "show", "q", "user 7"]).success().stdout;
    for words in ["status        failed", "has its turn: a worker claims it", "a\tfailed\tt\t"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    queue.check().await;
}

#[tokio::test]
async fn r97_lanes_and_owners_that_are_not_there_are_4_and_wrong_numbers_2() {
    let queue = ground().await;
    for arguments in [
        &["lane", "show", "q", "nobody's"][..],
        &["owner", "show", "q", "nobody"],
        &["lane", "list", "nope"],
        &["lane", "limit", "nope", "x", "2"],
    ] {
        run(&queue, arguments).expect_code(4);
    }
    for bad in ["0", "257", "-1", "1e3", ""] {
        let refused = run(&queue, &["lane", "limit", "q", "x", bad]).expect_code(2);
        assert!(
            refused.stderr.contains("invalid limit") && refused.stderr.contains("1 to 256"),
            "{bad}: {}",
            refused.stderr
        );
    }
    let refused = run(&queue, &["owner", "show", "q", "x", "--kind", "workspace"]).expect_code(2);
    assert!(refused.stderr.contains("handler or exec"), "{}", refused.stderr);
    assert!(run(&queue, &["lane", "list", "q"]).success().stderr.contains("no lane of queue q"));
    queue.check().await;
}

#[tokio::test]
async fn r29_an_owners_status_comes_from_its_own_tasks_and_a_kill_is_not_done() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    enqueue(&queue, "alien", &["--owner", "others"]);
    queue.claim(&hand, 1).await;
    enqueue(&queue, "one", &["--owner", "me"]);
    let show = |flags: &[&str]| {
        let finished =
            Leasehold::new(&queue.server).args(["owner", "show", "q", "me", "--json"]).args(flags).run();
        finished.success().json()
    };
    let idle = show(&[]);
    assert_eq!((&idle["status"], &idle["live"], &idle["running"]), (&json!("idle"), &json!(1), &json!(0)));
    assert_eq!((&idle["started_at"], &idle["last_outcome"]), (&Value::Null, &Value::Null));

    let one = queue.claim(&hand, 1).await.remove(0);
    let running = show(&[]);
    assert_eq!((&running["status"], &running["task"]), (&json!("running"), &json!("one")));
    assert!(running["started_at"].is_string() && running["ended_at"].is_null(), "{running}");
    run(&queue, &["task", "abort", "one", "--queue", "q"]).success();
    assert_eq!(show(&[])["status"], "aborting");
    queue.advance(3000);
    queue.finish(&hand, done(&one)).await;

    enqueue(&queue, "two", &["--owner", "me"]);
    let two = queue.claim(&hand, 1).await.remove(0);
    queue.advance(2000);
    queue.finish(&hand, failed(&two, RetryAdvice::Fatal)).await;
    let after = show(&[]);
    assert_eq!(
        (&after["status"], &after["task"], &after["runtime_ms"]),
        (&json!("failed"), &json!("two"), &json!(2000))
    );
    assert_eq!((ids(&after["tasks"]), &after["ended"]), (vec!["two", "one"], &json!(2)));

    // A command of the same owner that is killed: told apart by its kind, and as what it was.
    let exec = ["exec", "q", "--owner", "me", "--id", "cmd", "--", "true"];
    run(&queue, &exec).success();
    queue.advance(1000);
    run(&queue, &["task", "abort", "cmd", "--queue", "q"]).success();
    let killed = show(&["--kind", "exec"]);
    assert_eq!((&killed["status"], &killed["last_outcome"]), (&json!("idle"), &json!("aborted")));
    assert_eq!(ids(&killed["tasks"]), ["cmd"]);
    assert_eq!(show(&["--kind", "handler"])["status"], "failed");
    let page = show(&["--limit", "2"]);
    assert_eq!(ids(&page["tasks"]), ["cmd", "two"]);
    let rest = show(&["--limit", "2", "--cursor", page["next"].as_str().unwrap()]);
    assert_eq!((ids(&rest["tasks"]), &rest["next"]), (vec!["one"], &Value::Null));
    let text = run(&queue, &["owner", "show", "q", "me"]).success().stdout;
    assert!(text.contains("last outcome  aborted") && text.contains("two\tfailed\tt\t"), "{text}");
    queue.check().await;
}

#[tokio::test]
async fn r29_a_status_by_kind_is_that_of_the_last_of_the_kind_on_every_page() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    let kinds = ["--owner", "me", "--lane", "l"];
    run(&queue, &[&["exec", "q", "--id", "cmd"], &kinds[..], &["--", "false"]].concat()).success();
    let cmd = queue.claim(&hand, 1).await.remove(0);
    queue.finish(&hand, failed(&cmd, RetryAdvice::Fatal)).await;
    let show = |what: &str, name: &str, flags: &[&str]| {
        let arguments = [&[what, "show", "q", name, "--kind", "exec"], flags].concat();
        json_of(&queue, &arguments)
    };
    let ends = async |numbers: std::ops::Range<u32>| {
        let new = |n| {
            task_with(&format!("t{n}"), |t| {
                (t.body.owner, t.body.lane) = (Some(owner("me")), Some(lane("l")))
            })
        };
        let tasks: Vec<NewTask> = numbers.map(new).collect();
        for tasks in tasks.chunks(100) {
            queue.advance(10);
            queue.enqueue(tasks).await;
            let requests: Vec<AbortRequest> =
                tasks.iter().map(|task| AbortRequest::new(task.id.clone(), "me", "")).collect();
            queue.store.abort(&queue.name, &requests).await.unwrap();
        }
    };
    ends(0..24).await;
    assert_eq!(show("lane", "l", &[])["status"], "failed", "it is the 25th of the last ends");
    ends(24..300).await;
    for flags in [&[][..], &["--limit", "1"], &["--cursor", "200"]] {
        let shown = show("owner", "me", flags);
        assert_eq!((&shown["status"], &shown["task"]), (&json!("failed"), &json!("cmd")), "{flags:?}");
    }
    let shown = show("lane", "l", &[]);
    assert_eq!((&shown["status"], &shown["task"]), (&json!("unknown"), &Value::Null), "it is out of sight");
    let text = run(&queue, &["lane", "show", "q", "l", "--kind", "exec"]).success();
    assert!(text.stderr.contains("how it stands is not known"), "{}", text.stderr);
    assert_eq!(json_of(&queue, &["lane", "show", "q", "l"])["status"], "idle");
    ends(300..1000).await;
    let shown = show("owner", "me", &[]);
    assert_eq!((&shown["status"], &shown["last_outcome"]), (&json!("unknown"), &Value::Null));
    queue.check().await;
}

#[tokio::test]
async fn r29_what_runs_in_a_lane_counts_however_many_are_shown() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    run(&queue, &["lane", "limit", "q", "l", "3"]).success();
    for id in ["a", "b", "c"] {
        enqueue(&queue, id, &["--lane", "l"]);
    }
    let claimed = queue.claim(&hand, 3).await;
    for task in &claimed[..2] {
        queue.finish(&hand, failed(task, RetryAdvice::After(Duration::from_secs(60)))).await;
    }
    let shown = json_of(&queue, &["lane", "show", "q", "l", "--limit", "1"]);
    assert_eq!((&shown["status"], &shown["task"]), (&json!("running"), &json!("c")));
    queue.finish(&hand, done(&claimed[2])).await;
    queue.check().await;
}

#[tokio::test]
async fn r21_tasks_are_listed_by_owner_lane_state_and_phase_in_pages() {
    let queue = ground().await;
    let hand = Hand::new("w1");
    for id in ["a", "b", "c"] {
        enqueue(&queue, id, &["--owner", "me", "--lane", "l"]);
    }
    enqueue(&queue, "lone", &[]);
    let run_a = queue.claim(&hand, 1).await.remove(0);
    let phase = PhaseName::new("download").unwrap();
    let teller = Teller { incarnation: &hand.inc, id: &run_a.id, run: &run_a.run, number: 1 };
    queue.store.enter_phase(&queue.name, &teller, &phase, None).await.unwrap();
    let list = |flags: &[&str]| {
        let finished =
            Leasehold::new(&queue.server).args(["task", "list", "--queue", "q", "--json"]).args(flags).run();
        finished.success().json()
    };
    let owned = list(&["--owner", "me", "--limit", "2"]);
    assert_eq!(ids(&owned["tasks"])[0], "a", "what runs comes first: {owned}");
    let rest = list(&["--owner", "me", "--limit", "2", "--cursor", owned["next"].as_str().unwrap()]);
    assert_eq!((rest["tasks"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    assert_eq!(ids(&list(&["--owner", "me", "--state", "running"])["tasks"]), ["a"]);
    let lane = list(&["--lane", "l", "--limit", "2"]);
    assert_eq!(ids(&lane["tasks"]), ["a", "b"]);
    let cursor = lane["next"].as_str().unwrap();
    assert_eq!(ids(&list(&["--lane", "l", "--limit", "2", "--cursor", cursor])["tasks"]), ["c"]);
    assert_eq!(ids(&list(&["--lane", "l", "--state", "waiting"])["tasks"]), ["b", "c"]);
    let phased = list(&["--phase", "download"]);
    assert_eq!(
        (ids(&phased["tasks"]), &phased["tasks"][0]["phase"]["name"]),
        (vec!["a"], &json!("download"))
    );
    assert!(ids(&list(&["--phase", "upload"])["tasks"]).is_empty());
    // Without an owner a task is recorded all the same.
    assert!(ids(&list(&[])["tasks"]).contains(&"lone"));
    queue.finish(&hand, done(&run_a)).await;
    assert_eq!(ids(&list(&["--lane", "l", "--state", "completed"])["tasks"]), ["a"]);
    let table = run(&queue, &["task", "list", "--queue", "q", "--owner", "me"]).success();
    assert!(
        table.stdout.starts_with("id\tstate\tname\tattempt\tworker\tenqueued\towner\tlane\tphase\n"),
        "{}",
        table.stdout
    );
    run(&queue, &["task", "list", "--queue", "q", "--owner", "me", "--cursor", "x"]).expect_code(2);
    queue.check().await;
}
