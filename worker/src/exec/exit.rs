//! How a command ended.

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How the command's main process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code. A shell that reports a signal of *its* child as 128 + n has
    /// returned a code.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// Number on this machine.
        number: i32,
        /// Name, such as `SIGKILL`.
        name: String,
        /// It left a core file.
        core_dumped: bool,
    },
}

impl Exit {
    pub(super) fn signal(number: i32, core_dumped: bool) -> Self {
        let name = Signal::try_from(number)
            .map_or_else(|_| format!("signal {number}"), |signal| signal.as_str().to_owned());
        Self::Signal { number, name, core_dumped }
    }

    /// Somebody else reaped the process: how it ended cannot be known, hence not a success.
    pub(super) fn unknown() -> Self {
        Self::Signal { number: 0, name: "unknown".to_owned(), core_dumped: false }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal { number: 0, .. } => f.write_str("ended in an unknown way"),
            Self::Signal { name, core_dumped, .. } => {
                write!(f, "killed by {name}{}", if *core_dumped { " (core dumped)" } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_named() {
        assert_eq!(Exit::Code(137).to_string(), "exit code 137");
        assert_eq!(Exit::signal(9, false).to_string(), "killed by SIGKILL");
        assert_eq!(Exit::signal(11, true).to_string(), "killed by SIGSEGV (core dumped)");
        assert_eq!(Exit::signal(37, false).to_string(), "killed by signal 37");
    }
}
