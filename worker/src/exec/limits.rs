//! Limits the system enforces on a command.

use super::error::StartError;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// Limits for each process of a command (for `processes`: of the user), as the system offers
/// them. Memory of a whole run is a matter of containers. Each defaults to the worker's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Address space, in bytes (`RLIMIT_AS`).
    pub memory_bytes: Option<u64>,
    /// CPU time, in seconds (`RLIMIT_CPU`): SIGXCPU, and SIGKILL five seconds later.
    pub cpu_seconds: Option<u64>,
    /// Open files (`RLIMIT_NOFILE`).
    pub open_files: Option<u64>,
    /// Processes and threads of the worker's user, others included (`RLIMIT_NPROC`).
    pub processes: Option<u64>,
}

impl Limits {
    /// Names of the limits set here that this system does not enforce.
    #[must_use]
    pub fn unsupported(&self) -> Vec<&'static str> {
        // Darwin takes RLIMIT_AS and ignores it.
        if cfg!(target_os = "macos") && self.memory_bytes.is_some() {
            vec!["memory_bytes"]
        } else {
            Vec::new()
        }
    }

    /// Sets them for this process and its successors.
    pub(super) fn apply(&self) -> Result<(), StartError> {
        set("memory_bytes", Resource::RLIMIT_AS, self.memory_bytes, 0)?;
        set("cpu_seconds", Resource::RLIMIT_CPU, self.cpu_seconds, 5)?;
        set("open_files", Resource::RLIMIT_NOFILE, self.open_files, 0)?;
        set("processes", Resource::RLIMIT_NPROC, self.processes, 0)
    }
}

fn set(name: &str, resource: Resource, limit: Option<u64>, slack: u64) -> Result<(), StartError> {
    let Some(limit) = limit else {
        return Ok(());
    };
    // One above the worker's own hard limit would be refused, and that one holds anyway.
    getrlimit(resource)
        .and_then(|(_, most)| setrlimit(resource, limit.min(most), limit.saturating_add(slack).min(most)))
        .map_err(|errno| StartError::Limit { limit: name.to_owned(), reason: errno.desc().to_owned() })
}
