//! The reaper itself: what its loops share, and how they start and stop together.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use leasehold_common::name::QueueName;
use leasehold_common::store::{Cleaned, Store, Swept};
use leasehold_common::{Error, Result};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::stats::Stats;
use crate::trouble::{Class, Troubles};
use crate::{cleanup, discovery, sweep};

/// Reclaims, promotes and cleans up in all queues of a store. Any number may run at the same time.
#[derive(Debug)]
pub struct Reaper {
    pub(crate) store: Store,
    pub(crate) config: Config,
    stats: Mutex<Stats>,
    troubles: Mutex<Troubles>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counters and log spacing are sound at any point where a panic could have come.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reaper {
    /// A reaper over a store; nothing is asked of Redis yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming every bad field of `config`.
    pub fn new(store: Store, config: Config) -> Result<Self> {
        config.validate()?;
        Ok(Self { store, config, stats: Mutex::default(), troubles: Mutex::default() })
    }

    /// Works until `stop` is cancelled, then returns once the calls in flight are answered; what was done in this
    /// reaper's life. No error ends it: Redis may be away for as long as it likes.
    pub async fn run(&self, stop: CancellationToken) -> Stats {
        let known: BTreeSet<QueueName> = self.config.queues.iter().cloned().collect();
        let (tell, queues) = watch::channel(known);
        tracing::info!(redis = self.store.address(), namespace = %self.store.namespace(), "reaper started");
        tokio::join!(
            discovery::run(self, &stop, tell),
            sweep::run(self, &stop, queues.clone()),
            cleanup::run(self, &stop, queues),
        );
        let stats = self.stats();
        tracing::info!(sweeps = stats.sweeps, reclaimed = stats.reclaimed, "reaper stopped");
        stats
    }

    /// One sweep and one cleanup of every queue, until nothing more is due; what this pass did. Errors are counted
    /// and logged.
    ///
    /// A dead run is reclaimed by the second look that misses its lease: one pass alone reclaims nothing.
    pub async fn run_once(&self) -> Stats {
        let mut queues: BTreeSet<QueueName> = self.config.queues.iter().cloned().collect();
        let mut stats = Stats::default();
        match self.store.queues().await {
            Ok(announced) => queues.extend(announced),
            Err(error) => {
                self.failed(None, &error);
                stats.errors += 1;
            }
        }
        for queue in &queues {
            stats += sweep::all_due(self, queue).await;
            stats += cleanup::all_due(self, queue).await;
        }
        stats
    }

    /// What was done in this reaper's life, so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        *lock(&self.stats)
    }

    /// Counts and tells what a sweep did.
    pub(crate) fn swept(&self, queue: &QueueName, swept: &Swept) -> Stats {
        self.went_well(Some(queue), &Class::ERRORS);
        let Swept { reclaimed, ended, stopped, suspected, promoted, .. } = *swept;
        if reclaimed + ended + stopped > 0 {
            tracing::info!(%queue, reclaimed, ended, stopped, "runs were reclaimed, ended or told to stop");
        }
        if suspected + promoted > 0 {
            tracing::debug!(%queue, suspected, promoted, "leases are missing, or tasks became due");
        }
        if swept.gap
            && let Some(line) = lock(&self.troubles).happened(Instant::now(), Some(queue), Class::Gap)
        {
            tracing::info!(%queue, times = line.times,
                "nobody had swept for a while: the reaper holds back; no run is judged dead before another lease has passed");
        }
        self.odd(queue, swept.odd);
        self.count(Stats::from(swept))
    }

    /// Counts and tells what a cleanup did.
    pub(crate) fn cleaned(&self, queue: &QueueName, cleaned: &Cleaned) -> Stats {
        self.went_well(Some(queue), &Class::ERRORS);
        if cleaned.deleted > 0 {
            tracing::info!(%queue, deleted = cleaned.deleted, "ended tasks past their retention were removed");
        }
        self.odd(queue, cleaned.odd);
        self.count(Stats::from(cleaned))
    }

    /// Counts a failed call (for a queue, or for the list of queues) and says so if it is time to. Answers its class.
    pub(crate) fn failed(&self, queue: Option<&QueueName>, error: &Error) -> Class {
        let class = Class::of(error);
        self.count(Stats { errors: 1, ..Stats::default() });
        if let Some(line) = lock(&self.troubles).happened(Instant::now(), queue, class) {
            let (times, for_ms) = (line.times, u64::try_from(line.lasts.as_millis()).unwrap_or(u64::MAX));
            let queue = queue.map_or("", QueueName::as_str);
            match class {
                Class::Redis => tracing::warn!(%error, times, for_ms, "Redis cannot be asked; trying again"),
                Class::NewerFormat => tracing::error!(queue, %error, times, for_ms, "the queue is skipped"),
                Class::Data | Class::Gap | Class::Odd => {
                    tracing::error!(queue, %error, times, for_ms, "what Redis holds cannot be served; trying again");
                }
            }
        }
        class
    }

    fn count(&self, stats: Stats) -> Stats {
        *lock(&self.stats) += stats;
        stats
    }

    fn odd(&self, queue: &QueueName, odd: u64) {
        if odd == 0 {
            return;
        }
        if let Some(line) = lock(&self.troubles).happened(Instant::now(), Some(queue), Class::Odd) {
            tracing::warn!(%queue, odd, times = line.times, "rows do not fit the protocol: run `leasehold doctor`");
        }
    }

    /// Ends the troubles of some classes that an answer for a queue, or with the list of queues, ends.
    pub(crate) fn went_well(&self, queue: Option<&QueueName>, classes: &[Class]) {
        for (class, lasted) in lock(&self.troubles).went_well(Instant::now(), queue, classes) {
            let lasted_ms = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX);
            match class {
                Class::Redis => {
                    tracing::info!(
                        lasted_ms,
                        "Redis answers again; no run is judged dead before another lease has passed"
                    );
                }
                Class::NewerFormat | Class::Data | Class::Gap | Class::Odd => {
                    tracing::info!(queue = queue.map_or("", QueueName::as_str), lasted_ms, "served again");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_common::name::Namespace;
    use leasehold_common::transport::ConnectOptions;

    use super::*;

    fn reaper(config: Config) -> Result<Reaper> {
        // Nobody listens on port 1.
        let options = ConnectOptions::default();
        Reaper::new(Store::open("redis://127.0.0.1:1", Namespace::default(), options)?, config)
    }

    #[test]
    fn a_bad_configuration_is_refused_at_once() {
        assert!(reaper(Config { concurrency: 0, ..Config::default() }).is_err());
    }

    #[tokio::test]
    async fn it_can_be_spawned_and_stopped_twice_without_redis() {
        let reaper = std::sync::Arc::new(reaper(Config::default()).unwrap());
        for _ in 0..2 {
            let (stop, running) = (CancellationToken::new(), reaper.clone());
            let run = tokio::spawn({
                let stop = stop.clone();
                async move { running.run(stop).await }
            });
            stop.cancel();
            stop.cancel();
            run.await.unwrap();
        }
        assert_eq!(reaper.run_once().await.sweeps, 0);
        assert!(reaper.stats().errors > 0);
    }
}
