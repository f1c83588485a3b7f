//! The worker's entry in the registry: for people, nothing relies on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_common::store::{Store, WorkerInfo};

use crate::guard::BootInstant;

/// An entry lives so long after the last sign of life.
const ENTRY_TTL: Duration = Duration::from_secs(30);
/// Queues are announced again so often.
const QUEUES_EVERY: Duration = Duration::from_secs(60);

/// The worker's entry.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    info: WorkerInfo,
    /// When `info.started_ms` was read.
    began: BootInstant,
    draining: Arc<AtomicBool>,
    queues_told: Arc<Mutex<Option<BootInstant>>>,
}

impl Registry {
    /// An entry of a worker that starts now.
    pub(crate) fn new(info: WorkerInfo) -> Self {
        Self { info, began: BootInstant::now(), draining: Arc::default(), queues_told: Arc::default() }
    }

    /// The worker takes no new tasks.
    pub(crate) fn set_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Says that the worker lives. Errors are told by the heartbeats.
    pub(crate) async fn sign_of_life(&self, store: &Store, running: usize, wedged: bool) {
        if let Err(error) = self.try_sign(store, running, wedged).await {
            tracing::debug!(%error, "the worker's registry entry could not be renewed");
        }
    }

    async fn try_sign(&self, store: &Store, running: usize, wedged: bool) -> leasehold_common::Result<()> {
        let status = match (wedged, self.draining.load(Ordering::Relaxed)) {
            (true, _) => "wedged",
            (false, true) => "draining",
            (false, false) => "running",
        };
        let info = WorkerInfo { running, status: status.to_owned(), ..self.info.clone() };
        // The score is only to be looked at: Redis need not be asked for its time.
        let ran = BootInstant::now().since(self.began).as_millis();
        let now_ms = self.info.started_ms.saturating_add(u64::try_from(ran).unwrap_or(u64::MAX));
        store.announce_worker(&info, now_ms, ENTRY_TTL).await?;
        if self.queues_due() {
            for queue in self.info.queues.keys() {
                store.announce_queue(queue).await?;
            }
        }
        Ok(())
    }

    fn queues_due(&self) -> bool {
        let now = BootInstant::now();
        let mut told = self.queues_told.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|at| now.since(at) >= QUEUES_EVERY);
        if due {
            *told = Some(now);
        }
        due
    }

    /// The worker ends.
    pub(crate) async fn forget(&self, store: &Store) {
        if let Err(error) = store.forget_worker(&self.info.incarnation).await {
            tracing::debug!(%error, "the worker's registry entry is left to lapse");
        }
    }
}
