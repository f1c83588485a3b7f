//! What a task may use up beyond its policy: its time as a whole, silence, and budgets.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::name::BudgetName;
use crate::time::{MAX_DURATION, as_ms, display_duration, display_time};

/// Most budgets of a task.
pub const MOST_BUDGETS: usize = 16;
/// Most that a budget may hold: what Redis counts exactly.
pub const MOST_BUDGET: u64 = (1 << 53) - 1;
/// No time is later: the end of the year 9999, ms since 1970.
pub const LATEST_MS: u64 = 253_402_300_799_000;
/// When commands are told of as silent.
pub const COMMAND_SILENCE: Duration = Duration::from_secs(120);

/// When a task ends wherever it is: queueing and retries included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deadline {
    /// So long after Redis accepts it, and after each retry by a person.
    After(Duration),
    /// At this time, ms since 1970 by Redis's clock. A person who retries the task later lifts it.
    At(u64),
}

/// Clocks differ by less than this: only a time that is farther back has certainly passed.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

impl Deadline {
    /// Refuses a time that has certainly passed: its task would end before it began. `now_ms` is the clock of whoever asks,
    /// not Redis's; so what passed within the last minute is let go, and ends at once.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn refuse_past(self, now_ms: u64) -> Result<()> {
        match self {
            Self::At(ms) if ms.saturating_add(as_ms(CLOCKS_DIFFER)) < now_ms => {
                Err(Error::invalid("deadline", format!("{} has passed", display_time(ms))))
            }
            Self::At(_) | Self::After(_) => Ok(()),
        }
    }
}

/// Bounds that few tasks have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// When the task ends wherever it is, as `timed_out`. Defaults to never.
    pub deadline: Option<Deadline>,
    /// A run without a sign of life (output, progress, phase, charge, checkpoint) for so long is told of, once a silence.
    /// Defaults to never; for commands to 120 s.
    pub silence_notice: Option<Duration>,
    /// A run without a sign of life for so long is ended as `stalled`. Defaults to never.
    pub stall_timeout: Option<Duration>,
    /// What the task may spend over all its attempts, by name. A charge above the rest ends it as `budget_exceeded`.
    pub budgets: BTreeMap<BudgetName, u64>,
}

impl Bounds {
    /// The defaults of commands: silence is told of after 120 s.
    #[must_use]
    pub fn command() -> Self {
        Self { silence_notice: Some(COMMAND_SILENCE), ..Self::default() }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the first field out of its range.
    pub fn validate(&self) -> Result<()> {
        let within = |field, duration: Option<Duration>| match duration {
            Some(d) if !(Duration::from_millis(1)..=MAX_DURATION).contains(&d) => {
                let most = display_duration(MAX_DURATION);
                Err(Error::invalid(field, format!("{} is not 1ms to {most}", display_duration(d))))
            }
            _ => Ok(()),
        };
        match self.deadline {
            Some(Deadline::After(after)) => within("deadline", Some(after))?,
            Some(Deadline::At(ms)) if ms > LATEST_MS => {
                return Err(Error::invalid("deadline", "is after the year 9999"));
            }
            Some(Deadline::At(_)) | None => {}
        }
        within("silence_notice", self.silence_notice)?;
        within("stall_timeout", self.stall_timeout)?;
        if self.budgets.len() > MOST_BUDGETS {
            let many = self.budgets.len();
            return Err(Error::invalid("budgets", format!("{many} are over the limit of {MOST_BUDGETS}")));
        }
        match self.budgets.iter().find(|(_, most)| **most > MOST_BUDGET) {
            Some((name, most)) => {
                Err(Error::invalid("budgets", format!("{most} of {name} is over {MOST_BUDGET}")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_04_a_bound_of_zero_is_refused_by_name() {
        let zero = Some(Duration::ZERO);
        for (field, bounds) in [
            ("deadline", Bounds { deadline: Some(Deadline::After(Duration::ZERO)), ..Bounds::default() }),
            ("silence_notice", Bounds { silence_notice: zero, ..Bounds::default() }),
            ("stall_timeout", Bounds { stall_timeout: zero, ..Bounds::default() }),
        ] {
            let error = bounds.validate().unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid {field}: ")), "{error}");
        }
    }

    #[test]
    fn case_04_a_deadline_that_has_certainly_passed_is_refused() {
        let now = 1_796_083_200_000;
        let error = Deadline::At(now - 60_001).refuse_past(now).unwrap_err().to_string();
        assert!(error.starts_with("invalid deadline: 2026-11-30T23:58:59.999Z has passed"), "{error}");
        for fine in [Deadline::At(now - 60_000), Deadline::At(now + 1), Deadline::After(Duration::ZERO)] {
            assert!(fine.refuse_past(now).is_ok(), "{fine:?}");
        }
    }

    #[test]
    fn r62_a_budget_has_a_range_and_a_task_few_of_them() {
        let of = |n: usize, most| Bounds {
            budgets: (0..n).map(|i| (BudgetName::new(format!("b{i}")).unwrap(), most)).collect(),
            ..Bounds::default()
        };
        assert!(of(MOST_BUDGETS, MOST_BUDGET).validate().is_ok());
        assert!(of(MOST_BUDGETS + 1, 1).validate().is_err());
        assert!(of(1, MOST_BUDGET + 1).validate().is_err());
    }
}
