//! A reaper while Redis is away, slow, restarted or holds what it cannot read; and its starts and stops.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_common::name::Namespace;
use leasehold_common::state::TaskState;
use leasehold_common::store::{Store, When};
use leasehold_common::transport::ConnectOptions;
use leasehold_tests::RedisServer;
use leasehold_tests::eventually::{eventually_async, let_time_pass_async};
use leasehold_tests::queue::{Hand, NEWER_V, V, id, ms, task, task_with};
use tracing_subscriber::fmt::MakeWriter;

use crate::reaper_kit::{Heart, LEASE, LIMIT, Running, assert_sound, queue_named, real, short_lease};

/// A store that gives up on an answer long before a paused Redis goes on.
fn impatient(url: &str) -> Store {
    let options = ConnectOptions { response_timeout: ms(300), ..ConnectOptions::default() };
    Store::open(url, Namespace::default(), options).unwrap()
}

#[tokio::test]
async fn r02_redis_paused_for_longer_than_a_lease_costs_no_living_run() {
    for patient in [true, false] {
        let queue = real(RedisServer::builder(), short_lease()).await;
        let hand = Hand::new("alive");
        let run = queue.running(&hand, task("t")).await;
        let _heart = Heart::start(&queue, &hand, &[run]);
        let store = if patient { queue.store.clone() } else { impatient(&queue.server.url()) };
        let running = Running::start(&store);
        eventually_async("it sweeps", LIMIT, async || {
            if running.reaper.stats().sweeps > 0 { Ok(()) } else { Err("no sweep") }
        })
        .await;
        queue.server.pause();
        let_time_pass_async("Redis is away for three leases", LEASE * 3).await;
        queue.server.resume();
        let_time_pass_async("a hasty reaper would reclaim now", LEASE * 3).await;
        let stats = running.stop().await;
        assert_eq!((stats.reclaimed, stats.ended), (0, 0), "{stats:?}");
        // The call that saw the gap may be one that nobody waited for any more.
        assert!(if patient { stats.gaps > 0 } else { stats.errors > 0 }, "{stats:?}");
        let gap_at: Option<u64> = queue.redis(&["HGET", &queue.key("pulse"), "gap_at"]);
        assert!(gap_at.is_some_and(|at| at > 0), "{gap_at:?}");
        let record = queue.record("t").await;
        assert_eq!((record.state, record.attempt, record.reclaims), (TaskState::Running, 1, 0));
        assert_sound(&queue.store).await;
    }
}

#[tokio::test]
async fn r02_after_a_restart_of_redis_the_dead_are_reclaimed_and_the_living_are_not() {
    let mut queue = real(RedisServer::builder().aof_always(), short_lease()).await;
    let (alive, dead) = (Hand::new("alive"), Hand::new("dead"));
    let run = queue.running(&alive, task("alive")).await;
    queue.running(&dead, task("dead")).await;
    let _heart = Heart::start(&queue, &alive, &[run]);
    let running = Running::start(&queue.store);
    queue.server.kill();
    let_time_pass_async("Redis is down for two leases", LEASE * 2).await;
    queue.server.start_again();
    queue.reconnect();
    eventually_async("the dead run is reclaimed", LIMIT, async || {
        match queue.store.record(&queue.name, &id("dead")).await {
            Ok(Some(record)) if record.reclaims == 1 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let record = queue.record("alive").await;
    assert_eq!((record.state, record.reclaims), (TaskState::Running, 0));
    let stats = running.stop().await;
    assert!(stats.errors > 0 && stats.reclaimed == 1, "{stats:?}");
    assert_sound(&queue.store).await;
}

#[tokio::test]
async fn a_queue_that_cannot_be_read_stops_no_other_and_is_served_again_when_it_can() {
    let queue = real(RedisServer::builder(), short_lease()).await;
    let (bad, newer) = (queue_named("bad"), queue_named("newer"));
    let due = || task_with("t", |t| t.when = When::After(ms(100)));
    for name in [&bad, &newer, &queue.name] {
        queue.store.enqueue(name, &[due()]).await.unwrap();
    }
    queue.redis::<()>(&["SET", &queue.store.keys(&bad).running(), "junk"]);
    queue.redis::<()>(&["HSET", &queue.store.keys(&newer).config(), "v", NEWER_V]);
    let running = Running::start(&queue.store);
    let state = async |name| queue.store.record(name, &id("t")).await.unwrap().unwrap().state;
    eventually_async("the good queue is served", LIMIT, async || {
        let good = state(&queue.name).await;
        if good == TaskState::Queued { Ok(()) } else { Err(good) }
    })
    .await;
    assert_eq!([state(&bad).await, state(&newer).await], [TaskState::Scheduled; 2]);
    assert!(running.reaper.stats().errors >= 2);
    queue.redis::<()>(&["DEL", &queue.store.keys(&bad).running()]);
    eventually_async("the mended queue is served", LIMIT, async || {
        let bad = state(&bad).await;
        if bad == TaskState::Queued { Ok(()) } else { Err(bad) }
    })
    .await;
    assert_eq!(state(&newer).await, TaskState::Scheduled, "nothing of a newer format is touched");
    running.stop().await;
    queue.redis::<()>(&["HSET", &queue.store.keys(&newer).config(), "v", V]);
    assert_sound(&queue.store).await;
}

#[tokio::test]
async fn starting_and_stopping_twenty_times_leaves_nothing_and_hangs_nowhere() {
    let queue = real(RedisServer::builder(), short_lease()).await;
    queue.seed(&["t"]).await;
    for round in 0..20 {
        let running = Running::start(&queue.store);
        if round % 2 == 0 {
            eventually_async("it sweeps", LIMIT, async || {
                if running.reaper.stats().sweeps > 0 { Ok(()) } else { Err("no sweep") }
            })
            .await;
        }
        let asked = Instant::now();
        running.stop().await;
        assert!(asked.elapsed() < Duration::from_secs(2), "round {round}: {:?}", asked.elapsed());
    }
    assert_eq!(queue.state("t").await, Some(TaskState::Queued));
    assert_sound(&queue.store).await;
}

#[tokio::test]
async fn it_stops_while_redis_is_paused_once_its_call_is_given_up() {
    let queue = real(RedisServer::builder(), short_lease()).await;
    let running = Running::start(&impatient(&queue.server.url()));
    eventually_async("it sweeps", LIMIT, async || {
        if running.reaper.stats().sweeps > 0 { Ok(()) } else { Err("no sweep") }
    })
    .await;
    queue.server.pause();
    running.stop().await;
    queue.server.resume();
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Lines {
    fn with(&self, part: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().filter(|line| line.contains(part)).count()
    }
}

#[tokio::test]
async fn case_08_an_outage_is_said_once_and_so_is_its_end() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut queue = real(RedisServer::builder().aof_always(), short_lease()).await;
    for n in 0..30 {
        queue.store.register(&queue_named(&format!("q{n}"))).await.unwrap();
    }
    let running = Running::start(&queue.store);
    eventually_async("it sweeps all", LIMIT, async || {
        let sweeps = running.reaper.stats().sweeps;
        if sweeps > 60 { Ok(()) } else { Err(sweeps) }
    })
    .await;
    queue.server.kill();
    eventually_async("every queue has failed often", LIMIT, async || {
        let errors = running.reaper.stats().errors;
        if errors > 90 { Ok(()) } else { Err(errors) }
    })
    .await;
    queue.server.start_again();
    let sweeps = running.reaper.stats().sweeps;
    eventually_async("it sweeps again", LIMIT, async || {
        let now = running.reaper.stats().sweeps;
        if now > sweeps + 31 { Ok(()) } else { Err(now) }
    })
    .await;
    running.stop().await;
    let told = ["Redis cannot be asked", "Redis answers again", "holds back"].map(|part| lines.with(part));
    assert!(told[0] >= 1 && told[0] <= 3 && told[1] == 1 && told[2] <= 2, "{told:?}");
}
