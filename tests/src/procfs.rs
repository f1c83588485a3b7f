//! What `/proc` says about processes, children of the test or not.
//!
//! All of these answer "gone" instead of failing when the process ends meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Clock ticks per second in `/proc/<pid>/stat`: fixed at 100 for user space on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// The fields of `/proc/<pid>/stat` that the harness needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// `R`, `S`, `D`, `T` (stopped), `Z` (zombie) ...
    pub state: char,
    /// The parent.
    pub parent: i32,
    /// The process group.
    pub group: i32,
    /// The session.
    pub session: i32,
    /// User and system time used so far.
    pub cpu: Duration,
    /// Start, in ticks since boot: with the pid, what tells a process from a later one of the same number.
    pub started: u64,
}

/// Reads `/proc/<pid>/stat`; `None` when there is no such process.
pub fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name stands in parentheses and may hold anything, closing parentheses too.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    let ticks = u64::try_from(number(11)? + number(12)?).ok()?;
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: i32::try_from(number(1)?).ok()?,
        group: i32::try_from(number(2)?).ok()?,
        session: i32::try_from(number(3)?).ok()?,
        cpu: Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND),
        started: u64::try_from(number(19)?).ok()?,
    })
}

/// The state letter of a process; `None` when it is gone.
pub fn state(pid: i32) -> Option<char> {
    stat(pid).map(|stat| stat.state)
}

/// Whether the process exists and can still do something (a zombie cannot; a stopped one can, once continued).
pub fn is_running(pid: i32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// User and system time that the process has used; zero when it is gone.
pub fn cpu_time(pid: i32) -> Duration {
    stat(pid).map_or(Duration::ZERO, |stat| stat.cpu)
}

/// Resident memory now, in bytes; zero when the process is gone.
pub fn rss_bytes(pid: i32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// The most resident memory that the process ever had, in bytes; zero when it is gone.
pub fn peak_rss_bytes(pid: i32) -> u64 {
    status_bytes(pid, "VmHWM:")
}

/// All children, grandchildren and so on, parents first. Who was given to another parent is not among them.
pub fn descendants(pid: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for candidate in all_pids() {
        if let Some(stat) = stat(candidate) {
            children.entry(stat.parent).or_default().push(candidate);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.push(child);
            open.push(child);
        }
    }
    found
}

/// Every running process whose environment contains `token`: finds what a worker started even when it was
/// daemonised and given to another parent. Give the token with `exec --env TOKEN=..`.
pub fn processes_with_env(token: &str) -> Vec<i32> {
    all_pids()
        .into_iter()
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| contains(&environ, token.as_bytes()) && is_running(*pid))
        })
        .collect()
}

/// The command line, arguments joined by blanks; empty when the process is gone.
pub fn command_line(pid: i32) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&raw).trim_end_matches('\0').replace('\0', " ")
}

/// One line per process for a panic message: pid, state, command.
pub fn describe(pids: &[i32]) -> String {
    let lines = pids.iter().map(|pid| format!("{pid} {:?} {}", state(*pid), command_line(*pid)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Sends a signal; a process that is gone already is no error.
pub fn signal(pid: i32, signal: Signal) {
    // ESRCH is the only failure possible here and means that there is nobody left to tell.
    kill(Pid::from_raw(pid), signal).ok();
}

fn all_pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("the harness needs /proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn status_bytes(pid: i32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len().max(1)).any(|window| window == needle)
}
