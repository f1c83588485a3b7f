//! A worker's settings.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_common::error::{Error, Result};
use leasehold_common::limits::{Limits, MOST, check_size};
use leasehold_common::name::{Namespace, QueueName, WorkerName};
use leasehold_common::store::{LEASE_RANGE, QueueSettings};
use leasehold_common::time::display_duration;
use leasehold_common::transport::ConnectOptions;

use crate::exec::ExecPolicy;
use crate::redact;

/// Most slots of a queue, and of a worker.
pub const MOST_SLOTS: usize = 10_000;
/// Longest that a cleanup may take. A stop leaves it less in any case.
const MOST_CLEANUP: Duration = Duration::from_secs(600);
/// Longest drain grace.
const MOST_DRAIN: Duration = Duration::from_secs(24 * 3600);

/// Settings of a worker. Checked before a worker starts.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where Redis is.
    pub url: String,
    /// First part of every key. Defaults to `lh`.
    pub namespace: Namespace,
    /// The worker's stable name, which no two that live may share. Defaults to the host's name, or the first of `host-2`,
    /// `host-3` .. that is free.
    pub name: Option<WorkerName>,
    /// Slots per queue: 1 to 10,000 each. At least one queue.
    pub queues: BTreeMap<QueueName, usize>,
    /// Slots over all queues. Defaults to their sum.
    pub total_slots: Option<usize>,
    /// The lease of queues that this worker is the first to register: 1 s to 10 min. Defaults to 15 s. A queue
    /// that exists keeps its own; the worker warns and follows.
    pub lease: Option<Duration>,
    /// How long a stopping worker lets its runs finish before it hands them back. Defaults to 25 s.
    pub drain_grace: Duration,
    /// How long each cleanup that a handler left with [`on_end`](crate::Context::on_end) may take, and half of what all
    /// of a run may take together: at most 10 min. Defaults to 5 s. A worker that drains waits for them within the 13 s
    /// that its last runs have after its drain grace.
    pub cleanup_timeout: Duration,
    /// Names of this process's own environment variables whose values no message and no output of a run may show:
    /// `***` stands in their place. Each must be set, with nothing or 4 bytes or more. Defaults to none.
    pub redact: Vec<String>,
    /// Which commands may run. Defaults to none.
    pub exec: ExecPolicy,
    /// Size limits.
    pub limits: Limits,
    /// How Redis is reached.
    pub connect: ConnectOptions,
    /// What queues are registered with.
    pub queue_settings: QueueSettings,
}

impl Config {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            namespace: Namespace::default(),
            name: None,
            queues: BTreeMap::new(),
            total_slots: None,
            lease: None,
            drain_grace: Duration::from_secs(25),
            cleanup_timeout: Duration::from_secs(5),
            redact: Vec::new(),
            exec: ExecPolicy::Off,
            limits: Limits::default(),
            connect: ConnectOptions::default(),
            queue_settings: QueueSettings::default(),
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the first field that is out of its range.
    pub fn validate(&self) -> Result<()> {
        if self.queues.is_empty() {
            return Err(Error::invalid("queue", "a worker needs at least one queue"));
        }
        for (queue, slots) in &self.queues {
            if !(1..=MOST_SLOTS).contains(slots) {
                return Err(Error::invalid(
                    "slots",
                    format!("{slots} for queue {queue} is not 1 to {MOST_SLOTS}"),
                ));
            }
        }
        if let Some(total) = self.total_slots
            && !(1..=MOST_SLOTS).contains(&total)
        {
            return Err(Error::invalid("total slots", format!("{total} is not 1 to {MOST_SLOTS}")));
        }
        if let Some(lease) = self.lease
            && !(LEASE_RANGE.0..=LEASE_RANGE.1).contains(&lease)
        {
            return Err(Error::invalid("lease", format!("{} is not 1s to 10m", display_duration(lease))));
        }
        if self.drain_grace > MOST_DRAIN {
            return Err(Error::invalid("drain grace", "is over 24h"));
        }
        if self.cleanup_timeout > MOST_CLEANUP {
            return Err(Error::invalid("cleanup timeout", "is over 10m"));
        }
        redact::of_environment(&self.redact)?;
        check_size("result limit", self.limits.result, MOST)
    }

    pub(crate) fn settings(&self) -> QueueSettings {
        QueueSettings { lease: self.lease.unwrap_or(self.queue_settings.lease), ..self.queue_settings }
    }

    pub(crate) fn total(&self) -> usize {
        self.total_slots.unwrap_or_else(|| self.queues.values().sum())
    }
}

/// The host's name as far as it is a worker's, with room for a number.
pub(crate) fn default_name() -> WorkerName {
    let usable = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let host: String = host_name().chars().map(usable).take(60).collect();
    WorkerName::new(host).or_else(|_| WorkerName::new("worker")).unwrap_or_else(|_| unreachable!())
}

/// The host's name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
