//! `target/demo/summary.json`: everything that the demo claims, so that another program can recompute it.
//!
//! Stable: fields are added, never renamed or removed while `format` is 1. Times are ms since 1970 by Redis's
//! clock, durations end in `_ms`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use leasehold_common::doctor::Finding;
use leasehold_common::state::TaskState;
use leasehold_producer::FailureKind;
use serde::Serialize;

use super::files::{Skip, Skipped};
use super::job::Sums;
use crate::error::{Failure, Result};

/// The version of the format.
pub(super) const FORMAT: u32 = 1;

/// The file, relative to the current folder.
pub(super) const PATH: &str = "target/demo/summary.json";

/// All of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Summary {
    /// Of this document: 1.
    pub(super) format: u32,
    /// What was run.
    pub(super) versions: Versions,
    /// The folder that was worked on, absolute.
    pub(super) directory: String,
    /// The namespace that all keys were in.
    pub(super) namespace: String,
    /// The queue that all tasks were in.
    pub(super) queue: String,
    /// The lease T.
    pub(super) lease_ms: u64,
    /// When the first task was enqueued.
    pub(super) started_ms: u64,
    /// From then until every task had ended.
    pub(super) took_ms: u64,
    /// What was not worked on, by reason.
    pub(super) skipped: BTreeMap<Skip, Skipped>,
    /// Every task, in the order of the plan.
    pub(super) tasks: Vec<TaskRow>,
    /// What was shown, and how it came out.
    pub(super) scenarios: Vec<Scenario>,
    /// Every run that the killed worker held.
    pub(super) reclaims: Vec<Reclaim>,
    /// Tasks by state as the queue itself counts them; `kept` here and `tasks` above are two ways to the same.
    pub(super) kept: BTreeMap<TaskState, u64>,
    /// The verdict on the queue's invariants.
    pub(super) doctor: Doctor,
    /// What was still there after everything was ended.
    pub(super) left_over: LeftOver,
    /// Numbers that follow from the rest.
    pub(super) totals: Totals,
    /// Why the demo did not come out as it should; empty when it did.
    pub(super) problems: Vec<String>,
    /// No problems.
    pub(super) ok: bool,
    /// The last line of stdout.
    pub(super) line: String,
}

/// What was run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Versions {
    /// This program.
    pub(super) leasehold: String,
    /// The Redis protocol version of the server.
    pub(super) redis: String,
    /// The server for people: product, where from.
    pub(super) server: String,
}

/// One task.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TaskRow {
    /// Its id.
    pub(super) id: String,
    /// The name of its handler, `exec` for a command.
    pub(super) name: String,
    /// The state it was to end in.
    pub(super) expected: TaskState,
    /// The state it was last seen in; none when there was no such task.
    pub(super) state: Option<TaskState>,
    /// How often it was claimed.
    pub(super) attempt: u64,
    /// Failures, of all attempts.
    pub(super) failures: u64,
    /// Workers that it lost.
    pub(super) reclaims: u64,
    /// The worker of its last run.
    pub(super) worker: Option<String>,
    /// The file, relative to the folder; characters that are not UTF-8 are replaced.
    pub(super) file: Option<String>,
    /// The bytes of that name in hexadecimal, where it is not UTF-8.
    pub(super) file_hex: Option<String>,
    /// The command.
    pub(super) command: Option<Vec<String>>,
    /// The output: sums of a file; of a command its exit code and the bytes it printed.
    pub(super) result: Option<serde_json::Value>,
    /// Whether the result was found to be that of the file; none where there is nothing to compare.
    pub(super) verified: Option<bool>,
    /// Whether the file is not the one any more that the demo found at its begin.
    pub(super) file_changed: bool,
    /// The failure it ended with, or had last.
    pub(super) failure: Option<FailureRow>,
    /// Every failure, lost worker and stop that it met, oldest first.
    pub(super) history: Vec<FailureRow>,
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct FailureRow {
    /// What class it is of.
    pub(super) kind: FailureKind,
    /// For people.
    pub(super) message: String,
    /// Of which attempt.
    pub(super) attempt: u64,
    /// Of a command.
    pub(super) exit_code: Option<i32>,
    /// Of a command.
    pub(super) signal: Option<i32>,
}

/// One thing that the demo shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Scenario {
    /// In one word: crash, abort, run_timeout, retry, failure, drain.
    pub(super) name: &'static str,
    /// What should happen.
    pub(super) expected: String,
    /// What did.
    pub(super) happened: String,
    /// Whether that is the same.
    pub(super) ok: bool,
}

/// A run that its worker lost by being killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Reclaim {
    /// The task.
    pub(super) id: String,
    /// The attempt that was lost.
    pub(super) attempt: u64,
    /// The worker that was killed.
    pub(super) worker: String,
    /// When.
    pub(super) killed_ms: u64,
    /// When the next attempt began; none if it did not.
    pub(super) next_ms: Option<u64>,
    /// From the one to the other.
    pub(super) took_ms: Option<u64>,
    /// The worker of the next attempt.
    pub(super) next_worker: Option<String>,
}

/// What the doctor found.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Doctor {
    /// No breach.
    pub(super) clean: bool,
    /// Breaches, warnings and notes.
    pub(super) findings: Vec<Finding>,
}

/// What should not be there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct LeftOver {
    /// Whether processes could be looked for: not without `/proc`.
    pub(super) processes_checked: bool,
    /// Process ids, ended by now.
    pub(super) processes: Vec<i32>,
    /// Folders.
    pub(super) folders: Vec<String>,
    /// Keys in the namespace.
    pub(super) keys: u64,
}

/// Numbers that follow from the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    /// Tasks that were enqueued.
    pub(super) tasks: usize,
    /// By the state they ended in; `missing` counts those that were not found.
    pub(super) by_state: BTreeMap<String, usize>,
    /// Tasks whose result was compared with its file and found right.
    pub(super) verified: usize,
    /// Attempts over all tasks.
    pub(super) attempts: u64,
    /// Bytes of the files.
    pub(super) bytes: u64,
    /// Bytes of their gzip.
    pub(super) gzip_bytes: u64,
    /// From the kill to the next attempt, of the fastest and the slowest; none if nothing was reclaimed.
    pub(super) reclaim_ms: Option<(u64, u64)>,
}

impl TaskRow {
    /// Its sums, if it is about a file and has a result.
    pub(super) fn sums(&self) -> Option<Sums> {
        self.file.as_ref()?;
        serde_json::from_value(self.result.clone()?).ok()
    }
}

/// The place of the summary, made ready: the folder is there, and no summary of an earlier run.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
}

impl Place {
    /// Makes it ready below `folder`; fails where nothing can be written, before anything is started.
    pub(super) fn prepare(folder: &Path) -> Result<Self> {
        let path = folder.join(PATH);
        let prepare = || {
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => tempfile::tempfile_in(path.parent().unwrap_or(folder)).map(drop),
            }
        };
        prepare().map_err(|error| not_writable(&path, &error))?;
        Ok(Self { path })
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self, summary: &Summary) -> Result<()> {
        let write = || {
            let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut file, summary)?;
            file.write_all(b"\n")?;
            file.persist(&self.path).map_err(|error| error.error)?;
            std::io::Result::Ok(())
        };
        write().map_err(|error| not_writable(&self.path, &error))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn not_writable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(format!("cannot write {}", path.display()), error).hint(
        "run the demo in a folder that you may write to, and name the one to work on: leasehold demo DIR",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_summary_is_gone_before_the_demo_begins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(PATH);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "old").unwrap();
        Place::prepare(dir.path()).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("target"), "a file").unwrap();
        let text = Place::prepare(dir.path()).unwrap_err().text();
        assert!(text.contains("summary.json") && text.contains("leasehold demo DIR"), "{text}");
    }
}
