//! What the kernel knows of processes that the demo started, directly or not.

use std::fs;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The variable by which every guard, command and grandchild of a worker is found: what a worker starts carries
/// the worker's own token in front of its own. `leasehold_worker` documents it as the mark of a run.
pub(super) const MARK_VARIABLE: &str = "LEASEHOLD_RUN_TOKEN";

/// How often a process that should go is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// One process, told from a later one with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watched {
    pid: i32,
    /// Start in ticks since boot; none without `/proc`.
    started: Option<u64>,
}

impl Watched {
    /// The process as it is now; none when it is gone.
    pub(super) fn new(pid: i32) -> Option<Self> {
        let this = Self { pid, started: started(pid) };
        this.is_alive().then_some(this)
    }

    /// Its number.
    pub(super) fn pid(self) -> i32 {
        self.pid
    }

    /// Whether it can still do something: a zombie cannot.
    pub(super) fn is_alive(self) -> bool {
        if self.pid <= 1 {
            return false;
        }
        match self.started {
            Some(_) => started(self.pid) == self.started,
            None if has_proc() => false,
            None => kill(Pid::from_raw(self.pid), None) != Err(Errno::ESRCH),
        }
    }

    /// Its state as the kernel tells it; none when it is gone, and without `/proc`.
    fn state(self) -> Option<char> {
        stat(self.pid).filter(|_| self.is_alive()).map(|(state, _)| state)
    }
}

/// Waits until all of them, of one process group, stand still (SIGSTOP) or are gone; those that still move after
/// `limit` come back. None without `/proc`, where nobody can tell.
pub(super) async fn still(group: &[Watched], limit: Duration) -> Vec<Watched> {
    let begun = tokio::time::Instant::now();
    loop {
        let moving = moving(group.iter().filter_map(|process| Some((*process, process.state()?))));
        if moving.is_empty() || begun.elapsed() >= limit {
            return moving;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Those of a group that may do something. A shell that was stopped between vfork and exec of a child waits for that
/// child, which is stopped, in `D` for as long: it stands still as well, if any other of the group shows that the group
/// was stopped at all.
fn moving<P>(group: impl Iterator<Item = (P, char)>) -> Vec<P> {
    let group: Vec<(P, char)> = group.collect();
    let was_stopped = group.iter().any(|(_, state)| matches!(state, 'T' | 't'));
    let stands = |state| matches!(state, 'T' | 't') || was_stopped && state == 'D';
    group.into_iter().filter(|(_, state)| !stands(*state)).map(|(process, _)| process).collect()
}

/// Waits until all of them are gone; those that are not within `limit` come back.
pub(super) async fn gone(processes: &[Watched], limit: Duration) -> Vec<Watched> {
    let begun = tokio::time::Instant::now();
    loop {
        let alive: Vec<Watched> = processes.iter().copied().filter(|process| process.is_alive()).collect();
        if alive.is_empty() || begun.elapsed() >= limit {
            return alive;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Every living process but this one that carries `mark` in its environment; none without `/proc`.
pub(super) fn marked(mark: &str) -> Vec<Watched> {
    let me = i32::try_from(std::process::id()).unwrap_or_default();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != me && carries(*pid, mark.as_bytes()))
        .filter_map(Watched::new)
        .collect()
}

/// Waits until nobody carries `mark`; those that do after `limit` come back.
pub(super) async fn unmarked(mark: &str, limit: Duration) -> Vec<Watched> {
    let begun = tokio::time::Instant::now();
    loop {
        let alive = marked(mark);
        if alive.is_empty() || begun.elapsed() >= limit {
            return alive;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends a process that carries our mark.
pub(super) fn end(process: Watched) {
    if process.is_alive() {
        // It may go in between: then there is nobody left to end.
        let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
    }
}

/// Whether marks can be looked for at all.
pub(super) fn has_proc() -> bool {
    fs::exists("/proc/self/stat").unwrap_or(false)
}

fn carries(pid: i32, mark: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.windows(mark.len().max(1)).any(|window| window == mark))
}

/// The start time in `/proc/<pid>/stat`; none for a process that is gone, a zombie included.
fn started(pid: i32) -> Option<u64> {
    stat(pid).filter(|(state, _)| !matches!(state, 'Z' | 'X' | 'x')).map(|(_, started)| started)
}

/// State and start time in `/proc/<pid>/stat`.
fn stat(pid: i32) -> Option<(char, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_group_stands_still_when_it_was_stopped_also_in_the_middle_of_a_fork() {
        let moving = |states: &str| moving(states.chars().map(|state| (state, state))).len();
        assert_eq!(
            ["", "T", "TT", "TD", "DT", "DD", "D", "TS", "SS", "TR"].map(moving),
            [0, 0, 0, 0, 0, 2, 1, 1, 2, 1]
        );
    }

    #[tokio::test]
    async fn a_marked_process_is_found_and_its_end_is_seen() {
        let mark = format!("demo-test-{}", uuid::Uuid::new_v4().simple());
        let mut child =
            Command::new("sleep").arg("600").env(MARK_VARIABLE, format!("{mark}.x")).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let process = Watched::new(pid).unwrap();
        if has_proc() {
            // The environment is the new one only after the exec.
            while marked(&mark).is_empty() {
                tokio::time::sleep(LOOK).await;
            }
            assert_eq!(marked(&mark), [process]);
        }
        assert_eq!(gone(&[process], Duration::ZERO).await, [process]);
        if has_proc() {
            assert_eq!(still(&[process], Duration::ZERO).await, [process]);
            kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
            assert!(still(&[process], Duration::from_secs(5)).await.is_empty());
            assert!(process.is_alive());
        }
        end(process);
        child.wait().unwrap();
        assert!(gone(&[process], Duration::from_secs(5)).await.is_empty());
        assert!(unmarked(&mark, Duration::ZERO).await.is_empty());
    }
}
