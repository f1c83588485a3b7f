//! What a worker does for its dead predecessors: it kills what is left of their commands, then declares them dead, so
//! that their runs are reclaimed without waiting for leases. Whatever fails here is left to the leases and the reaper.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_common::name::{Incarnation, QueueName};
use leasehold_common::store::{Store, WorkerInfo};

use crate::guard::procs::Target;
use crate::guard::signals::Hunt;

/// How long processes of a dead worker are killed for.
const KILL_WITHIN: Duration = Duration::from_secs(5);
/// All of it: the worker itself wants to start.
const RECOVER_WITHIN: Duration = Duration::from_secs(20);
/// Running tasks seen by one call: it must not take Redis 5 ms.
const ROWS: usize = 100;
/// A call that fails for now is made so often, with a pause between.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// Recovers the runs of the dead, as far as that goes now.
pub(crate) async fn recover(store: &Store, dead: &[WorkerInfo], own: &[QueueName]) {
    let recovering = async {
        for one in dead {
            recover_one(store, one, own).await;
        }
    };
    if tokio::time::timeout(RECOVER_WITHIN, recovering).await.is_err() {
        tracing::warn!(
            "the runs of dead predecessors are not all recovered: the others are left to their leases"
        );
    }
}

async fn recover_one(store: &Store, dead: &WorkerInfo, own: &[QueueName]) {
    let incarnation = &dead.incarnation;
    let alive = kill_leftovers(incarnation.clone()).await;
    if !alive.is_empty() {
        tracing::error!(worker = %dead.name, %incarnation, ?alive,
            "processes of this dead worker cannot be killed: its runs are left to their leases");
        return;
    }
    let queues: BTreeSet<&QueueName> = own.iter().chain(dead.queues.keys()).collect();
    let (mut reclaimed, mut whole) = (0, true);
    for queue in queues {
        match declare(store, queue, incarnation).await {
            Ok(runs) => reclaimed += runs,
            Err(error) => {
                whole = false;
                tracing::warn!(%queue, %incarnation, %error,
                    "the runs of a dead predecessor are left to their leases in this queue");
            }
        }
    }
    tracing::info!(worker = %dead.name, %incarnation, pid = dead.pid, reclaimed,
        "the worker of this name before is dead: its runs are reclaimed");
    // Its entry has done its work. Where something is left to do, a next start finds it as long as it lasts.
    if whole && let Err(error) = store.forget_worker(incarnation).await {
        tracing::debug!(%error, "the registry entry of a dead worker is left to lapse");
    }
}

/// Kills what carries the incarnation in its run token. Answers what is still alive: nobody may be told then that the
/// runs have ended.
async fn kill_leftovers(incarnation: Incarnation) -> Vec<i32> {
    let hunting = tokio::task::spawn_blocking(move || {
        Hunt::new(vec![Target::of_incarnation(incarnation.as_str())]).kill(KILL_WITHIN)
    });
    hunting.await.unwrap_or_else(|_| vec![-1])
}

/// Walks the running tasks of a queue, page by page. Answers how many runs were reclaimed.
async fn declare(
    store: &Store,
    queue: &QueueName,
    incarnation: &Incarnation,
) -> leasehold_common::Result<u64> {
    let (mut cursor, mut reclaimed, mut tries) = (0, 0, 0);
    loop {
        match store.declare_dead(queue, incarnation, cursor, ROWS).await {
            Ok(page) => {
                tries = 0;
                reclaimed += page.reclaimed;
                match page.more {
                    Some(next) => cursor = next,
                    None => return Ok(reclaimed),
                }
            }
            Err(error) if error.is_retryable() && tries + 1 < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}
