//! What a reaper has done, in numbers.

use std::ops::AddAssign;

use leasehold_common::store::{Cleaned, Swept};
use serde::Serialize;

/// Counters of a reaper, since it was made or of one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Stats {
    /// Sweeps that were answered.
    pub sweeps: u64,
    /// Running tasks looked at.
    pub looked: u64,
    /// First looks that missed a lease.
    pub suspected: u64,
    /// Runs reclaimed from dead owners.
    pub reclaimed: u64,
    /// Runs ended past their hard end.
    pub ended: u64,
    /// Stops recorded for runs past their bound.
    pub stopped: u64,
    /// Scheduled tasks that became due.
    pub promoted: u64,
    /// Sweeps that came after a gap: suspicion was held back.
    pub gaps: u64,
    /// Cleanups that were answered.
    pub cleanups: u64,
    /// Ended tasks removed.
    pub deleted: u64,
    /// Rows that did not fit the protocol; the doctor tells of them.
    pub odd: u64,
    /// Calls that failed.
    pub errors: u64,
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.sweeps += other.sweeps;
        self.looked += other.looked;
        self.suspected += other.suspected;
        self.reclaimed += other.reclaimed;
        self.ended += other.ended;
        self.stopped += other.stopped;
        self.promoted += other.promoted;
        self.gaps += other.gaps;
        self.cleanups += other.cleanups;
        self.deleted += other.deleted;
        self.odd += other.odd;
        self.errors += other.errors;
    }
}

impl From<&Swept> for Stats {
    fn from(swept: &Swept) -> Self {
        Self {
            sweeps: 1,
            looked: swept.looked,
            suspected: swept.suspected,
            reclaimed: swept.reclaimed,
            ended: swept.ended,
            stopped: swept.stopped,
            promoted: swept.promoted,
            gaps: u64::from(swept.gap),
            odd: swept.odd,
            ..Self::default()
        }
    }
}

impl From<&Cleaned> for Stats {
    fn from(cleaned: &Cleaned) -> Self {
        Self { cleanups: 1, deleted: cleaned.deleted, odd: cleaned.odd, ..Self::default() }
    }
}
