//! Lanes: the tasks of one go in order, as many at a time as its limit says, and whatever ends one lets the next one go.

use leasehold_common::bounds::Deadline;
use leasehold_common::policy::Priority;
use leasehold_common::record::{FailureDetail, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{Enqueued, Outcome, QueueSettings, RetryAdvice, RetryMode, When};
use leasehold_tests::queue::{
    B, Hand, Queue, T, done, end, failed, in_lane, in_lane_with, lane, ms, task, task_with,
};

fn only<T: std::fmt::Debug>(mut all: Vec<T>) -> T {
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[tokio::test]
async fn r80_a_lane_keeps_its_order_through_all_that_brings_a_task_back() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    queue.enqueue(&[in_lane("a"), in_lane("b")]).await;
    // Neither a higher priority nor another batch overtakes; another lane and no lane do not wait.
    queue.enqueue(&[in_lane_with("c", |t| t.body.priority = Priority::Urgent)]).await;
    queue.enqueue(&[in_lane_with("other", |t| t.body.lane = Some(lane("m"))), task("free")]).await;
    assert_eq!(queue.states("a b c other free").await, "queued waiting waiting queued queued");
    let runs = queue.claim(&hand, 9).await;
    assert_eq!(runs.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(), ["a", "other", "free"]);
    queue.finish(&hand, done(&runs[1])).await;
    queue.finish(&hand, done(&runs[2])).await;
    queue.finish(&hand, failed(&runs[0], RetryAdvice::After(ms(1000)))).await;
    let still = async |when: &str| {
        assert_eq!(queue.states("b c").await, "waiting waiting", "{when}");
        queue.check().await;
    };
    still("a waits for its next attempt").await;
    assert!(queue.claim(&hand, 9).await.is_empty());
    queue.sweep_for(1000).await;
    let run = only(queue.claim(&hand, 9).await);
    queue.finish(&hand, end(&run, Outcome::Snoozed(ms(500)))).await;
    still("a snoozes").await;
    queue.sweep_for(500).await;
    let run = only(queue.claim(&hand, 9).await);
    queue.finish(&hand, end(&run, Outcome::Released)).await;
    still("a was handed back").await;
    only(queue.claim(&hand, 9).await);
    queue.sweep_for(T + 7000).await;
    still("a was reclaimed").await;
    let run = only(queue.claim(&hand, 9).await);
    assert_eq!((run.id.as_str(), run.attempt, run.reclaims), ("a", 5, 1));
    queue.finish(&hand, done(&run)).await;
    for name in ["b", "c"] {
        let run = only(queue.claim(&hand, 9).await);
        assert_eq!(run.id.as_str(), name);
        queue.finish(&hand, done(&run)).await;
        queue.check().await;
    }
}

#[tokio::test]
async fn r80_a_limit_lets_so_many_go_and_a_lower_one_holds_for_those_that_come() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.enqueue(&["a", "b", "c", "d", "e", "f"].map(in_lane)).await;
    queue.take_wake();
    assert_eq!(queue.limit_lane(2).await, 1, "the one before");
    assert!(queue.take_wake(), "more is claimable");
    assert_eq!(queue.states("a b c d e f").await, "queued queued waiting waiting waiting waiting");
    assert_eq!(queue.limit_lane(4).await, 2);
    let before = queue.digest();
    assert_eq!(queue.limit_lane(4).await, 4);
    assert_eq!(queue.digest(), before, "a repeat changes nothing");
    let runs = queue.claim(&hand, 9).await;
    assert_eq!(runs.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert_eq!(queue.limit_lane(2).await, 4);
    // One of those that were let go before comes back: it is not held back again.
    queue.finish(&hand, end(&runs[2], Outcome::Snoozed(ms(1)))).await;
    queue.sweep_for(1).await;
    assert_eq!(queue.states("c e").await, "queued waiting");
    queue.finish(&hand, done(&runs[0])).await;
    queue.finish(&hand, done(&runs[1])).await;
    assert_eq!(queue.states("c d e").await, "queued running waiting", "two have their turn still");
    queue.finish(&hand, done(&runs[3])).await;
    assert_eq!(queue.states("c e f").await, "queued queued waiting");
    for bad in [0, 257, u32::MAX] {
        assert!(queue.store.set_lane_limit(&queue.name, &lane("l"), bad).await.is_err(), "{bad}");
    }
    queue.check().await;
}

#[tokio::test]
async fn a_limit_outlives_the_tasks_of_its_lane_and_an_idle_lane_without_one_leaves_nothing() {
    let settings = QueueSettings { retain_completed: ms(0), ..QueueSettings::default() };
    let queue = Queue::with(settings).await;
    let hand = Hand::new("w");
    let rows = || queue.redis::<u64>(&["HLEN", &queue.key("lanes")]);
    let run = queue.running(&hand, in_lane("a")).await;
    assert_eq!(rows(), 1);
    queue.finish(&hand, done(&run)).await;
    assert_eq!(rows(), 0, "nothing is kept of it");
    assert!(queue.redis::<Vec<String>>(&["KEYS", "*lane*"]).is_empty());
    queue.limit_lane(3).await;
    queue.enqueue(&["b", "c", "d", "e"].map(in_lane)).await;
    assert_eq!(queue.states("b c d e").await, "queued queued queued waiting");
    for _ in 0..4 {
        let run = queue.claim(&hand, 1).await.remove(0);
        queue.finish(&hand, done(&run)).await;
    }
    assert_eq!(queue.store.lane_limit(&queue.name, &lane("l")).await.unwrap(), 3);
    queue.limit_lane(1).await;
    assert_eq!(rows(), 0);
    queue.check().await;
}

/// All that ends the first task of a lane, each on a queue of its own.
const WAYS: [&str; 16] = [
    "completed",
    "failed",
    "timed out by its run",
    "released, but never started twice",
    "discarded",
    "aborted while queued",
    "aborted while scheduled",
    "aborted while running",
    "aborted, then its owner died",
    "late while queued, by a sweep",
    "late while queued, by a claim",
    "late while scheduled",
    "late while running, past its hard end",
    "past its hard end",
    "lost its worker too often",
    "its body is missing",
];

async fn end_first(queue: &Queue, hand: &Hand, way: &str) {
    let run = if way.contains("queued") || way.contains("body") {
        None
    } else {
        Some(queue.claim(hand, 1).await.remove(0))
    };
    let run = run.as_ref();
    let finish = async |finish| queue.finish(hand, finish).await;
    match way {
        "completed" | "discarded" => drop(finish(done(run.unwrap())).await),
        "failed" => drop(finish(failed(run.unwrap(), RetryAdvice::Fatal)).await),
        "timed out by its run" => {
            let (cause, detail) = (StopCause::RunTimeout, FailureDetail::default());
            let outcome = Outcome::Stopped { cause, message: "late".to_owned(), detail };
            finish(end(run.unwrap(), outcome)).await;
        }
        "released, but never started twice" => drop(finish(end(run.unwrap(), Outcome::Released)).await),
        "aborted while queued" => drop(queue.abort("a").await),
        "aborted while scheduled" => {
            finish(end(run.unwrap(), Outcome::Snoozed(ms(5000)))).await;
            queue.abort("a").await;
        }
        "aborted while running" => {
            queue.abort("a").await;
            assert_eq!(queue.states("a b c").await, "aborting waiting waiting", "until it has really ended");
            let (cause, detail) = (StopCause::Abort, FailureDetail::default());
            finish(end(run.unwrap(), Outcome::Stopped { cause, message: String::new(), detail })).await;
        }
        "aborted, then its owner died" => {
            queue.abort("a").await;
            queue.sweep_for(T + 7000).await;
        }
        "late while queued, by a sweep" => drop(queue.sweep_for(60_000).await),
        "late while queued, by a claim" => {
            queue.advance(60_000);
            assert!(queue.claim(hand, 1).await.is_empty(), "nothing else was ready");
        }
        "late while scheduled" => {
            finish(end(run.unwrap(), Outcome::Snoozed(ms(90_000)))).await;
            queue.sweep_for(60_000).await;
        }
        "late while running, past its hard end" | "past its hard end" => {
            for _ in 0..120 {
                queue.sweep_for(1000).await;
                queue.beat(hand, run.unwrap()).await;
            }
        }
        "lost its worker too often" => drop(queue.sweep_for(T + 7000).await),
        "its body is missing" => {
            queue.redis::<()>(&["DEL", &queue.key("body:a")]);
            queue.take_wake();
            assert!(queue.claim(hand, 4).await.is_empty());
            assert!(queue.take_wake(), "the next one is claimable now");
        }
        _ => panic!("{way}"),
    }
}

#[tokio::test]
async fn r80_each_way_out_lets_the_next_one_go_once_and_in_the_same_call() {
    for way in WAYS {
        let discards = if way == "discarded" { ms(0) } else { ms(3_600_000) };
        let queue =
            Queue::with(QueueSettings { retain_completed: discards, ..QueueSettings::default() }).await;
        let hand = Hand::new("w");
        queue.sweep_for(T + 1000).await;
        let first = in_lane_with("a", |t| {
            t.body.payload = vec![1; 3000];
            t.body.policy.max_attempts = 1;
            if way.starts_with("late") {
                t.body.bounds.deadline = Some(Deadline::After(ms(60_000)));
            }
            if way == "past its hard end" {
                t.body.policy.run_timeout = Some(ms(1000));
            }
            if way.contains("twice") || way.contains("too often") {
                t.body.policy.on_lease_expired = leasehold_common::policy::OnLeaseExpired::Fail;
            }
        });
        queue.enqueue(&[first, in_lane("b"), in_lane("c")]).await;
        assert_eq!(queue.states("a b c").await, "queued waiting waiting", "{way}");
        end_first(&queue, &hand, way).await;
        let ended = queue.state("a").await;
        assert!(ended.is_none_or(TaskState::is_terminal), "{way}: {ended:?}");
        assert_eq!(queue.states("b c").await, "queued waiting", "{way}");
        assert_eq!(queue.moves("b"), [">waiting", "waiting>queued"], "{way}: once");
        // The call that ended it let it go: they stand in one entry.
        let both = queue.events().into_iter().filter(|entry| entry.iter().any(|m| m.why == b"lane"));
        let told: Vec<_> = both.flatten().map(|m| m.id).collect();
        assert!(told.contains(&"a".to_owned()), "{way}: {told:?}");
        queue.sweep().await;
        assert_eq!(queue.states("b c").await, "queued waiting", "{way}");
        queue.check().await;
    }
}

#[tokio::test]
async fn r03_abort_of_a_waiting_task_takes_it_out_of_the_middle_of_its_lane() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.enqueue(&["a", "b", "c"].map(in_lane)).await;
    queue.abort("b").await;
    assert_eq!(queue.states("a b c").await, "queued aborted waiting");
    assert_eq!(queue.moves("b"), [">waiting", "waiting>aborted"]);
    let run = queue.claim(&hand, 9).await.remove(0);
    queue.finish(&hand, done(&run)).await;
    assert_eq!(queue.states("b c").await, "aborted queued");
    queue.check().await;
}

#[tokio::test]
async fn r12_a_retried_task_goes_to_the_end_of_its_lane() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.enqueue(&["a", "b", "c"].map(in_lane)).await;
    let run = queue.claim(&hand, 1).await.remove(0);
    queue.finish(&hand, failed(&run, RetryAdvice::Fatal)).await;
    queue.retry("a", RetryMode::Keep).await;
    assert_eq!(queue.states("a b c").await, "waiting queued waiting");
    for name in ["b", "c", "a"] {
        let run = queue.claim(&hand, 1).await.remove(0);
        assert_eq!(run.id.as_str(), name);
        queue.finish(&hand, done(&run)).await;
        queue.check().await;
    }
    // Nobody before it: it need not wait.
    queue.retry("a", RetryMode::Keep).await;
    assert_eq!(queue.states("a").await, "queued");
    queue.check().await;
}

#[tokio::test]
async fn a_delayed_task_joins_its_lane_when_it_is_due() {
    let queue = Queue::start().await;
    let later = |name: &str| in_lane_with(name, |t| t.when = When::After(ms(1000)));
    queue.enqueue(&[later("s"), in_lane("a"), later("gone")]).await;
    assert_eq!(queue.states("s a").await, "scheduled queued");
    queue.abort("gone").await;
    assert_eq!(queue.states("a gone").await, "queued aborted", "it had no place to give up");
    queue.sweep_for(1000).await;
    assert_eq!(queue.moves("s"), [">scheduled", "scheduled>waiting"]);
    queue.check().await;
    // By a claim as well.
    queue.enqueue(&[later("t")]).await;
    queue.advance(1000);
    queue.claim(&Hand::new("w"), 1).await;
    assert_eq!(queue.moves("t"), [">scheduled", "scheduled>waiting"]);
    queue.check().await;
}

#[tokio::test]
async fn r81_a_member_whose_record_was_lost_is_dropped_by_the_sweep_and_the_lane_goes_on() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.enqueue(&["a", "b", "c", "d"].map(in_lane)).await;
    queue.claim(&hand, 1).await;
    queue.redis::<()>(&["DEL", &queue.key("task:a"), &queue.key("task:c")]);
    queue.redis::<()>(&["ZREM", &queue.key("running"), "a"]);
    queue.redis::<()>(&["ZREM", &queue.key("waiting"), "c"]);
    assert_eq!(queue.states("b d").await, "waiting waiting");
    queue.sweep().await;
    assert_eq!(queue.states("b d").await, "queued waiting");
    let run = queue.claim(&hand, 1).await.remove(0);
    queue.finish(&hand, done(&run)).await;
    assert_eq!(queue.states("d").await, "queued", "also one that is met in the middle");
    queue.sweep().await;
    assert_eq!((queue.total("dropped"), queue.total("gone")), (2, 2));
    queue.check().await;
}

#[tokio::test]
async fn a_live_task_of_no_lane_under_a_name_in_one_does_not_hold_it() {
    let queue = Queue::start().await;
    let members = format!("lane:{}", lane_hash(&queue));
    queue.seed(&["stranger"]).await;
    queue.enqueue(&[in_lane("a"), in_lane("b")]).await;
    queue.redis::<()>(&["ZADD", &queue.key(&members), "-1", "stranger"]);
    queue.abort("a").await;
    assert_eq!(queue.states("stranger b").await, "queued queued");
    assert_eq!(queue.score(&members, "stranger"), None);
    queue.check().await;
}

fn lane_hash(queue: &Queue) -> String {
    let key = queue.keys().lane(&lane("l"));
    key.rsplit(':').next().expect("a hash").to_owned()
}

#[tokio::test]
async fn a_foreign_key_in_the_place_of_a_lane_fails_no_call_and_is_answered_corrupt_at_enqueue() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.sweep_for(T + 1000).await;
    queue.enqueue(&["a", "b", "c", "s"].map(in_lane)).await;
    queue.enqueue(&[in_lane_with("due", |t| t.when = When::After(ms(1000)))]).await;
    let run = queue.claim(&hand, 1).await.remove(0);
    let key = queue.keys().lane(&lane("l"));
    let kept: Vec<u8> = queue.redis(&["DUMP", &key]);
    queue.redis::<()>(&["SET", &key, "foreign"]);
    let new = [in_lane("new"), task("free")];
    let answers = queue.store.enqueue(&queue.name, &new).await.unwrap();
    assert_eq!(answers, [Enqueued::Corrupt, Enqueued::Created(TaskState::Queued)]);
    queue.finish(&hand, done(&run)).await;
    queue.abort("b").await;
    queue.limit_lane(2).await;
    queue.retry("a", RetryMode::Keep).await;
    queue.sweep_for(1000).await;
    queue.store.cleanup(&queue.name, 10).await.unwrap();
    assert_eq!(queue.states("a b c s due").await, "queued aborted waiting waiting queued");
    assert_eq!(queue.redis::<String>(&["GET", &key]), "foreign");
    // Put right by hand, it goes on.
    queue.redis::<()>(&["DEL", &key]);
    let mut restore = redis::cmd("RESTORE");
    restore.arg(&key).arg(0).arg(kept);
    restore.exec(&mut queue.server.connection()).unwrap();
    queue.redis::<()>(&["ZREM", &key, "b", "a"]);
    queue.redis::<()>(&["ZADD", &key, "0", "a", "0", "due"]);
    queue.abort("a").await;
    queue.abort("due").await;
    assert_eq!(queue.states("c s").await, "queued queued");
    queue.check().await;
}

/// How long Redis was at the one call since its statistics were reset, us.
fn spent(queue: &Queue) -> u64 {
    queue.server.command_stats()["evalsha"].usec
}

#[tokio::test]
async fn r80_heavy_an_end_in_a_lane_of_100_000_costs_less_than_a_millisecond() {
    const MEMBERS: usize = 100_000;
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let tasks: Vec<_> =
        (0..MEMBERS).map(|i| in_lane_with(&format!("t{i}"), |t| t.body.payload = vec![1; 8])).collect();
    queue.enqueue(&tasks).await;
    assert_eq!(queue.redis::<usize>(&["ZCARD", &queue.key("waiting")]), MEMBERS - 1);
    // The best of some: others use the machine, too.
    let (mut middle, mut front) = (u64::MAX, u64::MAX);
    for round in 0..20 {
        queue.server.reset_stats();
        queue.abort(&format!("t{}", MEMBERS / 2 + 7 * round)).await;
        middle = middle.min(spent(&queue));
    }
    let mut run = queue.claim(&hand, 1).await.remove(0);
    for _ in 0..20 {
        queue.server.reset_stats();
        queue.finish(&hand, done(&run)).await;
        front = front.min(spent(&queue));
        run = queue.claim(&hand, 1).await.remove(0);
    }
    println!("an abort in the middle: {middle} us, an end in front: {front} us");
    assert!(middle < 1000 && front < 1000, "middle {middle} us, front {front} us");
    assert_eq!(run.id.as_str(), "t20", "in order");
}

#[tokio::test]
async fn r80_a_wide_lane_and_a_task_without_one_do_not_wait_for_each_other() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.limit_lane(256).await;
    let many: Vec<_> = (0..300).map(|i| in_lane(&format!("t{i}"))).collect();
    queue.enqueue(&many).await;
    queue.enqueue(&[task_with("low", |t| t.body.priority = Priority::Low)]).await;
    assert_eq!(queue.redis::<u64>(&["ZCARD", &queue.key("waiting")]), 44);
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.extend(queue.claim(&hand, 100).await);
    }
    assert_eq!(runs.len(), 257);
    let ends: Vec<_> = runs.iter().map(done).collect();
    queue.store.finish(&queue.name, &hand.inc, &ends).await.unwrap();
    assert_eq!(queue.claim(&hand, 100).await.len(), 44, "their ends let all go");
    queue.check().await;
}

#[tokio::test]
async fn r81_a_lane_whose_running_task_died_moves_on_in_time_and_at_once_when_that_is_aborted_as_dead() {
    let first = || {
        in_lane_with("a", |t| t.body.policy.on_lease_expired = leasehold_common::policy::OnLeaseExpired::Fail)
    };
    let queue = Queue::start().await;
    queue.sweep_for(T + 1000).await;
    queue.running(&Hand::new("dead"), first()).await;
    queue.enqueue(&[in_lane("b")]).await;
    queue.sweep_for(T + B + 1000).await;
    assert_eq!(queue.states("a b").await, "failed queued");
    queue.check().await;
    // Two looks are complete, and nobody has swept since: the abort closes it itself.
    queue.reset().await;
    queue.sweep_for(T + 1000).await;
    queue.running(&Hand::new("dead"), first()).await;
    queue.enqueue(&[in_lane("b")]).await;
    queue.sweep_for(T).await;
    // The second look is due, but the page of this sweep does not reach it: the watch clock has gone on.
    queue.redis::<()>(&["ZADD", &queue.key("running"), &(queue.now() + T).to_string(), "a"]);
    queue.sweep_for(B).await;
    assert_eq!(queue.states("a b").await, "running waiting");
    queue.abort("a").await;
    assert_eq!(queue.states("a b").await, "aborted queued");
    queue.check().await;
}

#[tokio::test]
async fn r83_queued_and_waiting_tasks_are_live_work_however_long_they_wait() {
    const MONTH: u64 = 30 * 86_400_000;
    let queue = Queue::start().await;
    queue.enqueue(&[in_lane("a"), in_lane("b"), task("free")]).await;
    for _ in 0..3 {
        queue.advance(MONTH);
        queue.sweep().await;
        queue.store.cleanup(&queue.name, 100).await.unwrap();
    }
    assert_eq!(queue.states("a b free").await, "queued waiting queued");
    let gone = queue.total("gone") + queue.total("dropped") + queue.total("reclaimed");
    assert_eq!(gone, 0);
}
