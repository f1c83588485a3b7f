//! The guard: a small process beside each worker that stops or kills the worker's commands
//! when the worker itself cannot, because it was killed or stands still.
//!
//! - [`init`] comes first in `main`: the same binary serves as guard and as trampoline.
//! - [`Guard`] is the worker's end: it starts the process, notices its death, restarts it.
//! - The guard process knows every run's session, token and end of lease. Its socket closed
//!   means the worker is gone: everything of every run is killed. A lease that ran out means
//!   the run is stopped, and continued when a newer renewal comes.
//!
//! "Everything of a run" is its process group, its session, every process that carries its
//! token in the environment, and the descendants of those. A process that leaves the session,
//! is orphaned *and* has cleaned its environment is not found. Without `/proc` (macOS) only
//! the process group is.

mod client;
mod clock;
pub(crate) mod hygiene;
mod keeper;
mod process;
pub(crate) mod procs;
pub(crate) mod signals;
mod wire;

pub use client::{Guard, GuardError, GuardStatus, RunKey};
pub use clock::BootInstant;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

const GUARD_ROLE: &str = "__leasehold-guard";
const TRAMPOLINE_ROLE: &str = "__leasehold-trampoline";

static OWN_EXE: OnceLock<PathBuf> = OnceLock::new();

/// Call this first in `main` of every binary that hosts a worker.
///
/// When the process was started as guard or trampoline of a worker, this plays that role and
/// does not return. Otherwise it only notes that it was called; without that note a worker
/// refuses to run commands, since it could not start its guard.
///
/// ```no_run
/// leasehold_worker::guard::init();
/// // arguments, telemetry, the worker ..
/// ```
pub fn init() {
    match std::env::args_os().nth(1) {
        Some(role) if role == GUARD_ROLE => process::run(),
        Some(role) if role == TRAMPOLINE_ROLE => crate::exec::trampoline::run(),
        _ => {}
    }
    // With SIGCHLD ignored, as some parents leave it, no exit code could be had.
    hygiene::unignore(Some(signal_hook::consts::SIGCHLD));
    // Follows the running binary even when the file was replaced or removed.
    let live = PathBuf::from("/proc/self/exe");
    let exe = if live.exists() { live } else { std::env::current_exe().unwrap_or(live) };
    let _ = OWN_EXE.set(exe);
}

/// Whether [`init`] was called in this process.
#[must_use]
pub fn initialised() -> bool {
    OWN_EXE.get().is_some()
}

fn role(role: &str) -> Option<Command> {
    let mut command = Command::new(OWN_EXE.get()?);
    command.arg(role).env_clear();
    // A worker that is part of a run itself: its helpers belong to that run.
    if let Some(token) = std::env::var_os(procs::TOKEN_ENV) {
        command.env(procs::TOKEN_ENV, token);
    }
    // Where its own shared libraries are; the command does not get it.
    if let Some(libraries) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    Some(command)
}

/// The command that starts this binary as trampoline; `None` when [`init`] was not called.
pub(crate) fn trampoline_command() -> Option<Command> {
    role(TRAMPOLINE_ROLE)
}
