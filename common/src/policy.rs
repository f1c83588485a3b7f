//! What a task asks of the queue: its priority, and how often, how long and how soon again it runs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::time::{MAX_DURATION, as_ms, display_duration};

/// Which ready stream a task waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Before everything else.
    Urgent,
    /// Before normal.
    High,
    /// The default.
    #[default]
    Normal,
    /// After everything else; every eighth task is taken lowest first, so that nothing starves.
    Low,
}

impl Priority {
    /// All priorities, most urgent first.
    pub const ALL: [Self; 4] = [Self::Urgent, Self::High, Self::Normal, Self::Low];

    /// The name as scripts, the CLI and JSON spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Priority {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|p| p.as_str() == text).ok_or_else(|| {
            let shown = crate::text::printable(text);
            Error::invalid("priority", format!("{shown:?} is not one of urgent, high, normal, low"))
        })
    }
}

/// What happens to a task whose worker died under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLeaseExpired {
    /// It is started again, at most `max_reclaims` times.
    #[default]
    Requeue,
    /// It fails: it does not tolerate being started twice.
    Fail,
}

/// The delay before the next attempt: exponential, capped, with full jitter (uniform between 0 and the delay).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// The ceiling of the first delay. Defaults to 1 s.
    pub base: Duration,
    /// No delay is longer. Defaults to 5 min.
    pub cap: Duration,
    /// Each ceiling is so many times the one before; 1 to 1000. Defaults to 2.
    pub factor: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_secs(1), cap: Duration::from_secs(300), factor: 2.0 }
    }
}

/// The bounds of a task. Defaults are those of handlers; [`Policy::command`] gives those of commands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// How many failures end the task for good: 1 to 10,000. Defaults to 5.
    pub max_attempts: u32,
    /// The delay between attempts.
    pub backoff: Backoff,
    /// How often the task may lose its worker and be started again: 0 to 10,000. Defaults to 3.
    pub max_reclaims: u32,
    /// Whether a task whose worker died is started again. Defaults to requeue.
    pub on_lease_expired: OnLeaseExpired,
    /// How long one run may take; none = for ever, which must be said. Defaults to 24 h.
    pub run_timeout: Option<Duration>,
    /// Between TERM (or cancellation) and KILL. Defaults to 30 s.
    pub stop_grace: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            backoff: Backoff::default(),
            max_reclaims: 3,
            on_lease_expired: OnLeaseExpired::Requeue,
            run_timeout: Some(Duration::from_secs(24 * 3600)),
            stop_grace: Duration::from_secs(30),
        }
    }
}

/// The policy as the scripts read it: the order of `DEFAULT_POLICY` in `lua/lib/policy.lua`.
type Wire = (u64, u64, u64, f64, u64, u64, u64, u64);

impl Policy {
    /// The defaults of commands: one attempt.
    #[must_use]
    pub fn command() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the first field out of its range.
    pub fn validate(&self) -> Result<()> {
        let count = |field, n: u32, least: u32| {
            if (least..=10_000).contains(&n) {
                return Ok(());
            }
            Err(Error::invalid(field, format!("{n} is not {least} to 10000")))
        };
        let within = |field, d: Duration, least: Duration| {
            if (least..=MAX_DURATION).contains(&d) {
                return Ok(());
            }
            let (least, most) = (display_duration(least), display_duration(MAX_DURATION));
            Err(Error::invalid(field, format!("{} is not {least} to {most}", display_duration(d))))
        };
        count("max_attempts", self.max_attempts, 1)?;
        count("max_reclaims", self.max_reclaims, 0)?;
        within("backoff.base", self.backoff.base, Duration::ZERO)?;
        within("backoff.cap", self.backoff.cap, Duration::ZERO)?;
        within("stop_grace", self.stop_grace, Duration::ZERO)?;
        if let Some(timeout) = self.run_timeout {
            within("run_timeout", timeout, Duration::from_millis(1))?;
        }
        if (1.0..=1000.0).contains(&self.backoff.factor) {
            return Ok(());
        }
        Err(Error::invalid("backoff.factor", format!("{} is not 1 to 1000", self.backoff.factor)))
    }

    fn to_wire(self) -> Wire {
        (
            self.max_attempts.into(),
            as_ms(self.backoff.base),
            as_ms(self.backoff.cap),
            self.backoff.factor,
            self.max_reclaims.into(),
            u64::from(self.on_lease_expired == OnLeaseExpired::Requeue),
            self.run_timeout.map_or(0, as_ms),
            as_ms(self.stop_grace),
        )
    }

    fn from_wire(w: Wire) -> Self {
        let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            max_attempts: count(w.0),
            backoff: Backoff {
                base: Duration::from_millis(w.1),
                cap: Duration::from_millis(w.2),
                factor: w.3,
            },
            max_reclaims: count(w.4),
            on_lease_expired: if w.5 == 0 { OnLeaseExpired::Fail } else { OnLeaseExpired::Requeue },
            run_timeout: (w.6 > 0).then(|| Duration::from_millis(w.6)),
            stop_grace: Duration::from_millis(w.7),
        }
    }

    /// The form that scripts read: empty for the defaults, which the record then does not hold.
    pub(crate) fn to_arg(self) -> Result<Vec<u8>> {
        if self == Self::default() {
            return Ok(Vec::new());
        }
        rmp_serde::to_vec(&self.to_wire()).map_err(|e| Error::Protocol(e.to_string()))
    }
}

/// Reads the policy that a record holds.
pub(crate) fn from_record(packed: &[u8]) -> Option<Policy> {
    let w: (f64, f64, f64, f64, f64, f64, f64, f64) = rmp_serde::from_slice(packed).ok()?;
    let all = [w.0, w.1, w.2, w.3, w.4, w.5, w.6, w.7];
    if w.0 < 1.0 || !all.iter().all(|n| (0.0..=9e15).contains(n)) {
        return None;
    }
    let ms = |n: f64| n as u64;
    Some(Policy::from_wire((ms(w.0), ms(w.1), ms(w.2), w.3, ms(w.4), ms(w.5), ms(w.6), ms(w.7))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_travel_as_nothing() {
        assert!(Policy::default().to_arg().unwrap().is_empty());
        assert!(!Policy::command().to_arg().unwrap().is_empty());
    }

    #[test]
    fn case_26_max_attempts_zero_is_refused() {
        let policy = Policy { max_attempts: 0, ..Policy::default() };
        assert_eq!(policy.validate().unwrap_err().to_string(), "invalid max_attempts: 0 is not 1 to 10000");
    }

    #[test]
    fn case_25_bad_backoff_is_refused() {
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e308] {
            let backoff = Backoff { factor, ..Backoff::default() };
            assert!(Policy { backoff, ..Policy::default() }.validate().is_err(), "{factor}");
        }
        let backoff = Backoff { base: Duration::MAX, ..Backoff::default() };
        assert!(Policy { backoff, ..Policy::default() }.validate().is_err());
    }
}
