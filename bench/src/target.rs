//! Which Redis is measured.

use std::fmt;

/// A Redis to measure on.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Its URL; it may hold a password.
    pub url: String,
    /// Started for this run, and used by nobody else: it may be flushed, and its counters reset.
    pub own: bool,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("own", &self.own).finish_non_exhaustive()
    }
}
