//! What the exit code says: the one list of them.

use leasehold_common::state::TaskState;

/// How a command of `leasehold` ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Success,
    /// `exec --wait`: the command's own code, or 128 + n for signal n.
    Command(u8),
    /// It failed, or the task did.
    Failed,
    /// A wrong flag, value or setting: nothing was done.
    Usage,
    /// There is no such task, queue or server.
    NotFound,
    /// Redis cannot be reached, or refuses for now.
    Unreachable,
    /// The task goes on; the wait was given up.
    StillGoing,
    /// The task ran into one of its time bounds.
    TimedOut,
    /// The task was aborted.
    Aborted,
}

/// The codes as every `--help` tells them.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done; with --wait: the task completed
  1    failed: the task, or the call
  2    wrong flag, value or setting; nothing was done
  4    not found
  69   Redis cannot be reached, or refuses for now
  75   the task is still going (a wait ended early, by its timeout or Ctrl-C)
  124  the task timed out
  130  the task was aborted
  exec --wait and exec --yield of a command that ended: its own code, 128 + n for signal n

Durations have a unit: 250ms, 90s, 5m, 1h30m, 2d, 1w.
Times have an offset or zone: 2026-12-01T09:00+01:00, 2026-12-01T09:00[Europe/Berlin].";

impl Exit {
    /// The code itself.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Command(code) => code,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 4,
            Self::Unreachable => 69,
            Self::StillGoing => 75,
            Self::TimedOut => 124,
            Self::Aborted => 130,
        }
    }

    /// What the state of a task that was waited for says.
    pub(crate) const fn of_state(state: TaskState) -> Self {
        match state {
            TaskState::Completed => Self::Success,
            TaskState::Failed => Self::Failed,
            TaskState::TimedOut => Self::TimedOut,
            TaskState::Aborted => Self::Aborted,
            TaskState::Scheduled
            | TaskState::Waiting
            | TaskState::Queued
            | TaskState::Running
            | TaskState::Aborting => Self::StillGoing,
        }
    }

    /// What a command that ended so is told as: its code, or 128 + n for signal n.
    pub(crate) fn of_command(exit_code: Option<i32>, signal: Option<i32>) -> Option<Self> {
        let code = signal.map(|n| 128 + n).or(exit_code)?;
        u8::try_from(code).ok().filter(|code| *code != 0).map(Self::Command)
    }
}

#[cfg(test)]
mod tests {
    use super::{Exit, HELP};

    #[test]
    fn a_signal_is_128_more() {
        assert_eq!(Exit::of_command(Some(3), None), Some(Exit::Command(3)));
        assert_eq!(Exit::of_command(None, Some(9)), Some(Exit::Command(137)));
        assert_eq!(Exit::of_command(None, None), None);
    }

    #[test]
    fn help_tells_every_code() {
        let all = [
            Exit::Success,
            Exit::Failed,
            Exit::Usage,
            Exit::NotFound,
            Exit::Unreachable,
            Exit::StillGoing,
            Exit::TimedOut,
            Exit::Aborted,
        ];
        for exit in all {
            assert!(HELP.contains(&format!("\n  {:<4} ", exit.code())), "{exit:?}");
        }
    }
}
