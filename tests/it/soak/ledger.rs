//! What was asked of the queue and what it answered, kept outside it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_common::record::{FailureKind, StopCause, TaskRecord};
use leasehold_common::state::TaskState;
use leasehold_producer::AbortAnswer;

use super::plan::{Planned, Queue};

/// How a task ended: nothing of this may ever change.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct End {
    pub(super) state: TaskState,
    pub(super) rev: u64,
    pub(super) attempt: u64,
    pub(super) failures: u64,
    pub(super) reclaims: u64,
    pub(super) kind: Option<FailureKind>,
    pub(super) stop: Option<StopCause>,
    pub(super) ended_ms: Option<u64>,
    /// What was spent, of all budgets, and what might have been.
    pub(super) spent: (u64, u64),
}

impl From<&TaskRecord> for End {
    fn from(record: &TaskRecord) -> Self {
        let sum = |of: fn(&leasehold_common::record::BudgetUse) -> u64| record.budgets.values().map(of).sum();
        Self {
            state: record.state,
            rev: record.rev,
            attempt: record.attempt,
            failures: record.failures,
            reclaims: record.reclaims,
            kind: record.failure_kind,
            stop: record.stop.as_ref().map(|stop| stop.cause),
            ended_ms: record.ended_ms,
            spent: (sum(|used| used.spent), sum(|used| used.most)),
        }
    }
}

/// An abort and its answer; times by [`leasehold_tests::trail::now_ns`].
#[derive(Debug, Clone)]
pub(super) struct Abort {
    pub(super) answer: AbortAnswer,
    pub(super) answered_at: u64,
}

/// A task that Redis has accepted.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) planned: Planned,
    pub(super) aborts: Vec<Abort>,
    /// As it was first seen.
    pub(super) end: Option<End>,
}

/// All accepted tasks, in the order of their enqueueing.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: Mutex<Vec<Entry>>,
    /// What was answered that should not have been.
    complaints: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    pub(super) fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        lock(&self.entries)
    }

    pub(super) fn accepted(&self, planned: Planned) {
        self.entries().push(Entry { planned, aborts: Vec::new(), end: None });
    }

    pub(super) fn complain(&self, what: String) {
        eprintln!("complaint: {what}");
        lock(&self.complaints).push(what);
    }

    pub(super) fn complaints(&self) -> Vec<String> {
        lock(&self.complaints).clone()
    }

    /// Tasks of a queue that were not seen ended.
    pub(super) fn open(&self, queue: Queue) -> Vec<String> {
        let entries = self.entries();
        let open = entries.iter().filter(|entry| entry.end.is_none() && entry.planned.queue == queue);
        open.map(|entry| entry.planned.id.clone()).collect()
    }

    pub(super) fn live(&self) -> usize {
        self.entries().iter().filter(|entry| entry.end.is_none()).count()
    }

    /// Keeps an end that is seen for the first time.
    pub(super) fn seen(&self, record: &TaskRecord) {
        if !record.state.is_terminal() {
            return;
        }
        let mut entries = self.entries();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.planned.id == record.id.as_str()) {
            entry.end.get_or_insert_with(|| End::from(record));
        }
    }
}
