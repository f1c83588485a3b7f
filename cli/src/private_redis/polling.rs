//! The one place that sleeps: waiting for another process to get somewhere.

use std::time::{Duration, Instant};

/// How often a condition is looked at. A server is ready some 20 ms after its start.
const INTERVAL: Duration = Duration::from_millis(10);

/// A loop with a deadline: look, then [`Polling::again`], until it says no.
#[derive(Debug)]
pub(super) struct Polling {
    limit: Duration,
    until: Instant,
}

impl Polling {
    /// Polls for `limit` from now.
    pub(super) fn for_at_most(limit: Duration) -> Self {
        Self { limit, until: Instant::now() + limit }
    }

    /// Starts the time anew, because there was progress.
    pub(super) fn restart(&mut self) {
        self.until = Instant::now() + self.limit;
    }

    /// Sleeps a little and says whether to look once more.
    pub(super) fn again(&self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "neither another process nor a lock file offers a condition to wait on; the deadline ends it"
        )]
        std::thread::sleep(INTERVAL);
        true
    }
}
