//! The cleanup loop: removes what is kept no longer, in idle systems too.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_common::name::QueueName;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::reaper::Reaper;
use crate::stats::Stats;
use crate::trouble::Class;

/// Tasks of each state removed by one call, each with up to eight keys.
const ROWS: usize = 50;
/// Between two rounds over the queues that have more: millions of tasks may go, but not all at once.
const ROUND_PAUSE: Duration = Duration::from_millis(10);
/// After a round in which Redis could not be asked.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What a batch leaves to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    More,
    /// Redis could not be asked.
    Retry,
}

/// Cleans up every so often until told to stop; returns when the call in flight is answered.
pub(crate) async fn run(
    reaper: &Reaper,
    stop: &CancellationToken,
    mut queues: watch::Receiver<BTreeSet<QueueName>>,
) {
    while !stop.is_cancelled() {
        let known: Vec<QueueName> = queues.borrow_and_update().iter().cloned().collect();
        if known.is_empty() {
            tokio::select! {
                // cancel-safe: a token and a watch keep nothing.
                () = stop.cancelled() => {}
                changed = queues.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
            continue;
        }
        rounds(reaper, stop, known).await;
        pause(stop, reaper.config.cleanup_every).await;
    }
}

/// A batch of each queue in turn, until none has more.
async fn rounds(reaper: &Reaper, stop: &CancellationToken, mut queues: Vec<QueueName>) {
    while !queues.is_empty() {
        let (mut left, mut wait) = (Vec::new(), ROUND_PAUSE);
        for queue in queues {
            if stop.is_cancelled() {
                return;
            }
            let (what, _) = batch(reaper, &queue).await;
            if what == Left::Retry {
                wait = RETRY_PAUSE;
            }
            if what != Left::Nothing {
                left.push(queue);
            }
        }
        queues = left;
        pause(stop, wait).await;
    }
}

async fn batch(reaper: &Reaper, queue: &QueueName) -> (Left, Stats) {
    match reaper.store.cleanup(queue, ROWS).await {
        Ok(cleaned) => {
            (if cleaned.more { Left::More } else { Left::Nothing }, reaper.cleaned(queue, &cleaned))
        }
        Err(error) => {
            let class = reaper.failed(Some(queue), &error);
            let left = if class == Class::Redis { Left::Retry } else { Left::Nothing };
            (left, Stats { errors: 1, ..Stats::default() })
        }
    }
}

/// Cleans a queue until nothing more is due, or a call fails.
pub(crate) async fn all_due(reaper: &Reaper, queue: &QueueName) -> Stats {
    let mut stats = Stats::default();
    loop {
        let (left, done) = batch(reaper, queue).await;
        stats += done;
        if left != Left::More {
            return stats;
        }
    }
}

async fn pause(stop: &CancellationToken, how_long: Duration) {
    tokio::select! {
        // cancel-safe: a token and a timer keep nothing.
        () = stop.cancelled() => {}
        () = tokio::time::sleep(how_long) => {}
    }
}
