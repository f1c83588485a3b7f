//! The states of a task and the only ways between them. The scripts' headers and `docs/state-machine.md`
//! are tested against [`TRANSITIONS`].
#![warn(clippy::wildcard_enum_match_arm)]

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The state of a task: exactly one at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Its time has not come: delayed, or waiting out a backoff or snooze.
    Scheduled,
    /// Held back by its lane, or by tasks it depends on.
    Waiting,
    /// In a ready stream.
    Queued,
    /// Claimed; its run owns it.
    Running,
    /// Abort requested while running; inspectable until the run has really ended.
    Aborting,
    /// Ended with a result.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Ended by one of its time bounds.
    TimedOut,
    /// Ended by an abort.
    Aborted,
}

impl TaskState {
    /// All states, in the order of a task's life.
    pub const ALL: [Self; 9] = [
        Self::Scheduled,
        Self::Waiting,
        Self::Queued,
        Self::Running,
        Self::Aborting,
        Self::Completed,
        Self::Failed,
        Self::TimedOut,
        Self::Aborted,
    ];

    /// The name as records, scripts, the CLI and JSON spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Waiting => "waiting",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Aborting => "aborting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Aborted => "aborted",
        }
    }

    /// Has the task ended? Terminal states change by a manual retry only.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::TimedOut | Self::Aborted => true,
            Self::Scheduled | Self::Waiting | Self::Queued | Self::Running | Self::Aborting => false,
        }
    }

    /// Does a run own the task?
    #[must_use]
    pub const fn has_run(self) -> bool {
        match self {
            Self::Running | Self::Aborting => true,
            Self::Scheduled
            | Self::Waiting
            | Self::Queued
            | Self::Completed
            | Self::Failed
            | Self::TimedOut
            | Self::Aborted => false,
        }
    }

    /// Is there a transition from this state to `to`?
    #[must_use]
    pub fn can_transition_to(self, to: Self) -> bool {
        TRANSITIONS.iter().any(|t| t.from == Some(self) && t.to == to)
    }

    /// Checks a transition.
    ///
    /// # Errors
    /// [`InvalidTransition`] when [`TRANSITIONS`] has no such row.
    pub fn transition_to(self, to: Self) -> Result<Self, InvalidTransition> {
        if self.can_transition_to(to) { Ok(to) } else { Err(InvalidTransition { from: self, to }) }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TaskState {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid("state", format!("{:?} is not one of {names}", crate::text::printable(text)))
        })
    }
}

/// A transition that the state machine does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a task cannot go from {from} to {to}")]
pub struct InvalidTransition {
    /// The state it is in.
    pub from: TaskState,
    /// The state asked for.
    pub to: TaskState,
}

/// One row of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// The state before; none for a task that is being made.
    pub from: Option<TaskState>,
    /// The state after.
    pub to: TaskState,
    /// What triggers it.
    pub trigger: &'static str,
    /// The scripts that do it.
    pub scripts: &'static [&'static str],
}

const fn row(
    from: Option<TaskState>,
    to: TaskState,
    trigger: &'static str,
    scripts: &'static [&'static str],
) -> Transition {
    Transition { from, to, trigger, scripts }
}

/// Every transition there is.
pub const TRANSITIONS: &[Transition] = {
    use TaskState as S;
    &[
        row(None, S::Queued, "enqueue", &["enqueue"]),
        row(None, S::Scheduled, "enqueue for later", &["enqueue"]),
        row(None, S::Waiting, "enqueue behind others of its lane", &["enqueue"]),
        row(Some(S::Scheduled), S::Queued, "due", &["claim", "sweep"]),
        row(Some(S::Scheduled), S::Waiting, "due, behind others of its lane", &["claim", "sweep"]),
        row(Some(S::Scheduled), S::Aborted, "abort", &["abort"]),
        row(Some(S::Scheduled), S::TimedOut, "its deadline passed", &["sweep"]),
        row(
            Some(S::Waiting),
            S::Queued,
            "its turn in the lane",
            &["claim", "finish", "abort", "sweep", "lane", "repair"],
        ),
        row(Some(S::Waiting), S::Aborted, "abort", &["abort"]),
        row(Some(S::Waiting), S::TimedOut, "its deadline passed", &["sweep"]),
        row(Some(S::Queued), S::Running, "claim", &["claim"]),
        row(Some(S::Queued), S::TimedOut, "its deadline passed", &["claim", "sweep"]),
        row(Some(S::Queued), S::Failed, "its body is missing", &["claim"]),
        row(Some(S::Queued), S::Aborted, "abort", &["abort"]),
        row(Some(S::Running), S::Completed, "the run ends with a result", &["finish"]),
        row(
            Some(S::Running),
            S::Failed,
            "the run fails for good; its owner is dead and may not be replaced",
            &["finish", "sweep", "repair"],
        ),
        row(
            Some(S::Running),
            S::TimedOut,
            "a bound passed and no attempt is left",
            &["finish", "sweep", "repair"],
        ),
        row(
            Some(S::Running),
            S::Scheduled,
            "retry after a backoff; snooze; unknown task name",
            &["finish", "sweep", "repair"],
        ),
        row(
            Some(S::Running),
            S::Queued,
            "handed back by a stopping worker; its owner is dead",
            &["finish", "sweep", "repair"],
        ),
        row(
            Some(S::Running),
            S::Waiting,
            "as above, and its place in the lane was lost",
            &["finish", "sweep", "repair"],
        ),
        row(Some(S::Running), S::Aborting, "abort request", &["abort"]),
        row(
            Some(S::Running),
            S::Aborted,
            "handed back by a stopping worker, but it must not be started twice",
            &["finish"],
        ),
        row(
            Some(S::Aborting),
            S::Aborted,
            "the run ends, or its owner is dead",
            &["finish", "sweep", "abort", "repair"],
        ),
        row(Some(S::Aborting), S::Completed, "the work had ended before the abort arrived", &["finish"]),
        row(
            Some(S::Aborting),
            S::Failed,
            "given up by a person: the system does not end its processes",
            &["abort"],
        ),
        row(Some(S::Completed), S::Queued, "manual retry", &["retry"]),
        row(Some(S::Failed), S::Queued, "manual retry", &["retry"]),
        row(Some(S::TimedOut), S::Queued, "manual retry", &["retry"]),
        row(Some(S::Aborted), S::Queued, "manual retry", &["retry"]),
        row(Some(S::Completed), S::Waiting, "manual retry, behind others of its lane", &["retry"]),
        row(Some(S::Failed), S::Waiting, "manual retry, behind others of its lane", &["retry"]),
        row(Some(S::TimedOut), S::Waiting, "manual retry, behind others of its lane", &["retry"]),
        row(Some(S::Aborted), S::Waiting, "manual retry, behind others of its lane", &["retry"]),
    ]
};

#[cfg(test)]
mod tests {
    use super::{TRANSITIONS, TaskState};

    #[test]
    fn terminal_states_change_by_retry_only() {
        for t in TRANSITIONS {
            if t.from.is_some_and(TaskState::is_terminal) {
                assert_eq!(t.scripts, ["retry"], "{t:?}");
            }
        }
    }

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for state in TaskState::ALL {
            assert_eq!(state.as_str().parse::<TaskState>().unwrap(), state);
        }
        assert!("done".parse::<TaskState>().unwrap_err().to_string().contains("queued"));
    }

    #[test]
    fn what_is_not_in_the_table_is_refused() {
        assert!(TaskState::Queued.transition_to(TaskState::Completed).is_err());
        assert!(TaskState::Completed.transition_to(TaskState::Running).is_err());
        assert_eq!(TaskState::Queued.transition_to(TaskState::Running), Ok(TaskState::Running));
    }
}
