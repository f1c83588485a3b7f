//! Where each bound of a task came from: whoever looks at a task that ended too soon asks that first.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds::Bounds;
use crate::policy::Policy;

/// A bound, or a group of them, that somebody can have set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// [`Policy::max_attempts`]
    MaxAttempts,
    /// [`Policy::backoff`]
    Backoff,
    /// [`Policy::max_reclaims`]
    MaxReclaims,
    /// [`Policy::on_lease_expired`]
    OnLeaseExpired,
    /// [`Policy::run_timeout`]
    RunTimeout,
    /// [`Policy::stop_grace`]
    StopGrace,
    /// [`Bounds::deadline`]
    Deadline,
    /// [`Bounds::silence_notice`]
    SilenceNotice,
    /// [`Bounds::stall_timeout`]
    StallTimeout,
    /// [`Bounds::budgets`]
    Budgets,
}

impl Bound {
    /// All bounds.
    pub const ALL: [Self; 10] = [
        Self::MaxAttempts,
        Self::Backoff,
        Self::MaxReclaims,
        Self::OnLeaseExpired,
        Self::RunTimeout,
        Self::StopGrace,
        Self::Deadline,
        Self::SilenceNotice,
        Self::StallTimeout,
        Self::Budgets,
    ];

    /// The name as JSON spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxAttempts => "max_attempts",
            Self::Backoff => "backoff",
            Self::MaxReclaims => "max_reclaims",
            Self::OnLeaseExpired => "on_lease_expired",
            Self::RunTimeout => "run_timeout",
            Self::StopGrace => "stop_grace",
            Self::Deadline => "deadline",
            Self::SilenceNotice => "silence_notice",
            Self::StallTimeout => "stall_timeout",
            Self::Budgets => "budgets",
        }
    }

    /// Do two tasks differ in it?
    fn differs(self, (policy, bounds): (&Policy, &Bounds), (usual, beyond): (&Policy, &Bounds)) -> bool {
        match self {
            Self::MaxAttempts => policy.max_attempts != usual.max_attempts,
            Self::Backoff => policy.backoff != usual.backoff,
            Self::MaxReclaims => policy.max_reclaims != usual.max_reclaims,
            Self::OnLeaseExpired => policy.on_lease_expired != usual.on_lease_expired,
            Self::RunTimeout => policy.run_timeout != usual.run_timeout,
            Self::StopGrace => policy.stop_grace != usual.stop_grace,
            Self::Deadline => bounds.deadline != beyond.deadline,
            Self::SilenceNotice => bounds.silence_notice != beyond.silence_notice,
            Self::StallTimeout => bounds.stall_timeout != beyond.stall_timeout,
            Self::Budgets => bounds.budgets != beyond.budgets,
        }
    }
}

/// Who set a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// Nobody: it is the default of its kind of task.
    #[default]
    Default,
    /// The task's type, by `Task::spec`.
    TaskType,
    /// Whoever enqueued it, for this task.
    Caller,
    /// An environment variable of whoever enqueued it.
    Environment,
    /// A settings file of whoever enqueued it.
    File,
}

impl Origin {
    const ALL: [Self; 5] = [Self::Default, Self::TaskType, Self::Caller, Self::Environment, Self::File];

    /// The name as JSON spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::TaskType => "task_type",
            Self::Caller => "caller",
            Self::Environment => "environment",
            Self::File => "file",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TaskType => "task type",
            other => other.as_str(),
        })
    }
}

/// Who set which bounds of a task. Those that nobody set are not in it, so that a task of defaults stores nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Origins(BTreeMap<Bound, Origin>);

impl Origins {
    /// Who set a bound.
    #[must_use]
    pub fn of(&self, bound: Bound) -> Origin {
        self.0.get(&bound).copied().unwrap_or_default()
    }

    /// Notes who set a bound.
    pub fn set(&mut self, bound: Bound, origin: Origin) {
        if origin == Origin::Default {
            self.0.remove(&bound);
        } else {
            self.0.insert(bound, origin);
        }
    }

    /// Notes `origin` for each bound that differs from its default and that nobody is known to have set.
    pub fn mark(&mut self, of: (&Policy, &Bounds), defaults: (&Policy, &Bounds), origin: Origin) {
        for bound in Bound::ALL {
            if bound.differs(of, defaults) && !self.0.contains_key(&bound) {
                self.set(bound, origin);
            }
        }
    }
}

/// What a later release knows and this one does not is left out: it is history, and keeps no task from running.
impl From<BTreeMap<String, String>> for Origins {
    fn from(stored: BTreeMap<String, String>) -> Self {
        let known = stored.iter().filter_map(|(bound, origin)| {
            let bound = Bound::ALL.into_iter().find(|b| b.as_str() == bound)?;
            Some((bound, Origin::ALL.into_iter().find(|o| o.as_str() == origin)?))
        });
        Self(known.collect())
    }
}

impl From<Origins> for BTreeMap<String, String> {
    fn from(origins: Origins) -> Self {
        origins.0.into_iter().map(|(b, o)| (b.as_str().to_owned(), o.as_str().to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn r01_what_differs_from_its_default_was_set_by_somebody() {
        let usual = (Policy::default(), Bounds::default());
        let policy = Policy { max_attempts: 2, stop_grace: Duration::ZERO, ..Policy::default() };
        let bounds = Bounds { stall_timeout: Some(Duration::from_secs(1)), ..Bounds::default() };
        let mut origins = Origins::default();
        origins.set(Bound::StopGrace, Origin::Caller);
        origins.mark((&policy, &bounds), (&usual.0, &usual.1), Origin::TaskType);
        let set: Vec<(Bound, Origin)> = Bound::ALL
            .into_iter()
            .map(|b| (b, origins.of(b)))
            .filter(|(_, o)| *o != Origin::Default)
            .collect();
        let expected = [
            (Bound::MaxAttempts, Origin::TaskType),
            (Bound::StopGrace, Origin::Caller),
            (Bound::StallTimeout, Origin::TaskType),
        ];
        assert_eq!(set, expected);
    }

    #[test]
    fn r01_what_a_later_release_knows_is_left_out() {
        let stored = BTreeMap::from(
            [("run_timeout", "caller"), ("ram", "caller"), ("deadline", "a dream")]
                .map(|(b, o)| (b.to_owned(), o.to_owned())),
        );
        let origins = Origins::from(stored);
        assert_eq!(origins.of(Bound::RunTimeout), Origin::Caller);
        assert_eq!(BTreeMap::from(origins).len(), 1);
    }
}
