//! Looks at the process table all the time: no two attempts of a task may run at once. A process that stands still
//! (SIGSTOP) does not run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_tests::{comes_true, procfs};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Watches until dropped or [`end`](Watch::end)ed.
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Watch {
    /// Watches the commands whose environment contains `token`.
    pub(crate) fn start(token: String) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut found = BTreeSet::new();
            while !comes_true(LOOK, || flag.load(Ordering::SeqCst)) {
                found.extend(doubled(&token));
            }
            found.into_iter().collect()
        });
        Self { over, thread: Some(thread) }
    }

    /// Panics when two attempts of a task were ever seen running at once.
    #[track_caller]
    pub(crate) fn end(mut self) {
        self.over.store(true, Ordering::SeqCst);
        let found = self.thread.take().expect("ended once").join().expect("the watching thread");
        assert!(found.is_empty(), "attempts of one task ran at the same time:\n{}", found.join("\n"));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// Tasks with running processes of two attempts. Looked at twice, since a snapshot of `/proc` is none: a process
/// of the first attempt may have ended before one of the second began, and both be seen.
fn doubled(token: &str) -> Vec<String> {
    let first = moving(token);
    if first.values().all(|attempts| attempts.len() < 2) {
        return Vec::new();
    }
    let second = moving(token);
    let both = first.into_iter().filter_map(|(task, attempts)| {
        let still: Vec<(String, i32)> = attempts
            .into_iter()
            .filter(|(attempt, pids)| {
                second.get(&task).and_then(|now| now.get(attempt)).is_some_and(|now| !now.is_disjoint(pids))
            })
            .map(|(attempt, pids)| (attempt, pids.into_iter().next().unwrap_or(0)))
            .collect();
        (still.len() > 1).then(|| format!("{task}: {still:?}"))
    });
    both.collect()
}

type Attempts = BTreeMap<String, BTreeSet<i32>>;

/// Processes that are neither stopped nor dead, by task and attempt.
fn moving(token: &str) -> BTreeMap<String, Attempts> {
    let mut tasks: BTreeMap<String, Attempts> = BTreeMap::new();
    for pid in procfs::processes_with_env(token) {
        let Some((task, attempt)) = whose(pid) else { continue };
        if !procfs::state(pid).is_none_or(|state| matches!(state, 'T' | 't' | 'Z' | 'X')) && !is_dying(pid) {
            tasks.entry(task).or_default().entry(attempt).or_default().insert(pid);
        }
    }
    tasks
}

/// Whether it has been sent SIGKILL: a stopped process is shown as running then, but runs nothing of its own.
fn is_dying(pid: i32) -> bool {
    const SIGKILL: u64 = 1 << 8;
    const EXITING: u64 = 0x4;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status.lines().filter_map(|line| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name in parentheses: state, parent, group, session, terminal, its group, flags.
    let flags = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    pending.fold(0, |all, mask| all | mask) & SIGKILL != 0 || flags.is_none_or(|flags| flags & EXITING != 0)
}

/// Task and attempt, as the environment of a command says.
fn whose(pid: i32) -> Option<(String, String)> {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let text = String::from_utf8_lossy(&environ);
    let value = |name: &str| {
        text.split('\0').find_map(|entry| entry.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    Some((value("LEASEHOLD_TASK_ID")?, value("LEASEHOLD_ATTEMPT")?))
}
