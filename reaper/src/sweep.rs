//! The sweep loop: every queue again when its next look is due, a second later at most.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use leasehold_common::name::QueueName;
use leasehold_common::store::Swept;
use leasehold_common::{Error, Result};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::reaper::Reaper;
use crate::schedule::Schedule;
use crate::stats::Stats;
use crate::trouble::backoff;

/// Running tasks looked at, and scheduled ones promoted, by one call: it must not take Redis 5 ms.
const ROWS: usize = 100;
/// Calls in a row for a queue that says there is more, before others have their turn.
const ROUNDS: usize = 8;
/// Between two sweeps of a queue with nothing more due at once: of ten thousand runs one is due each millisecond, and
/// a sweep costs Redis as much as ten looks. A look that comes so late moves no bound by more.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// With nothing due the loop looks for new queues only when told; this is its longest sleep.
const IDLE: Duration = Duration::from_secs(1);

/// Sweeps until told to stop; returns when the calls in flight are answered.
pub(crate) async fn run(
    reaper: &Reaper,
    stop: &CancellationToken,
    mut queues: watch::Receiver<BTreeSet<QueueName>>,
) {
    let mut schedule = Schedule::default();
    let mut flying = FuturesUnordered::new();
    queues.mark_changed();
    while !stop.is_cancelled() {
        let now = Instant::now();
        if queues.has_changed().unwrap_or(false) {
            for queue in queues.borrow_and_update().iter() {
                schedule.add(now, queue);
            }
        }
        while flying.len() < reaper.config.concurrency
            && let Some(queue) = schedule.take_due(now)
        {
            flying.push(turn(reaper, stop, queue));
        }
        let full = flying.len() >= reaper.config.concurrency;
        let next = schedule.next_due().filter(|_| !full).unwrap_or(now + IDLE);
        tokio::select! {
            // cancel-safe: tokens, timers and a watch keep nothing; a turn that is not answered stays in `flying`.
            () = stop.cancelled() => {}
            Some((queue, turned)) = flying.next(), if !flying.is_empty() => {
                let pause = pause_after(&mut schedule, reaper, &queue, turned);
                schedule.again_in(Instant::now(), pause, queue);
            }
            changed = queues.changed() => {
                if changed.is_err() {
                    break;
                }
                // It is taken in above.
                queues.mark_changed();
            }
            () = tokio::time::sleep_until(next.into()) => {}
        }
    }
    while flying.next().await.is_some() {}
}

/// Until the queue's next sweep.
fn pause_after(
    schedule: &mut Schedule,
    reaper: &Reaper,
    queue: &QueueName,
    turned: Result<Duration, Error>,
) -> Duration {
    match turned {
        Ok(pause) => {
            schedule.went_well(queue);
            pause
        }
        Err(error) => backoff(reaper.failed(Some(queue), &error), schedule.failed(queue)),
    }
}

/// Is another sweep at once worth it? A page of rows that cannot be read is there again, and moves nothing.
fn has_more(swept: &Swept) -> bool {
    swept.more && swept.looked + swept.promoted > 0
}

/// One turn of a queue: sweeps while more is due, for so many rounds. Answers the pause until its next one.
async fn turn(reaper: &Reaper, stop: &CancellationToken, queue: QueueName) -> (QueueName, Result<Duration>) {
    for _ in 0..ROUNDS {
        match reaper.store.sweep(&queue, ROWS).await {
            Ok(swept) => {
                reaper.swept(&queue, &swept);
                if !has_more(&swept) || stop.is_cancelled() {
                    let pause = swept.next_look.max(SHORTEST_PAUSE).min(reaper.config.sweep_every);
                    return (queue, Ok(pause));
                }
            }
            Err(error) => return (queue, Err(error)),
        }
    }
    (queue, Ok(Duration::ZERO))
}

/// Sweeps until nothing more is due, or a call fails.
pub(crate) async fn all_due(reaper: &Reaper, queue: &QueueName) -> Stats {
    let mut stats = Stats::default();
    loop {
        match reaper.store.sweep(queue, ROWS).await {
            Ok(swept) => {
                stats += reaper.swept(queue, &swept);
                if !has_more(&swept) {
                    return stats;
                }
            }
            Err(error) => {
                reaper.failed(Some(queue), &error);
                stats.errors += 1;
                return stats;
            }
        }
    }
}
