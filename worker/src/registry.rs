//! The worker's entry in the registry, and its name: both last as long as it gives signs of life.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_common::name::WorkerName;
use leasehold_common::store::{Store, WorkerInfo};
use tokio_util::sync::CancellationToken;

use crate::guard::BootInstant;
use crate::mark::is_dead;

/// An entry, and a name, live so long after the last sign of life.
pub(crate) const ENTRY_TTL: Duration = Duration::from_secs(30);
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
    /// Another worker has taken this one's place while nobody could see that it lives: it has to end.
    pub(crate) ousted: CancellationToken,
}

impl Registry {
    /// An entry of a worker that starts now, under a name that it has taken.
    pub(crate) fn new(info: WorkerInfo) -> Self {
        Self {
            info,
            began: BootInstant::now(),
            draining: Arc::default(),
            queues_told: Arc::default(),
            ousted: CancellationToken::new(),
        }
    }

    /// The worker's name.
    pub(crate) fn name(&self) -> &WorkerName {
        &self.info.name
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
        self.hold_name(store).await?;
        if self.queues_due() {
            for queue in self.info.queues.keys() {
                store.announce_queue(queue).await?;
            }
        }
        Ok(())
    }

    /// Holds the name for longer. It may have lapsed while Redis was away or this process stood still, and be another's.
    async fn hold_name(&self, store: &Store) -> leasehold_common::Result<()> {
        let WorkerInfo { name, incarnation, mark, .. } = &self.info;
        let Some(holder) = store.renew_name(name, incarnation, ENTRY_TTL).await? else { return Ok(()) };
        match store.worker(&holder).await? {
            // It has not settled: it sees this worker's entry, and gives the name back.
            None => {}
            // Redis has lost that this worker took the name over.
            Some(other) if is_dead(mark, &other) => {
                store.take_over_name(name, &holder, incarnation, ENTRY_TTL).await?;
            }
            Some(other) => {
                if !self.ousted.is_cancelled() {
                    tracing::error!(worker = %name, host = %other.host, pid = other.pid,
                        "another worker has taken this one's name while it gave no sign of life: it stops");
                }
                self.ousted.cancel();
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

    /// The worker ends: its name is free at once.
    pub(crate) async fn forget(&self, store: &Store) {
        let WorkerInfo { name, incarnation, .. } = &self.info;
        // The entry first: a free name with an entry of a process that is still there would be refused.
        let forgotten = store.forget_worker(incarnation).await;
        if let Err(error) = forgotten.and(store.free_name(name, incarnation).await) {
            tracing::debug!(%error, "the worker's registry entry is left to lapse");
        }
    }
}
