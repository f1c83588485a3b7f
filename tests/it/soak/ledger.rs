//! What was asked of the queue and what it answered, kept outside it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_common::record::{FailureKind, StopCause, TaskRecord};
use leasehold_common::state::TaskState;
use leasehold_producer::AbortAnswer;
use leasehold_tests::queue::Move;

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

/// All accepted tasks, in the order of their enqueueing, and where the open ones of them stand.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) entries: Vec<Entry>,
    open: BTreeMap<String, usize>,
}

/// What an event stream told so far.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The id of the last entry.
    pub(super) last: Option<String>,
    /// Transitions, entry by entry.
    pub(super) moves: Vec<Vec<Move>>,
}

/// What was asked, answered and told.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    book: Mutex<Book>,
    told: Mutex<BTreeMap<Queue, Told>>,
    /// What was answered that should not have been.
    complaints: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    pub(super) fn told(&self) -> MutexGuard<'_, BTreeMap<Queue, Told>> {
        lock(&self.told)
    }

    pub(super) fn accepted(&self, planned: Planned) {
        let mut book = self.book();
        let at = book.entries.len();
        book.open.insert(planned.id.clone(), at);
        book.entries.push(Entry { planned, aborts: Vec::new(), end: None });
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
        let book = self.book();
        let of_queue = |(_, at): &(&String, &usize)| book.entries[**at].planned.queue == queue;
        book.open.iter().filter(of_queue).map(|(id, _)| id.clone()).collect()
    }

    /// How many they are, of all queues.
    pub(super) fn live(&self) -> usize {
        self.book().open.len()
    }

    /// Keeps an end when it is seen for the first time.
    pub(super) fn seen(&self, record: &TaskRecord) {
        if !record.state.is_terminal() {
            return;
        }
        let mut book = self.book();
        if let Some(at) = book.open.remove(record.id.as_str()) {
            book.entries[at].end = Some(End::from(record));
        }
    }
}
