//! What a handler left to be done at the end of its run, however that comes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use leasehold_common::time::display_duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::guard::BootInstant;
use crate::panics::Caught;
use crate::run::{Orders, Run, stop_ordered};

/// All cleanups of a run together take at most so many times what one may take.
const ALL_TOGETHER: u32 = 2;

type Cleanup = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// The cleanups of a run.
#[derive(Default)]
pub(crate) struct Cleanups {
    /// None once they have run: then none is taken any more.
    list: Mutex<List>,
    running: AtomicBool,
}

#[derive(Default)]
struct List {
    cleanups: Vec<Cleanup>,
    over: bool,
}

impl fmt::Debug for Cleanups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cleanups").field("running", &self.are_running()).finish_non_exhaustive()
    }
}

impl Cleanups {
    /// Adds one. False when the run's cleanups are over.
    pub(crate) fn add<F, Fut>(&self, cleanup: F) -> bool
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.over {
            list.cleanups.push(Box::new(move || cleanup().boxed()));
        }
        !list.over
    }

    /// The newest; with none left they are over.
    fn pop(&self) -> Option<Cleanup> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = list.cleanups.pop();
        list.over = newest.is_none();
        newest
    }

    /// Drops what is left; answers how many.
    fn drop_rest(&self) -> usize {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.over = true;
        let rest = std::mem::take(&mut list.cleanups);
        drop(list);
        rest.len()
    }

    /// Are they being run?
    pub(crate) fn are_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }
}

/// How a cleanup ended.
enum Ended {
    Well,
    Panicked(String),
    /// Its own time, or that of all, was over.
    Late,
    /// The stop's hard end is near.
    HardEnd,
}

/// Runs them, the newest first, each for at most `each`. A panic or a cleanup that takes too long is logged and
/// noted in the task's log. While the run is frozen they stand still, and the time does not count; a run that is
/// stopped gives them time until its hard end less one beat, `lease` being T. A lost run's still run.
pub(crate) async fn clean_up(run: &Run, each: Duration, lease: Duration) {
    let mut all = each.saturating_mul(ALL_TOGETHER);
    while let Some(cleanup) = run.cleanups.pop() {
        run.cleanups.running.store(true, Ordering::Relaxed);
        let mut left = each.min(all);
        let before = left;
        let what = match run_one(run, cleanup, &mut left, lease).await {
            Ended::Well => None,
            Ended::Panicked(message) => Some(message),
            Ended::Late => Some(format!("took longer than {} and was dropped", display_duration(before))),
            Ended::HardEnd => Some("was dropped: the stop of the run left no more time".to_owned()),
        };
        if let Some(what) = what {
            note(run, &format!("a cleanup {what}"));
        }
        all = all.saturating_sub(before.saturating_sub(left));
        if all.is_zero() || past_hard_end(run, lease) {
            break;
        }
    }
    match run.cleanups.drop_rest() {
        0 => {}
        rest => note(run, &format!("{rest} cleanups were not run: no time was left")),
    }
    run.cleanups.running.store(false, Ordering::Relaxed);
}

fn note(run: &Run, what: &str) {
    let what = run.telling.secrets.mask(what);
    tracing::warn!(task = %run.key.id, run = %run.key.run, "{what}");
    run.telling.log_error(&format!("leasehold: {what}\n"));
}

async fn run_one(run: &Run, cleanup: Cleanup, left: &mut Duration, lease: Duration) -> Ended {
    let secrets = std::sync::Arc::clone(&run.telling.secrets);
    let mut future = std::pin::pin!(Caught::new(secrets, async move { cleanup().await }));
    let (mut orders, mut stops) = (run.orders(), run.orders());
    loop {
        may_go_on(&mut orders).await;
        if past_hard_end(run, lease) {
            return Ended::HardEnd;
        }
        let began = Instant::now();
        tokio::select! {
            biased;
            // cancel-safe: the cleanup is kept; the others only wait.
            ended = &mut future => {
                *left = left.saturating_sub(began.elapsed());
                return ended.map_or_else(Ended::Panicked, |()| Ended::Well);
            }
            () = sleep(*left) => {
                *left = Duration::ZERO;
                return Ended::Late;
            }
            () = hard_end_near(run, &mut stops, lease) => {
                *left = left.saturating_sub(began.elapsed());
                return Ended::HardEnd;
            }
            () = must_stand_still(&mut orders) => *left = left.saturating_sub(began.elapsed()),
        }
    }
}

/// Waits until the run is not frozen, or lost: then nobody waits for it any more.
async fn may_go_on(orders: &mut watch::Receiver<Orders>) {
    if orders.wait_for(|o| !o.frozen || o.verdict.is_some()).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn must_stand_still(orders: &mut watch::Receiver<Orders>) {
    if orders.wait_for(|o| o.frozen && o.verdict.is_none()).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Of a stop: `hard_end = stop + grace + T + B`. A beat before it, so that the end can still be told.
fn past_hard_end(run: &Run, lease: Duration) -> bool {
    run.orders().borrow().stop.is_some_and(|stop| stop.kill_at.plus(lease) <= BootInstant::now())
}

/// Waits for it, also when a stop comes later, or a later one shortens the grace.
async fn hard_end_near(run: &Run, orders: &mut watch::Receiver<Orders>, lease: Duration) {
    loop {
        let stop = stop_ordered(orders).await;
        if past_hard_end(run, lease) {
            return;
        }
        let left = stop.kill_at.plus(lease).since(BootInstant::now());
        tokio::select! {
            // cancel-safe: both are started anew.
            () = sleep(left) => {}
            changed = orders.changed() => {
                if changed.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "cleanup_tests.rs"]
mod tests;
