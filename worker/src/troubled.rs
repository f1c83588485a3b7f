//! Redis does not answer: said once for all queues, and once that it is over; no flood while it lasts.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_common::Error;
use leasehold_common::name::QueueName;

use crate::guard::BootInstant;

/// A trouble that comes and goes is said at most so often.
const EVERY: Duration = Duration::from_secs(10);

/// Shared by the loops of a worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Troubled(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    queues: HashSet<QueueName>,
    failures: u64,
    said_at: Option<BootInstant>,
    /// It was said that the trouble is there, and not yet that it is over.
    said: bool,
}

impl Troubled {
    /// A call failed.
    pub(crate) fn say(&self, queue: &QueueName, error: &Error) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = BootInstant::now();
        state.failures += 1;
        state.queues.insert(queue.clone());
        if !state.said && state.said_at.is_none_or(|at| now.since(at) >= EVERY) {
            (state.said, state.said_at) = (true, Some(now));
            tracing::warn!(%queue, %error, "Redis does not answer; trying again until it does");
        }
    }

    /// A call succeeded.
    pub(crate) fn over(&self, queue: &QueueName) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.queues.remove(queue) && state.queues.is_empty() && state.said {
            tracing::info!(failures = state.failures, "Redis answers again");
            (state.said, state.failures) = (false, 0);
        }
    }
}
