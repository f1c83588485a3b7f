//! Which queues there are.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use leasehold_common::name::QueueName;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::reaper::Reaper;
use crate::trouble::Class;

/// Under B of the shortest lease, so that the first sweep of a new queue never comes after a gap.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Announcements are made again: the registry lies in another slot than the queues, and may be lost apart.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(60);

/// Tells the other loops of every queue; what was known once stays known.
pub(crate) async fn run(reaper: &Reaper, stop: &CancellationToken, tell: watch::Sender<BTreeSet<QueueName>>) {
    let mut announced = Instant::now();
    while !stop.is_cancelled() {
        let found = reaper.store.queues().await;
        let none_known = tell.borrow().is_empty();
        match found {
            Ok(found) => {
                let all: &[Class] = if none_known { &Class::ERRORS } else { &[Class::Data] };
                reaper.went_well(None, all);
                tell.send_if_modified(|known| {
                    let before = known.len();
                    known.extend(found);
                    known.len() > before
                });
            }
            // With queues to sweep, their sweeps say that Redis is away.
            Err(error) if none_known || !error.is_retryable() => {
                reaper.failed(None, &error);
            }
            Err(_) => {}
        }
        if announced.elapsed() >= ANNOUNCE_EVERY {
            announced = Instant::now();
            announce(reaper, stop, &tell).await;
        }
        tokio::select! {
            // cancel-safe: a token and a timer keep nothing.
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

async fn announce(reaper: &Reaper, stop: &CancellationToken, tell: &watch::Sender<BTreeSet<QueueName>>) {
    let known = tell.borrow().clone();
    for queue in known {
        if stop.is_cancelled() || reaper.store.announce_queue(&queue).await.is_err() {
            return;
        }
    }
}
