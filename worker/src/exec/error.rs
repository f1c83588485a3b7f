//! Why a command did not start: one variant, and one clear message, per cause.

use serde::{Deserialize, Serialize};

/// Why a command did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StartError {
    /// This binary cannot host the guard.
    #[error(
        "commands cannot be run: this binary does not call `leasehold_worker::guard::init()` first in `main`"
    )]
    NotInitialised,
    /// The worker does not run commands.
    #[error("this worker does not run commands (start it with --allow-exec)")]
    Off,
    /// The program is not on the worker's allow-list.
    #[error("{path:?} (for {program:?}) is not among the programs this worker may run")]
    NotAllowed {
        /// As the command names it.
        program: String,
        /// The file that would run, links resolved.
        path: String,
    },
    /// There is no program to run.
    #[error("the command is empty")]
    Empty,
    /// The system's strings end at a NUL.
    #[error("{what} holds a NUL character")]
    Nul {
        /// Which string.
        what: String,
    },
    /// A variable name that cannot be.
    #[error("not a variable name: {name:?}")]
    VariableName {
        /// The name.
        name: String,
    },
    /// No such program.
    #[error("program not found: {program:?}{}", searched(.path))]
    NotFound {
        /// As the command names it.
        program: String,
        /// The `PATH` that was searched; none for a program given with a slash.
        path: Option<String>,
    },
    /// The working directory does not exist.
    #[error("working directory {path:?} does not exist")]
    CwdMissing {
        /// The directory.
        path: String,
    },
    /// The working directory is something else.
    #[error("working directory {path:?} is not a directory")]
    CwdNotDirectory {
        /// The path.
        path: String,
    },
    /// The working directory may not be entered.
    #[error("working directory {path:?} cannot be entered: {reason}")]
    CwdDenied {
        /// The directory.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// No permission to execute.
    #[error("{path:?} is not executable (permission denied)")]
    NotExecutable {
        /// The file.
        path: String,
    },
    /// The program is a directory.
    #[error("{path:?} is a directory, not a program")]
    IsDirectory {
        /// The directory.
        path: String,
    },
    /// The file is there; what it needs to run is not.
    #[error("{path:?} needs the interpreter {interpreter:?}, which is missing")]
    MissingInterpreter {
        /// The script or program.
        path: String,
        /// As its `#!` line names it, or the dynamic loader.
        interpreter: String,
    },
    /// Neither a binary of this machine nor a script with a `#!` line.
    #[error("{path:?} is not a program for this machine (exec format error; a script needs a #! line)")]
    NotAProgram {
        /// The file.
        path: String,
    },
    /// Arguments and environment are larger than the system takes.
    #[error("arguments and environment are too long: {bytes} bytes together")]
    TooLong {
        /// Their total size.
        bytes: u64,
    },
    /// The file is open for writing.
    #[error("{path:?} is being written to (text file busy)")]
    Busy {
        /// The file.
        path: String,
    },
    /// A limit could not be set.
    #[error("limit {limit} cannot be set: {reason}")]
    Limit {
        /// Which one.
        limit: String,
        /// What the system says.
        reason: String,
    },
    /// No process, memory or descriptor to be had.
    #[error("the machine cannot start another process now: {reason}")]
    Exhausted {
        /// What the system says.
        reason: String,
    },
    /// The run's lease ended before the command could start.
    #[error("the lease ran out before the command could start")]
    LeaseOver,
    /// Its run was told to end meanwhile.
    #[error("stopped before it started")]
    GivenUp,
    /// While the guard is down, no command starts.
    #[error("the guard process is down; no command starts until it is back")]
    GuardDown,
    /// The trampoline failed; the command was not started.
    #[error("the command could not be handed to its process: {reason}")]
    Trampoline {
        /// What happened.
        reason: String,
    },
    /// Anything else the system may say.
    #[error("cannot execute {path:?}: {reason}")]
    Other {
        /// The file.
        path: String,
        /// What the system says.
        reason: String,
    },
}

impl StartError {
    /// Whether another try, on this worker and as things are, would fail the same way.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::Exhausted { .. }
            | Self::LeaseOver
            | Self::GivenUp
            | Self::GuardDown
            | Self::Trampoline { .. } => false,
            Self::NotInitialised
            | Self::Off
            | Self::NotAllowed { .. }
            | Self::Empty
            | Self::Nul { .. }
            | Self::VariableName { .. }
            | Self::NotFound { .. }
            | Self::CwdMissing { .. }
            | Self::CwdNotDirectory { .. }
            | Self::CwdDenied { .. }
            | Self::NotExecutable { .. }
            | Self::IsDirectory { .. }
            | Self::MissingInterpreter { .. }
            | Self::NotAProgram { .. }
            | Self::TooLong { .. }
            | Self::Limit { .. }
            | Self::Other { .. } => true,
        }
    }
}

fn searched(path: &Option<String>) -> String {
    path.as_ref().map(|path| format!(" (searched PATH={path})")).unwrap_or_default()
}
