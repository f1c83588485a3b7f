//! What a run says of itself and what is decided for it: phases, budgets, reconciliations.

use serde::Serialize;

use crate::name::PhaseName;

/// A phase as a run entered it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseNow {
    /// Its name.
    pub name: PhaseName,
    /// Since when, ms.
    pub since_ms: u64,
    /// How long it may take, ms; none = no bound of its own.
    pub timeout_ms: Option<u64>,
    /// When it ended, with its run, ms; none while it lasts.
    pub ended_ms: Option<u64>,
}

/// A phase that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhasePast {
    /// Its name.
    pub name: String,
    /// In which attempt.
    pub attempt: u64,
    /// Since when, ms.
    pub since_ms: u64,
    /// Until when, ms.
    pub until_ms: u64,
}

impl PhasePast {
    /// Reads an element of `Q:phases:<id>`.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (name, attempt, since, until): (String, f64, f64, f64) = rmp_serde::from_slice(bytes).ok()?;
        Some(Self { name, attempt: attempt as u64, since_ms: since as u64, until_ms: until as u64 })
    }
}

/// What of a budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BudgetUse {
    /// The maximum.
    pub most: u64,
    /// Spent over all attempts since it was enqueued, or retried by a person.
    pub spent: u64,
}

impl BudgetUse {
    /// What is left.
    #[must_use]
    pub const fn rest(self) -> u64 {
        self.most.saturating_sub(self.spent)
    }
}

/// That the end of a run was decided by others than the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reconciled {
    /// When, ms.
    pub at_ms: u64,
    /// By whom: `sweep`, `abort`, `worker start`, `doctor`.
    pub by: String,
    /// By what proof.
    pub reason: String,
}
