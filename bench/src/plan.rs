//! What is measured, and how much of it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};

/// One row of the table. Some are two or more figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Row {
    /// Redis CPU per task, result kept.
    Cpu,
    /// The same, discarded on completion.
    Discard,
    /// Calls that clients send, per task.
    Calls,
    /// How fast a full queue drains.
    Drain,
    /// Producer and worker at once.
    Flow,
    /// Single awaited enqueues of many callers.
    Enqueue,
    /// CPU of producer and worker.
    Client,
    /// From the enqueue to the handler, with an idle worker.
    Pickup,
    /// Bytes of a queued task.
    Queued,
    /// Bytes of a kept finished task.
    Kept,
    /// A deep queue against a shallow one.
    Depth,
    /// Heartbeats and sweeps of many running tasks.
    Leases,
    /// Commands of an idle worker.
    Idle,
    /// How late delayed tasks start.
    Delayed,
    /// How long single calls take under load.
    Latency,
}

impl Row {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 15] = [
        Self::Cpu,
        Self::Discard,
        Self::Calls,
        Self::Drain,
        Self::Flow,
        Self::Enqueue,
        Self::Client,
        Self::Pickup,
        Self::Queued,
        Self::Kept,
        Self::Depth,
        Self::Leases,
        Self::Idle,
        Self::Delayed,
        Self::Latency,
    ];

    /// Its name on the command line and in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Discard => "discard",
            Self::Calls => "calls",
            Self::Drain => "drain",
            Self::Flow => "flow",
            Self::Enqueue => "enqueue",
            Self::Client => "client",
            Self::Pickup => "pickup",
            Self::Queued => "queued",
            Self::Kept => "kept",
            Self::Depth => "depth",
            Self::Leases => "leases",
            Self::Idle => "idle",
            Self::Delayed => "delayed",
            Self::Latency => "latency",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Row {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|row| row.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|row| row.as_str()).collect();
            let shown = leasehold_common::text::printable(text);
            Error::invalid("rows", format!("{shown:?} is not one of {}", names.join(", ")))
        })
    }
}

/// Tasks of a round.
pub const TASKS: RangeInclusive<usize> = 10..=1_000_000;
/// Rounds.
pub const ROUNDS: RangeInclusive<usize> = 1..=100;
/// Slots of the worker.
pub const SLOTS: RangeInclusive<usize> = 1..=leasehold_worker::MOST_SLOTS;

/// What is measured, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The rows. Defaults to all.
    pub rows: BTreeSet<Row>,
    /// Tasks of a round. Defaults to 20,000.
    pub tasks: usize,
    /// How often each pair of raw and ours is measured. Defaults to 5.
    pub rounds: usize,
    /// Slots of the worker. Defaults to 100.
    pub slots: usize,
    /// The rest. Defaults to [`Scale::full`].
    pub scale: Scale,
}

/// Sizes and times of the rows that are not counted in rounds of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Tasks of a pick-up round, each 10 ms after the one before.
    pub pickups: usize,
    /// Tasks whose memory is measured: enough that the event log reaches its cap.
    pub memory: usize,
    /// The depths that are compared.
    pub depths: (usize, usize),
    /// Tasks that run at once, and how long they are watched.
    pub leases: (usize, Duration),
    /// How long an idle worker is watched.
    pub idle: Duration,
    /// Delayed tasks, and the time over which they are due.
    pub delayed: (usize, Duration),
}

impl Scale {
    /// As the table of the project has it.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            pickups: 200,
            memory: 200_000,
            depths: (10_000, 1_000_000),
            leases: (10_000, Duration::from_secs(20)),
            idle: Duration::from_secs(15),
            delayed: (100_000, Duration::from_secs(60)),
        }
    }

    /// Small: to see that it works, not to believe the figures.
    #[must_use]
    pub const fn quick() -> Self {
        Self {
            pickups: 20,
            memory: 1000,
            depths: (300, 3000),
            leases: (200, Duration::from_secs(1)),
            // Longer than one blocking wait of the bell, or an idle worker would be seen to do nothing.
            idle: Duration::from_secs(3),
            delayed: (200, Duration::from_secs(1)),
        }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self { rows: Row::ALL.into(), tasks: 20_000, rounds: 5, slots: 100, scale: Scale::full() }
    }
}

impl Plan {
    /// A run of seconds.
    #[must_use]
    pub fn quick() -> Self {
        Self { tasks: 500, rounds: 1, scale: Scale::quick(), ..Self::default() }
    }

    /// Whether any of these rows is wanted.
    #[must_use]
    pub fn wants(&self, rows: &[Row]) -> bool {
        rows.iter().any(|row| self.rows.contains(row))
    }

    /// Whether it measures all rows in their full size.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let default = Self::default();
        self.rows == default.rows
            && self.scale == default.scale
            && self.tasks >= default.tasks
            && self.rounds >= default.rounds
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the first field out of its range, and the range.
    pub fn validate(&self) -> Result<()> {
        let ranges =
            [("tasks", self.tasks, TASKS), ("rounds", self.rounds, ROUNDS), ("slots", self.slots, SLOTS)];
        for (field, value, range) in ranges {
            if !range.contains(&value) {
                let (least, most) = range.into_inner();
                return Err(Error::invalid(field, format!("{value} is not {least} to {most}")));
            }
        }
        if self.rows.is_empty() {
            return Err(Error::invalid("rows", "is empty: nothing to measure"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, Row};

    #[test]
    fn rows_are_read_by_their_names() {
        for row in Row::ALL {
            assert_eq!(row.as_str().parse::<Row>().unwrap(), row);
        }
        let error = "speed".parse::<Row>().unwrap_err().to_string();
        assert!(error.contains("invalid rows") && error.contains("cpu, discard"), "{error}");
    }

    #[test]
    fn a_field_out_of_range_is_named_with_its_range() {
        assert!(Plan::default().validate().is_ok() && Plan::quick().validate().is_ok());
        let bad = [
            (Plan { tasks: 9, ..Plan::default() }, "invalid tasks: 9 is not 10 to 1000000"),
            (Plan { rounds: 0, ..Plan::default() }, "invalid rounds: 0 is not 1 to 100"),
            (Plan { slots: 10_001, ..Plan::default() }, "invalid slots: 10001 is not 1 to 10000"),
            (Plan { rows: [].into(), ..Plan::default() }, "invalid rows: is empty: nothing to measure"),
        ];
        for (plan, told) in bad {
            assert_eq!(plan.validate().unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn only_the_whole_table_is_full() {
        assert!(Plan::default().is_full());
        assert!(!Plan::quick().is_full());
        assert!(!Plan { rows: [Row::Cpu].into(), ..Plan::default() }.is_full());
    }
}
