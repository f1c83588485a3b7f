//! A command that prints without end: bounded memory, head and newest kept, beats in time.

use std::time::{Duration, Instant};

use leasehold_producer::{OutputStream, TaskId, TaskState};
use leasehold_tests::scale::whole_cases;
use leasehold_tests::{eventually_async, procfs};

use crate::aborts::kit::{Kit, LEASE, RECLAIM};

const MIB: u64 = 1024 * 1024;
const FLOOD_BYTES: u64 = 64 * MIB;
/// What is always kept of the beginning.
const HEAD: u64 = 64 * 1024;

/// How much is printed: 1 GB in whole cases.
fn amount() -> u64 {
    if whole_cases() { 1024 * MIB } else { 100 * MIB }
}

/// Follows the task to its end; the least that its lease ever had left, in ms.
async fn least_lease(kit: &Kit, ids: &[TaskId]) -> i64 {
    let mut least = i64::MAX;
    eventually_async("the floods are over", Duration::from_secs(120), async || {
        let look = kit.store().inspect(&kit.queue, ids).await.unwrap().unwrap();
        let records = kit.store().records(&kit.queue, ids).await.unwrap();
        for (places, record) in look.tasks.iter().zip(&records) {
            if matches!(record, Some(Ok(record)) if record.state == TaskState::Running)
                && places.lease.is_some()
            {
                least = least.min(places.lease_ms);
            }
        }
        let over = records.iter().flatten().flatten().all(|record| record.state.is_terminal());
        if over {
            Ok(())
        } else {
            Err(format!("{:?}", records.iter().flatten().flatten().map(|r| r.state).collect::<Vec<_>>()))
        }
    })
    .await;
    least
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_case_47_a_flood_of_output_costs_its_worker_less_than_64_mib_and_no_beat() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let bytes = amount();
    let script = format!(
        "printf 'the head'; head -c {bytes} /dev/zero; printf 'the newest' >&2; sleep 0.2; printf end"
    );
    let id = kit.exec(&[], &script);
    let started = Instant::now();
    let least = least_lease(&kit, std::slice::from_ref(&id)).await;
    let took = started.elapsed();
    let peak = procfs::peak_rss_bytes(worker.pid());
    let rate = bytes as f64 / took.as_secs_f64() / MIB as f64;
    eprintln!(
        "{} MiB in {took:?} ({rate:.0} MiB/s), {:.1} MiB at most; {least} ms of lease left at least",
        bytes / MIB,
        peak as f64 / MIB as f64
    );
    let record = kit.record(&id).await;
    assert_eq!((record.state, record.attempt, record.reclaims), (TaskState::Completed, 1, 0));
    assert!(peak < FLOOD_BYTES, "the worker held {:.1} MiB", peak as f64 / MIB as f64);
    // Renewed to 2 s every 667 ms: what is left is never much under 1.33 s while beats come in time.
    assert!(least > i64::try_from(LEASE.as_millis() / 3).unwrap(), "only {least} ms of lease were left");

    let pieces = kit.log(&id).await;
    let kept: u64 = pieces.iter().map(|piece| piece.text.len() as u64).sum();
    assert!(kept < 2 * MIB, "{kept} bytes are kept");
    let mut end = 0;
    let mut dropped = 0;
    for piece in &pieces {
        assert!(piece.offset >= end, "pieces out of order");
        assert!(piece.offset == end || end >= HEAD, "the head has a gap at {end}");
        dropped += piece.offset - end;
        end = piece.offset + piece.text.len() as u64;
    }
    let total = bytes + "the head".len() as u64 + "the newest".len() as u64 + "end".len() as u64;
    assert_eq!((end, kept + dropped), (total, total), "the newest is kept to its last byte");
    assert!(pieces[0].text.starts_with(b"the head") && pieces.last().unwrap().text.ends_with(b"end"));
    assert!(pieces.iter().any(|piece| piece.stream == OutputStream::Err && piece.text == b"the newest"));
    let shown = kit.show(&id);
    assert_eq!(shown["output"]["output_bytes"], total);
    let said = kit.ok(&["task", "logs", id.as_str()]);
    assert!(said.stderr.contains("bytes were dropped here"), "{}", said.stderr);
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_case_47_ten_floods_at_once_stay_within_their_caps_and_beat_in_time() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 10).await;
    let each = amount() / 10;
    let script = format!("yes | head -c {each} & yes 'to stderr' | head -c {each} >&2 & wait");
    let ids: Vec<TaskId> = (0..10).map(|_| kit.exec(&[], &script)).collect();
    let least = least_lease(&kit, &ids).await;
    let peak = procfs::peak_rss_bytes(worker.pid());
    eprintln!("{:.1} MiB at most; {least} ms of lease left at least", peak as f64 / MIB as f64);
    assert!(peak < 10 * MIB + 50 * MIB, "the worker held {:.1} MiB", peak as f64 / MIB as f64);
    assert!(least > i64::try_from(LEASE.as_millis() / 3).unwrap(), "only {least} ms of lease were left");
    for id in &ids {
        let record = kit.reaches_within(id, TaskState::Completed, RECLAIM).await;
        assert_eq!((record.attempt, record.reclaims), (1, 0));
        assert_eq!(kit.show(id)["output"]["output_bytes"], 2 * each);
    }
    kit.end([worker]).await;
}
