//! The claim: order, fairness, bounds, and who is woken.

use leasehold_common::policy::{OnLeaseExpired, Priority};
use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{AbortRequest, Beat, BeatAnswer, ClaimRequest, NewTask, Outcome, When};
use leasehold_tests::eventually::eventually_async;
use leasehold_tests::queue::{Hand, Queue, START, T, done, end, id, ms, task, task_with};

fn of(name: &str, priority: Priority) -> NewTask {
    task_with(name, |t| t.body.priority = priority)
}

async fn names(queue: &Queue, hand: &Hand, want: usize) -> Vec<String> {
    queue.claim(hand, want).await.iter().map(|t| t.id.to_string()).collect()
}

#[tokio::test]
async fn r90_levels_are_read_in_order_and_what_comes_back_goes_before_high() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let back = queue.running(&hand, task("back")).await;
    let levels =
        [("l", Priority::Low), ("n", Priority::Normal), ("h", Priority::High), ("u", Priority::Urgent)];
    queue.enqueue(&levels.map(|(name, priority)| of(name, priority))).await;
    queue.enqueue(&[of("n2", Priority::Normal)]).await;
    queue.finish(&hand, end(&back, Outcome::Released)).await;
    assert_eq!(names(&queue, &hand, 6).await, ["u", "back", "h", "n", "n2", "l"]);
    queue.check().await;
}

/// Of 64 started tasks 8 are read lowest first, however they are claimed; the rest strictly by level.
#[tokio::test]
async fn r90_every_eighth_started_task_is_read_lowest_first() {
    for (want, huge) in [(1, false), (5, false), (64, false), (16, true)] {
        let queue = Queue::start().await;
        let hand = Hand::new("w");
        let mut tasks = Vec::new();
        for i in 0..64 {
            for (level, priority) in [("h", Priority::High), ("n", Priority::Normal), ("l", Priority::Low)] {
                tasks.push(of(&format!("{level}{i}"), priority));
                if huge {
                    // One body fills an answer: each claim starts a single task, with slots free.
                    tasks.last_mut().unwrap().body.payload = vec![0; 1 << 20];
                }
            }
        }
        queue.enqueue(&tasks).await;
        let mut started = Vec::new();
        while started.len() < 64 {
            started.extend(names(&queue, &hand, want.min(64 - started.len())).await);
        }
        let low: Vec<usize> = (1..=64).filter(|n| started[n - 1].starts_with('l')).collect();
        assert_eq!(low, [8, 16, 24, 32, 40, 48, 56, 64], "want {want}, huge {huge}");
        assert_eq!(started.iter().filter(|n| n.starts_with('h')).count(), 56);
        let mut sorted = started.clone();
        sorted.sort_by_key(|n| (n.as_bytes()[0], n[1..].parse::<u32>().unwrap()));
        let in_order =
            |level: char| started.iter().filter(|n| n.starts_with(level)).cloned().collect::<Vec<_>>();
        assert_eq!([in_order('h'), in_order('l')].concat(), sorted, "oldest first within a level");
        queue.check().await;
    }
}

#[tokio::test]
async fn a_claim_leaves_no_holes_and_drops_entries_that_mean_nothing() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let stream = queue.key("ready:normal");
    queue.redis::<()>(&["XADD", &stream, "*", "i", "nobody"]);
    queue.seed(&["a"]).await;
    queue.redis::<()>(&["XADD", &stream, "*", "i", "a"]);
    queue.redis::<()>(&["XADD", &stream, "*", "other", "fields", "of", "another"]);
    queue.redis::<()>(&["SET", &queue.key("task:bad"), "junk"]);
    queue.redis::<()>(&["XADD", &stream, "*", "i", "bad"]);
    queue.seed(&["b", "c"]).await;
    assert_eq!(names(&queue, &hand, 2).await, ["a", "b"]);
    assert_eq!(queue.total("dropped"), 4);
    let left: Vec<(String, Vec<String>)> = queue.redis(&["XRANGE", &stream, "-", "+"]);
    assert_eq!(left.iter().map(|(_, f)| f[1].as_str()).collect::<Vec<_>>(), ["c"]);
    let events: Vec<_> = queue.events().into_iter().flatten().filter(|m| m.to.is_empty()).collect();
    assert_eq!(events.len(), 4, "each with an event: {events:?}");
    queue.redis::<()>(&["DEL", &queue.key("task:bad")]);
    queue.check().await;
}

#[tokio::test]
async fn a_task_whose_body_is_missing_fails_as_rejected() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.enqueue(&[task_with("t", |t| t.body.payload = vec![1; 5000]), task("u")]).await;
    queue.redis::<()>(&["DEL", &queue.key("body:t")]);
    assert_eq!(names(&queue, &hand, 1).await, ["u"]);
    let detail = queue.store.detail(&queue.name, &id("t")).await.unwrap().unwrap();
    assert_eq!(detail.record.state, TaskState::Failed);
    assert_eq!(detail.last_failure().map(|f| f.kind), Some(FailureKind::Rejected));
    assert_eq!(queue.moves("t"), [">queued", "queued>failed"]);
    queue.check().await;
}

#[tokio::test]
async fn case_41_bodies_over_the_limit_of_an_answer_wait_for_the_next_and_the_first_always_goes() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let big = |name: &str| task_with(name, |t| t.body.payload = vec![1; 600 << 10]);
    queue.enqueue(&[big("a"), big("b"), big("c")]).await;
    queue.enqueue(&[task_with("d", |t| t.body.payload = vec![1; 3 << 20])]).await;
    assert_eq!(names(&queue, &hand, 8).await, ["a", "b"]);
    assert!(queue.take_wake(), "more is claimable");
    assert_eq!(names(&queue, &hand, 8).await, ["c", "d"]);
    assert!(!queue.take_wake());
    queue.check().await;
}

#[tokio::test]
async fn tokens_only_grow_also_when_the_clock_steps_back() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let mut last = 0;
    for step in 0..20u32 {
        let name = format!("t{step}");
        let run = queue.running(&hand, task(&name)).await;
        assert!(run.token > last, "{} after {last}", run.token);
        last = run.token;
        if step == 10 {
            queue.set_clock(queue.now() - 3_600_000);
        } else {
            queue.advance(u64::from(step % 2));
        }
    }
    assert!(last >= queue.now() * 1000);
    queue.sweep().await;
    queue.check().await;
}

#[tokio::test]
async fn promotion_is_bounded_and_goes_on_with_the_next_call() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let later = |n: usize| task_with(&format!("t{n}"), |t| t.when = When::After(ms(1000 + n as u64)));
    queue.enqueue(&(0..200).map(later).collect::<Vec<_>>()).await;
    queue.advance(999);
    assert!(queue.claim(&hand, 1).await.is_empty());
    queue.advance(1);
    assert_eq!(names(&queue, &hand, 1).await, ["t0"], "due to the millisecond");
    queue.advance(1000);
    queue.claim(&hand, 1).await;
    assert_eq!(queue.redis::<u64>(&["ZCARD", &queue.key("scheduled")]), 200 - 1 - 128);
    queue.claim(&hand, 1).await;
    assert_eq!(queue.redis::<u64>(&["ZCARD", &queue.key("scheduled")]), 0);
    queue.check().await;
}

#[tokio::test]
async fn the_marker_is_set_by_what_is_claimable_and_by_a_new_earliest_due_time_only() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let delayed = |name: &str, delay| task_with(name, move |t| t.when = When::After(ms(delay)));
    queue.seed(&["a", "b"]).await;
    assert!(queue.take_wake(), "enqueued");
    queue.seed(&["a"]).await;
    assert!(!queue.take_wake(), "nothing new");
    let a = queue.claim(&hand, 1).await;
    assert!(queue.take_wake(), "more is claimable now");
    let b = queue.claim(&hand, 1).await;
    assert!(!queue.take_wake(), "nothing is left");
    queue.enqueue(&[delayed("s1", 60_000)]).await;
    assert!(queue.take_wake(), "the first due time");
    queue.enqueue(&[delayed("s2", 70_000)]).await;
    assert!(!queue.take_wake(), "a later one");
    queue.enqueue(&[delayed("s3", 50_000)]).await;
    assert!(queue.take_wake(), "an earlier one");
    queue.finish(&hand, done(&a[0])).await;
    assert!(!queue.take_wake());
    queue.finish(&hand, end(&b[0], Outcome::Snoozed(ms(1000)))).await;
    assert!(queue.take_wake(), "a snooze that ends before all else");
    queue.advance(1000);
    queue.sweep().await;
    assert!(queue.take_wake(), "promoted by the sweep");
    queue.check().await;
}

#[tokio::test]
async fn one_idle_worker_watches_due_times_and_hands_it_on_when_it_is_full() {
    let queue = Queue::start().await;
    let (a, b, c) = (Hand::new("a"), Hand::new("b"), Hand::new("c"));
    queue.enqueue(&[task_with("s", |t| t.when = When::After(ms(1500)))]).await;
    queue.take_wake();
    let due = async |request: ClaimRequest| queue.claimed(&request).await.next_due;
    assert_eq!(due(a.next(1)).await, Some(ms(1500)), "nobody watches: a takes it");
    assert_eq!(due(b.next(1)).await, None, "a watches");
    assert_eq!(due(a.next(1)).await, Some(ms(1500)), "a holds it");
    assert_eq!(due(ClaimRequest { woken: true, ..b.next(1) }).await, Some(ms(1500)), "b popped the marker");
    assert_eq!(due(a.next(1)).await, None, "b watches");
    queue.advance(500);
    assert_eq!(due(b.next(1)).await, Some(ms(1000)));
    // b fills up: it lets go, and wakes another.
    queue.seed(&["x"]).await;
    queue.take_wake();
    assert_eq!(due(b.next(1)).await, None);
    assert!(!queue.redis::<bool>(&["EXISTS", &queue.key("watch")]));
    assert!(queue.take_wake(), "s is scheduled: somebody must watch");
    assert_eq!(due(ClaimRequest { woken: true, ..c.next(1) }).await, Some(ms(1000)));
    // Nobody watches for more than 2 s; none = -1.
    queue.enqueue(&[task_with("far", |t| t.when = When::After(ms(90_000)))]).await;
    queue.advance(1000);
    assert_eq!(names(&queue, &c, 1).await, ["s"]);
    queue.redis::<()>(&["DEL", &queue.key("watch")]);
    assert_eq!(due(a.next(1)).await, Some(ms(2000)));
    queue.check().await;
}

#[tokio::test]
async fn a_marker_popped_in_vain_is_given_back() {
    let queue = Queue::start().await;
    let (a, b) = (Hand::new("a"), Hand::new("b"));
    queue.claimed(&ClaimRequest { woken: true, ..a.next(0) }).await;
    assert!(queue.take_wake(), "by a claim for 0");
    queue.claimed(&a.next(0)).await;
    assert!(!queue.take_wake(), "which popped none");
    // It popped the marker that told of a new due time, and fills up: another must learn of it.
    queue.claimed(&b.next(1)).await;
    queue.seed(&["x"]).await;
    queue.enqueue(&[task_with("s", |t| t.when = When::After(ms(1500)))]).await;
    queue.take_wake();
    assert_eq!(queue.claimed(&ClaimRequest { woken: true, ..a.next(1) }).await.tasks.len(), 1);
    assert!(queue.take_wake(), "b watches, but does not know of s");
    // A repeat under the same number gives a second marker back too.
    let request = a.next(0);
    queue.claimed(&request).await;
    queue.take_wake();
    queue.claimed(&ClaimRequest { woken: true, ..request }).await;
    assert!(queue.take_wake());
    queue.check().await;
}

/// The driven clock aside: from the first heartbeat on a lease is a key with a TTL of T, and each one renews it.
#[tokio::test]
async fn leases_are_keys_that_expire_after_the_lease() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.redis::<()>(&["HDEL", &queue.key("config"), "clock"]);
    let run = queue.running(&hand, task("t")).await;
    let key = queue.key("lease:t");
    let there = |queue: &Queue| queue.redis::<bool>(&["EXISTS", &key]);
    assert!(!there(&queue), "the claim itself is the first lease");
    queue.beat(&hand, &run).await;
    assert_eq!(queue.redis::<String>(&["GET", &key]), format!("{} {}", run.run, hand.inc));
    let ttl = |queue: &Queue| queue.redis::<u64>(&["PTTL", &key]);
    assert!((T - 2000..=T).contains(&ttl(&queue)));
    queue.redis::<()>(&["PEXPIRE", &key, "1000"]);
    queue.beat(&hand, &run).await;
    assert!((T - 2000..=T).contains(&ttl(&queue)));
    // A TTL that no lease can have is clamped by the sweep.
    for wrong in ["PERSIST", "PEXPIRE"] {
        let far = (T * 100).to_string();
        let words = [wrong, &key, &far];
        queue.redis::<()>(if wrong == "PERSIST" { &words[..2] } else { &words });
        queue.redis::<()>(&["ZADD", &queue.key("running"), "1", "t"]);
        queue.sweep().await;
        assert!((T - 2000..=T).contains(&ttl(&queue)), "{wrong}");
    }
    queue.finish(&hand, done(&run)).await;
    assert!(!there(&queue), "it ends with the run");
    queue.check().await;
}

/// A claim at the bell was sent before anybody knew of a task, and its worker may stand still since.
#[tokio::test]
async fn a_claim_at_the_bell_is_given_one_plain_task_and_told_of_the_rest() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let at_bell = |hand: &Hand| ClaimRequest { at_bell: true, ..hand.next(8) };
    let claimed = queue.claimed(&at_bell(&hand)).await;
    assert_eq!((claimed.tasks.len(), claimed.more), (0, false), "nothing is there");
    queue.seed(&["a"]).await;
    let claimed = queue.claimed(&at_bell(&hand)).await;
    assert_eq!((claimed.tasks.len(), claimed.more), (1, false), "the only one");
    queue.seed(&["b", "c"]).await;
    let claimed = queue.claimed(&at_bell(&hand)).await;
    assert_eq!((claimed.tasks.len(), claimed.more), (1, true), "one of two");
    assert_eq!(names(&queue, &hand, 8).await, ["c"]);
    // What must not be started twice, or is of another level, is for a claim in the open.
    let once = task_with("once", |t| t.body.policy.on_lease_expired = OnLeaseExpired::Fail);
    queue.enqueue(&[once]).await;
    let claimed = queue.claimed(&at_bell(&hand)).await;
    assert_eq!(
        (claimed.tasks.len(), claimed.more, queue.state("once").await),
        (0, true, Some(TaskState::Queued))
    );
    assert_eq!(names(&queue, &hand, 8).await, ["once"]);
    // A repeat of it is answered like any other.
    queue.seed(&["d"]).await;
    let request = at_bell(&hand);
    let first = queue.claimed(&request).await;
    let again = queue.claimed(&request).await;
    assert_eq!((first.tasks.len(), &first.tasks), (1, &again.tasks));
    queue.check().await;
}

#[tokio::test]
async fn a_worker_that_closes_lets_go_of_the_watch() {
    let queue = Queue::start().await;
    let (a, b) = (Hand::new("a"), Hand::new("b"));
    queue.enqueue(&[task_with("s", |t| t.when = When::After(ms(1500)))]).await;
    assert_eq!(queue.claimed(&a.next(1)).await.next_due, Some(ms(1500)));
    queue.take_wake();
    queue.claimed(&ClaimRequest { closing: true, woken: true, ..a.request(a.number(), 0) }).await;
    assert!(queue.take_wake());
    assert_eq!(
        queue.claimed(&b.next(1)).await.next_due,
        Some(ms(1500)),
        "also without knowing of the marker"
    );
    queue.check().await;
}

/// The marker that spares a finish the look for a key only grows.
#[tokio::test]
async fn no_key_is_left_behind_when_the_clock_steps_back_under_a_run() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    for (name, beats) in [("t", &[START - 1000][..]), ("u", &[START + 500, START - 1000])] {
        queue.set_clock(START);
        let run = queue.running(&hand, task(name)).await;
        for at in beats {
            queue.set_clock(*at);
            queue.beat(&hand, &run).await;
        }
        queue.set_clock(START + 600);
        queue.finish(&hand, done(&run)).await;
        assert_eq!(queue.redis::<Vec<String>>(&["KEYS", &queue.key("lease:*")]), [""; 0], "{name}");
    }
    queue.check().await;
}

/// A heartbeat that finds its bare fence in the key looks at no record; so whatever it has to tell changes the key.
#[tokio::test]
async fn what_a_heartbeat_has_to_tell_is_told_although_its_key_is_there() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.redis::<()>(&["HDEL", &queue.key("config"), "clock"]);
    let fence = |run: &leasehold_common::store::ClaimedTask| format!("{} {}", run.run, hand.inc);
    let key = |name: &str| queue.redis::<Option<String>>(&["GET", &queue.key(&format!("lease:{name}"))]);
    // A stop that somebody else records.
    let run = queue.running(&hand, task("abort")).await;
    assert_eq!(queue.beat(&hand, &run).await, BeatAnswer::Ok);
    assert_eq!(key("abort"), Some(fence(&run)));
    queue.store.abort(&queue.name, &[AbortRequest::new(id("abort"), "me", "why")]).await.unwrap();
    assert_eq!(key("abort"), Some(format!("{} stop", fence(&run))));
    for _ in 0..2 {
        let told = queue.beat(&hand, &run).await;
        assert!(matches!(told, BeatAnswer::Stop { cause: StopCause::Abort, .. }), "{told:?}");
    }
    queue.check().await;
    queue.finish(&hand, done(&run)).await;
    assert_eq!(
        (key("abort"), queue.beat(&hand, &run).await),
        (None, BeatAnswer::Ended(TaskState::Completed))
    );
    // A stop that the worker itself has ordered.
    let bounded = task_with("bound", |t| {
        t.body.policy.run_timeout = Some(ms(30));
        // Its next attempt must not come in between, as it does once in a hundred times after a delay of next to nothing.
        t.body.policy.max_attempts = 1;
    });
    let run = queue.running(&hand, bounded).await;
    let beat = |stopping| Beat { id: run.id.clone(), run: run.run.clone(), stopping };
    assert_eq!(queue.beat(&hand, &run).await, BeatAnswer::Ok, "nothing has been recorded");
    let told = eventually_async("the timeout is recorded", ms(5000), async || {
        let told =
            queue.store.heartbeat(&queue.name, &hand.inc, &[beat(true)]).await.unwrap().answers.remove(0);
        let stops = matches!(told, BeatAnswer::Stop { cause: StopCause::RunTimeout, .. });
        if stops { Ok(told) } else { Err(format!("{told:?}")) }
    })
    .await;
    assert_eq!(queue.beat(&hand, &run).await, told, "the key says so from then on");
    queue.finish(&hand, end(&run, Outcome::Released)).await;
    assert_eq!(key("bound"), None);
    // A run that another took over.
    let over = queue.running(&hand, task("over")).await;
    assert_eq!(queue.beat(&hand, &over).await, BeatAnswer::Ok);
    queue.finish(&hand, end(&over, Outcome::Released)).await;
    assert_eq!((key("over"), queue.beat(&hand, &over).await), (None, BeatAnswer::Ended(TaskState::Queued)));
    let other = Hand::new("other");
    let again = queue.claim(&other, 1).await.remove(0);
    assert_eq!(queue.beat(&other, &again).await, BeatAnswer::Ok);
    assert_eq!(key("over"), Some(format!("{} {}", again.run, other.inc)));
    assert_eq!(queue.beat(&hand, &over).await, BeatAnswer::Ended(TaskState::Queued));
    queue.finish(&other, done(&again)).await;
    assert_eq!(key("over"), None, "no key outlives its run");
    queue.check().await;
}

/// Large batches go into `Q:running` another way than small ones, and leave nothing of it behind.
#[tokio::test]
async fn the_running_index_names_tasks_and_nothing_else_after_batches_of_any_size() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    for sizes in [&[1, 7, 8, 9, 64, 1024][..], &[1024, 8, 1], &[9]] {
        let mut running = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            let tasks: Vec<NewTask> = (0..*size).map(|n| task(&format!("t{at}-{n}"))).collect();
            queue.enqueue(&tasks).await;
            running.extend(queue.claim(&hand, *size).await);
            let mut rows: Vec<String> = queue.redis(&["ZRANGE", &queue.key("running"), "0", "-1"]);
            rows.sort();
            let mut ids: Vec<String> = running.iter().map(|t| t.id.to_string()).collect();
            ids.sort();
            assert_eq!(rows, ids, "after {size} of {sizes:?}");
        }
        queue.check().await;
        for runs in running.chunks(100) {
            let ends: Vec<_> = runs.iter().map(done).collect();
            queue.store.finish(&queue.name, &hand.inc, &ends).await.unwrap();
        }
        assert!(!queue.redis::<bool>(&["EXISTS", &queue.key("running")]));
        let ended = queue.store.list(&queue.name, TaskState::Completed, None, 1).await.unwrap();
        assert_eq!(ended.tasks.len(), 1);
        queue.reset().await;
    }
}
