//! An idle worker: few commands to Redis, little memory.

use std::time::{Duration, Instant};

use leasehold_tests::{Monitor, let_time_pass_async, procfs};

use crate::aborts::kit::Kit;

const MIB: u64 = 1024 * 1024;
/// The most that an idle worker may hold resident.
const IDLE_BYTES: u64 = 25 * MIB;
/// How long it is watched.
const WATCHED: Duration = Duration::from_secs(20);

/// Commands a second and queue that a worker sends while it has nothing to do.
async fn rate(lease: Duration, queues: &[&str]) -> f64 {
    let kit = Kit::with_lease(lease).await;
    let lease_flag = format!("{}ms", lease.as_millis());
    let args = ["worker", "--name", "idle", "--allow-exec", "--lease", &lease_flag];
    let flags = queues.iter().flat_map(|queue| ["--queue".to_owned(), format!("{queue}=4")]);
    let worker = kit.cli(args).args(flags).spawn();
    kit.registered("idle").await;
    let_time_pass_async("it settles", Duration::from_secs(2)).await;
    let started = Instant::now();
    let monitor = Monitor::start(&kit.redis);
    let_time_pass_async("it idles", WATCHED).await;
    let sent: Vec<Vec<String>> =
        monitor.seen().into_iter().filter(|seen| seen.client.is_some()).map(|seen| seen.words).collect();
    let rate = sent.len() as f64 / started.elapsed().as_secs_f64() / queues.len() as f64;
    let mut by_name = std::collections::BTreeMap::<&str, usize>::new();
    for words in &sent {
        *by_name.entry(words.first().map_or("", String::as_str)).or_default() += 1;
    }
    eprintln!("lease {lease:?}, {} queues: {rate:.2} commands a second and queue; {by_name:?}", queues.len());
    kit.end([worker]).await;
    rate
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_an_idle_worker_sends_at_most_two_commands_a_second_and_queue() {
    // The default lease, and the one of these tests; one queue, which bears all that is sent per worker.
    let rates = tokio::join!(
        rate(Duration::from_secs(15), &["default"]),
        rate(Duration::from_secs(2), &["default"]),
        rate(Duration::from_secs(15), &["default", "b", "c"]),
    );
    for rate in <[f64; 3]>::from(rates) {
        assert!(rate <= 2.0, "{rate:.2} commands a second and queue");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_an_idle_worker_holds_less_than_25_mib() {
    let kit = Kit::new().await;
    let worker = kit.worker_with("idle", 16, &["--allow-exec"]).await;
    let with_reaper = kit.worker_with("with-reaper", 16, &["--allow-exec", "--with-reaper"]).await;
    // It has done something before, too.
    for _ in 0..20 {
        kit.exec(&[], "true");
    }
    let_time_pass_async("they idle", Duration::from_secs(5)).await;
    for (what, worker) in [("a worker", &worker), ("a worker with a reaper", &with_reaper)] {
        let (now, peak) = (procfs::rss_bytes(worker.pid()), procfs::peak_rss_bytes(worker.pid()));
        let guards = procfs::descendants(worker.pid());
        let guard: u64 = guards.iter().map(|pid| procfs::rss_bytes(*pid)).sum();
        eprintln!(
            "{what}: {:.1} MiB now, {:.1} MiB at most; its guard {:.1} MiB",
            mib(now),
            mib(peak),
            mib(guard)
        );
        assert!(peak < IDLE_BYTES, "{what} held {:.1} MiB", mib(peak));
    }
    kit.end([worker, with_reaper]).await;
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}
