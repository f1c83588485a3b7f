//! What may be chosen of a reaper.

use std::ops::RangeInclusive;
use std::time::Duration;

use leasehold_common::name::QueueName;
use leasehold_common::time::display_duration;
use leasehold_common::{Error, Result};

/// Sweeps of a queue: a shorter pause would cost Redis more than it gains.
pub(crate) const SWEEP_EVERY: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(1);
const CLEANUP_EVERY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
const CONCURRENCY: RangeInclusive<usize> = 1..=64;

/// The configuration of a [`Reaper`](crate::Reaper).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Queues to serve beside those that are announced: for queues whose announcement got lost. Defaults to none.
    pub queues: Vec<QueueName>,
    /// The longest pause between two sweeps of a queue, 50 ms to 1 s. A queue with a short lease is swept more
    /// often by itself, so is one with a look due. Defaults to 1 s.
    pub sweep_every: Duration,
    /// The pause between two cleanups, 1 s to 1 day. Defaults to 60 s.
    pub cleanup_every: Duration,
    /// How many queues are swept at the same time, 1 to 64. Defaults to 8.
    pub concurrency: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            queues: Vec::new(),
            sweep_every: *SWEEP_EVERY.end(),
            cleanup_every: Duration::from_secs(60),
            concurrency: 8,
        }
    }
}

impl Config {
    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming every field that is out of its range, and the range.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let durations = [
            ("sweep_every", self.sweep_every, SWEEP_EVERY),
            ("cleanup_every", self.cleanup_every, CLEANUP_EVERY),
        ];
        for (field, value, range) in durations {
            if !range.contains(&value) {
                let shown = [value, *range.start(), *range.end()].map(display_duration);
                problems.push(format!("{field} {} is not {} to {}", shown[0], shown[1], shown[2]));
            }
        }
        if !CONCURRENCY.contains(&self.concurrency) {
            let (least, most) = CONCURRENCY.into_inner();
            problems.push(format!("concurrency {} is not {least} to {most}", self.concurrency));
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::invalid("reaper configuration", problems.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert!(Config::default().validate().is_ok());
    }

    #[test]
    fn every_bad_field_is_named_with_its_range() {
        let bad = Config {
            queues: Vec::new(),
            sweep_every: Duration::from_secs(2),
            cleanup_every: Duration::ZERO,
            concurrency: 0,
        };
        assert_eq!(
            bad.validate().unwrap_err().to_string(),
            "invalid reaper configuration: sweep_every 2s is not 50ms to 1s; cleanup_every 0ms is not 1s to 1d; \
             concurrency 0 is not 1 to 64"
        );
    }
}
