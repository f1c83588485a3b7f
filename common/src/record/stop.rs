//! Requests that runs end.

use serde::{Deserialize, Serialize};

/// Why a run is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// Somebody aborted the task.
    Abort,
    /// The run took longer than its run timeout.
    RunTimeout,
    /// A phase took longer than its timeout.
    PhaseTimeout,
    /// It gave no sign of life for its stall timeout.
    Stalled,
    /// The task's deadline passed.
    Deadline,
    /// A charge was above the rest of a budget.
    BudgetExceeded,
    /// Its worker stops.
    Drain,
}

impl StopCause {
    /// All causes.
    pub const ALL: [Self; 7] = [
        Self::Abort,
        Self::RunTimeout,
        Self::PhaseTimeout,
        Self::Stalled,
        Self::Deadline,
        Self::BudgetExceeded,
        Self::Drain,
    ];

    /// The name as scripts and JSON spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::RunTimeout => "run_timeout",
            Self::PhaseTimeout => "phase_timeout",
            Self::Stalled => "stalled",
            Self::Deadline => "deadline",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Drain => "drain",
        }
    }
}

/// A request that a run ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Why.
    #[serde(rename(deserialize = "c"))]
    pub cause: StopCause,
    /// When a script recorded it, ms.
    #[serde(rename(deserialize = "at"), deserialize_with = "whole")]
    pub at_ms: u64,
    /// Between cancellation (TERM) and KILL, ms.
    #[serde(rename(deserialize = "g"), default, deserialize_with = "whole")]
    pub grace_ms: u64,
    /// When nobody waits for the run any longer, ms.
    #[serde(rename(deserialize = "he"), deserialize_with = "whole")]
    pub hard_end_ms: u64,
    /// By whom.
    #[serde(default)]
    pub by: Option<String>,
    /// For people.
    #[serde(rename(deserialize = "rs"), default)]
    pub reason: Option<String>,
    /// The cause that an abort outranked.
    #[serde(rename(deserialize = "ec"), default)]
    pub earlier_cause: Option<StopCause>,
}

/// Lua packs whole numbers as integers and some as doubles.
fn whole<'de, D: serde::Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    Ok(f64::deserialize(d)? as u64)
}
