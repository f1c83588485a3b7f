//! Flags that `enqueue` and `exec` share: id, time, bounds, owner, headers.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use clap::Args;
use leasehold_producer::{
    Bound, Bounds, BudgetName, Deadline, Lane, OnLeaseExpired, Origin, Origins, Owner, Policy, Priority,
    QueueName, Spec, TaskId, When,
};

use super::values::{self, OrNone, RunTimeout};
use crate::config::{Source, TaskSettings};
use crate::error::{Failure, Result};

/// What a task asks of the queue.
#[derive(Debug, Args)]
pub(crate) struct TaskFlags {
    /// Id of your own, at most 64 bytes of text: enqueueing the same again changes nothing [default: a fresh one]
    #[arg(long, value_name = "ID")]
    id: Option<TaskId>,
    /// Run it so much later: a duration with its unit, such as 90s or 2d, at most 10 years [default: at once]
    #[arg(long, value_name = "DUR", value_parser = values::delay, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Run it at this time, with offset or zone: 2026-12-01T09:00+01:00 [default: at once]
    #[arg(long, value_name = "TIME", value_parser = values::at)]
    at: Option<u64>,
    /// Which tasks go first: urgent, high, normal, low
    #[arg(long, value_name = "PRIORITY", default_value = "normal")]
    priority: Priority,
    /// Failures that end the task: 1 to 10000 [default: enqueue 5, exec 1]
    #[arg(long, value_name = "N", value_parser = values::max_attempts)]
    max_attempts: Option<u32>,
    /// How long one run may take: a duration with its unit, 1ms to 10 years, or none [default: 24h]
    #[arg(long, value_name = "DUR|none")]
    run_timeout: Option<RunTimeout>,
    /// Time between TERM (a handler: cancellation) and KILL, with its unit: 0s to 10 years [default: 30s]
    #[arg(long, visible_alias = "stop-grace", value_name = "DUR", value_parser = values::abort_grace)]
    abort_grace: Option<Duration>,
    /// If its worker dies: requeue it, or fail it because it must not be started twice [default: requeue]
    #[arg(long, value_name = "requeue|fail", value_parser = values::on_lease_expired)]
    on_lease_expired: Option<OnLeaseExpired>,
    /// How often it may lose its worker and be started again: 0 to 10000 [default: 3]
    #[arg(long, value_name = "N", value_parser = values::max_reclaims)]
    max_reclaims: Option<u32>,
    /// Whom it belongs to (a session, a user): at most 256 bytes of text [default: nobody]
    #[arg(long, value_name = "OWNER")]
    owner: Option<Owner>,
    /// What it takes its turn in (a session, a customer): at most 256 bytes of text; one at a time, in order [default: none]
    #[arg(long, value_name = "LANE")]
    lane: Option<Lane>,
    /// When it ends wherever it is, queueing and retries included: a duration from now with its unit, 1ms to 10 years, or a time as for --at, which may not have passed (a minute is let go, for clocks differ) [default: never]
    #[arg(long, value_name = "DUR|TIME", value_parser = values::deadline)]
    deadline: Option<Deadline>,
    /// Tell of a run without output, progress, phase, charge or checkpoint for so long, once a silence: a duration with its unit, 1ms to 10 years, or none [default: enqueue none, exec 120s]
    #[arg(long, value_name = "DUR|none", value_parser = values::silence_notice)]
    silence_notice: Option<OrNone>,
    /// End a run without output, progress, phase, charge or checkpoint for so long, as stalled: a duration with its unit, 1ms to 10 years, or none [default: none]
    #[arg(long, value_name = "DUR|none", value_parser = values::stall_timeout)]
    stall_timeout: Option<OrNone>,
    /// What it may spend over all attempts: a name and a maximum; repeatable, each name once, at most 16 [default: none]
    #[arg(long = "budget", value_name = "NAME=MAX", value_parser = values::budget)]
    budgets: Vec<(BudgetName, u64)>,
    /// Handed to the handler with the payload, such as trace context; repeatable, each key once, at most 32 of 1024 bytes
    #[arg(long = "header", value_name = "KEY=VALUE", value_parser = values::header)]
    headers: Vec<(String, String)>,
}

/// The flags, with the settings where there was none.
#[derive(Debug)]
pub(crate) struct TaskChoice {
    pub(crate) id: Option<TaskId>,
    pub(crate) when: When,
    pub(crate) spec: Spec,
    pub(crate) owner: Option<Owner>,
    pub(crate) lane: Option<Lane>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl TaskFlags {
    /// Bounds that no flag names come from `settings`, and from `usual`.
    ///
    /// # Errors
    /// A budget or a header that is named twice.
    pub(crate) fn choose(&self, settings: &TaskSettings, usual: &Bounds) -> Result<TaskChoice> {
        let when = match (self.delay, self.at) {
            (Some(delay), _) => When::After(delay),
            (None, Some(at)) => When::At(at),
            (None, None) => When::Now,
        };
        let policy = Policy {
            max_attempts: settings.max_attempts.or_flag(self.max_attempts),
            max_reclaims: settings.max_reclaims.or_flag(self.max_reclaims),
            on_lease_expired: settings.on_lease_expired.or_flag(self.on_lease_expired),
            run_timeout: settings.run_timeout.or_flag(self.run_timeout).0,
            stop_grace: settings.stop_grace.or_flag(self.abort_grace),
            ..Policy::default()
        };
        let bounds = Bounds {
            deadline: self.deadline,
            silence_notice: self.silence_notice.map_or(usual.silence_notice, |chosen| chosen.0),
            stall_timeout: self.stall_timeout.and_then(|chosen| chosen.0),
            budgets: each_once("budget", &self.budgets)?,
        };
        let origins = self.origins(settings);
        Ok(TaskChoice {
            id: self.id.clone(),
            when,
            spec: Spec { policy, priority: self.priority, bounds, origins, ..Spec::default() },
            owner: self.owner.clone(),
            lane: self.lane.clone(),
            headers: each_once("header", &self.headers)?,
        })
    }

    /// Who set which bound: a flag, a variable, a file.
    fn origins(&self, settings: &TaskSettings) -> Origins {
        let mut origins = Origins::default();
        let rows = [
            (Bound::MaxAttempts, self.max_attempts.is_some(), &settings.max_attempts.source),
            (Bound::MaxReclaims, self.max_reclaims.is_some(), &settings.max_reclaims.source),
            (Bound::OnLeaseExpired, self.on_lease_expired.is_some(), &settings.on_lease_expired.source),
            (Bound::RunTimeout, self.run_timeout.is_some(), &settings.run_timeout.source),
            (Bound::StopGrace, self.abort_grace.is_some(), &settings.stop_grace.source),
            (Bound::Deadline, self.deadline.is_some(), &Source::Default),
            (Bound::SilenceNotice, self.silence_notice.is_some(), &Source::Default),
            (Bound::StallTimeout, self.stall_timeout.is_some(), &Source::Default),
            (Bound::Budgets, !self.budgets.is_empty(), &Source::Default),
        ];
        for (bound, by_flag, source) in rows {
            origins.set(bound, if by_flag { Origin::Caller } else { source.origin() });
        }
        origins
    }
}

/// What a repeatable flag names: of two for one name nobody can say which is meant.
fn each_once<K, V>(flag: &str, pairs: &[(K, V)]) -> Result<BTreeMap<K, V>>
where
    K: Ord + Clone + Display,
    V: Clone,
{
    let mut named = BTreeMap::new();
    for (name, value) in pairs {
        if named.insert(name.clone(), value.clone()).is_some() {
            return Err(Failure::usage(flag, format!("{:?} is named twice", name.to_string())));
        }
    }
    Ok(named)
}

/// A queue as the first word of a command.
#[derive(Debug, Args)]
pub(crate) struct QueueArg {
    /// The queue: 1 to 64 characters of A-Z a-z 0-9 . _ -
    #[arg(value_name = "QUEUE")]
    pub(crate) queue: QueueName,
}
