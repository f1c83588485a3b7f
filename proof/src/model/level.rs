//! The ready streams.

use leasehold_common::policy::Priority;

/// A ready stream, in the order in which they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Before everything.
    Urgent,
    /// What was running: reclaimed and released tasks.
    Again,
    /// Before normal.
    High,
    /// The default.
    Normal,
    /// After everything.
    Low,
}

impl Level {
    /// In reading order.
    pub(super) const ALL: [Self; 5] = [Self::Urgent, Self::Again, Self::High, Self::Normal, Self::Low];
    /// The order of every eighth task, so that nothing starves.
    pub(super) const LOWEST_FIRST: [Self; 5] =
        [Self::Low, Self::Normal, Self::High, Self::Again, Self::Urgent];

    /// Where tasks of this priority are queued.
    pub(super) fn of(priority: Priority) -> Self {
        match priority {
            Priority::Urgent => Self::Urgent,
            Priority::High => Self::High,
            Priority::Normal => Self::Normal,
            Priority::Low => Self::Low,
        }
    }

    /// Its name in keys.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Again => "again",
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}
