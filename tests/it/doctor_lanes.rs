//! Lanes that somebody wrote into: the doctor sees it, a repair puts it right and opens none of them twice, and the sweep finds
//! what was lost in front.

use leasehold_common::doctor::{Report, examine, repair};
use leasehold_common::store::NewTask;
use leasehold_tests::queue::{Hand, Queue, T, done, in_lane, in_lane_with, lane, owner};

use crate::doctor_seeds::options;

async fn report(queue: &Queue) -> Report {
    examine(&queue.store, &options()).await.unwrap()
}

/// Repairs what `code` is among, and is clean after that.
async fn mend(queue: &Queue, code: &str) {
    let found = report(queue).await;
    assert!(found.of_code(code).count() > 0, "no {code} in\n{found}");
    repair(&queue.store, &found).await.unwrap();
    let after = report(queue).await;
    assert!(after.is_clean(), "{code} after its repair:\n{after}");
}

fn members(queue: &Queue) -> String {
    queue.keys().lane(&lane("l"))
}

fn hash(queue: &Queue) -> String {
    members(queue).rsplit(':').next().unwrap().to_owned()
}

fn order(queue: &Queue) -> String {
    queue.redis::<Vec<String>>(&["ZRANGE", &members(queue), "0", "-1"]).join(" ")
}

#[tokio::test]
async fn r80_r82_a_running_task_that_lost_its_place_gets_one_before_those_that_wait() {
    // Whatever the order in which the tasks are repaired.
    for [first, second, third] in [["t1", "t2", "t3"], ["t3", "t2", "t1"]] {
        let queue = Queue::start().await;
        let hand = Hand::new("w");
        let run = queue.running(&hand, in_lane(first)).await;
        queue.enqueue(&[in_lane(second), in_lane(third)]).await;
        queue.redis::<i64>(&["ZREM", &members(&queue), first]);
        mend(&queue, "missing-from-lane").await;
        assert_eq!(order(&queue), format!("{first} {second} {third}"));
        let all = format!("{first} {second} {third}");
        assert_eq!(queue.states(&all).await, "running waiting waiting", "one at a time");
        queue.check().await;
        queue.finish(&hand, done(&run)).await;
        assert_eq!(queue.states(&all).await, "completed queued waiting");
        queue.check().await;
        queue.limit_lane(4).await;
        assert_eq!(queue.states(&all).await, "completed queued queued", "a higher limit lets the rest go");
        queue.check().await;
    }
}

#[tokio::test]
async fn r80_r82_those_that_run_behind_waiting_ones_are_found_and_come_before_them() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.limit_lane(2).await;
    queue.enqueue(&["a", "b", "c", "d"].map(in_lane)).await;
    assert_eq!(queue.claim(&hand, 2).await.len(), 2);
    queue.redis::<i64>(&["ZADD", &members(&queue), "100", "a", "101", "b"]);
    assert_eq!(order(&queue), "c d a b");
    mend(&queue, "behind-waiting").await;
    assert_eq!(order(&queue), "a b c d");
    assert_eq!(queue.states("a b c d").await, "running running waiting waiting", "none was let go");
    queue.check().await;
}

#[tokio::test]
async fn r80_more_than_a_lane_may_let_go_are_told_of_and_a_lane_whose_limit_fell_is_not() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.enqueue(&["a", "b", "c", "d"].map(in_lane)).await;
    let mut runs = queue.claim(&hand, 1).await;
    // A sweep comes before the repair, and lets the next one go: nobody knows of the first.
    queue.redis::<i64>(&["ZREM", &members(&queue), "a"]);
    queue.limit_lane(1).await;
    assert_eq!(queue.states("a b c").await, "running queued waiting");
    queue.redis::<i64>(&["ZADD", &members(&queue), "-1", "a"]);
    mend(&queue, "over-limit").await;
    let row = || queue.redis::<String>(&["HGET", &queue.key("lanes"), &hash(&queue)]);
    assert_eq!(row(), "1<2 l");
    assert_eq!(queue.store.lane_limit(&queue.name, &lane("l")).await.unwrap(), 1);
    runs.extend(queue.claim(&hand, 1).await);
    queue.finish(&hand, done(&runs[0])).await;
    assert_eq!(queue.states("b c").await, "running waiting", "the limit holds again");
    queue.sweep_for(1000).await;
    assert_eq!(row(), "1 l", "and nothing is remembered");
    queue.finish(&hand, done(&runs[1])).await;
    assert_eq!(queue.states("c d").await, "queued waiting");
    // A limit that falls under those that were let go is no breach; with the last of them it is forgotten.
    queue.limit_lane(2).await;
    queue.limit_lane(1).await;
    assert_eq!((queue.states("c d").await.as_str(), row().as_str()), ("queued queued", "1<2 l"));
    queue.check().await;
}

#[tokio::test]
async fn r81_a_lane_whose_lost_task_is_in_front_of_one_that_runs_goes_on() {
    let start = async || {
        let queue = Queue::start().await;
        queue.limit_lane(2).await;
        queue.enqueue(&["a", "b", "c", "d", "e"].map(in_lane)).await;
        assert_eq!(queue.claim(&Hand::new("w"), 2).await.len(), 2);
        queue.redis::<i64>(&["DEL", &queue.key("task:a")]);
        queue
    };
    let queue = start().await;
    queue.sweep_for(1000).await;
    assert_eq!(queue.states("a b c d").await, "- running queued waiting", "by the next sweep");
    // Its row in the list of runs goes at its next look.
    queue.sweep_for(T).await;
    assert_eq!(queue.total("gone"), 1);
    queue.check().await;
    let queue = start().await;
    mend(&queue, "row-without-record").await;
    assert_eq!(queue.states("a b c d").await, "- running queued waiting", "by a repair");
    queue.check().await;
    let queue = start().await;
    queue.limit_lane(3).await;
    assert_eq!(queue.states("a b c d e").await, "- running queued queued waiting", "by a new limit");
}

#[tokio::test]
async fn r80_a_lane_that_is_not_listed_is_found_and_listed_again() {
    let queue = Queue::start().await;
    queue.limit_lane(2).await;
    queue.enqueue(&["a", "b", "c"].map(in_lane)).await;
    queue.redis::<i64>(&["HDEL", &queue.key("lanes"), &hash(&queue)]);
    mend(&queue, "lane-not-listed").await;
    let rows = queue.store.lanes(&queue.name, 10).await.unwrap();
    assert_eq!(
        (rows.len(), rows[0].limit, rows[0].members),
        (1, 1, 3),
        "with the limit that it has by default"
    );
    assert_eq!(queue.states("a b c").await, "queued queued waiting");
    queue.check().await;
}

#[tokio::test]
async fn r80_rows_of_lanes_and_owners_that_their_records_do_not_say_are_found_and_go() {
    let queue = Queue::start().await;
    queue.seed(&["stranger"]).await;
    queue.enqueue(&[in_lane_with("a", |t| t.body.owner = Some(owner("o")))]).await;
    let of_owner = queue.keys().owner(&owner("o"));
    for key in [members(&queue), queue.keys().lane_ends(&lane("l")), of_owner] {
        queue.redis::<i64>(&["ZADD", &key, "7", "stranger"]);
        mend(&queue, "row-of-another").await;
        assert_eq!(queue.redis::<Option<f64>>(&["ZSCORE", &key, "stranger"]), None);
        queue.check().await;
    }
}

#[tokio::test]
async fn r81_heavy_among_4_000_lanes_those_whose_first_task_was_lost_go_on_in_seconds() {
    const LANES: usize = 4000;
    let queue = Queue::start().await;
    let of_lane = |n: usize, name: String| -> NewTask {
        in_lane_with(&name, |t| {
            t.body.lane = Some(lane(&format!("l{n}")));
            t.body.payload = vec![7; 700];
        })
    };
    let tasks: Vec<NewTask> =
        (0..LANES).flat_map(|n| [of_lane(n, format!("a{n}")), of_lane(n, format!("b{n}"))]).collect();
    queue.enqueue(&tasks).await;
    for n in [7, 1234, 3999] {
        queue.redis::<i64>(&["DEL", &queue.key(&format!("task:a{n}"))]);
    }
    let (mut sweeps, mut best) = (0, u64::MAX);
    while queue.states("b7 b1234 b3999").await != "queued queued queued" {
        sweeps += 1;
        assert!(sweeps <= 10, "500 places a second: all have been seen by now");
        queue.advance(1000);
        queue.server.reset_stats();
        queue.sweep().await;
        let stats = queue.server.command_stats();
        best = best.min(stats["evalsha"].usec);
        // One look a lane, and one at all records of a page: no machine makes that noisy.
        let commands: u64 = stats.values().map(|stat| stat.calls).sum();
        assert!(commands < 700, "{commands} commands in a sweep");
    }
    println!("{sweeps} sweeps, {best} us at best");
    // What is there is found by a repair at once, wherever the sweep is.
    queue.redis::<i64>(&["DEL", &queue.key("task:a3000")]);
    repair(&queue.store, &report(&queue).await).await.unwrap();
    assert_eq!(queue.states("b3000").await, "queued");
}
