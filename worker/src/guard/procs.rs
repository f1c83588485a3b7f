//! Which processes belong to a run: process group, session, token, and descendants of those.
//!
//! Reads `/proc`; where there is none (macOS), [`Snapshot::take`] answers `None` and only
//! process groups can be addressed.

use std::collections::{HashMap, HashSet};
use std::fs;

/// Name of the variable that marks every process of a run.
pub(crate) const TOKEN_ENV: &str = "LEASEHOLD_RUN_TOKEN";

/// How the processes of one run are recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The first process: its pid is the process group and the session of the run.
    pub(crate) leader: i32,
    /// Start time of the leader in clock ticks since boot; tells a reused pid apart. Zero
    /// when unknown (no `/proc`).
    pub(crate) leader_start: u64,
    /// Value of [`TOKEN_ENV`] in the run's environment: `<incarnation>.<unique>`. A worker that is itself part
    /// of a run puts that one's before it, with a dot, so that the outer run finds them, too. What carries these
    /// parts in a row somewhere in its own value belongs to the target.
    pub(crate) token: String,
}

impl Target {
    /// Everything of all runs of a worker's incarnation, which is part of their tokens. No group and no session is meant.
    pub(crate) fn of_incarnation(incarnation: &str) -> Self {
        Self { leader: -1, leader_start: 0, token: incarnation.to_owned() }
    }
}

/// One process as `/proc/<pid>/stat` shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proc {
    pub(crate) pid: i32,
    ppid: i32,
    group: i32,
    session: i32,
    state: u8,
    threads: u64,
    pub(crate) start: u64,
    kernel: bool,
}

const PF_KTHREAD: u64 = 0x0020_0000;

impl Proc {
    /// Reads one process; `None` when it is gone or unreadable.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(pid: i32, stat: &[u8]) -> Option<Self> {
        // The command name stands in parentheses and may hold spaces and parentheses.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().take(20).collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse::<i64>().ok());
        Some(Self {
            pid,
            state: *fields.first()?.as_bytes().first()?,
            ppid: i32::try_from(number(1)?).ok()?,
            group: i32::try_from(number(2)?).ok()?,
            session: i32::try_from(number(3)?).ok()?,
            kernel: u64::try_from(number(6)?).ok()? & PF_KTHREAD != 0,
            threads: u64::try_from(number(17)?).ok()?,
            start: u64::try_from(number(19)?).ok()?,
        })
    }

    /// Dead, though perhaps not yet reaped. A leader whose other threads live on is not.
    pub(crate) fn is_gone(&self) -> bool {
        self.state == b'X' || (self.state == b'Z' && self.threads <= 1)
    }

    /// Runs no instruction of its program: stopped, dead, or waiting in the kernel (where a
    /// pending SIGSTOP takes hold before it gets back to its program).
    pub(crate) fn is_still(&self) -> bool {
        matches!(self.state, b'T' | b't' | b'Z' | b'X' | b'D')
    }
}

/// All processes of the machine at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    procs: Vec<Proc>,
}

/// What a snapshot holds of a run.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// Living processes of the run.
    pub(crate) living: Vec<Proc>,
    /// A process was in the middle of an exec, so that its environment could not be read;
    /// look again.
    pub(crate) unsure: bool,
    /// The machine could not be looked at (no free descriptor): this says nothing of what is alive.
    pub(crate) blind: bool,
}

enum Marked {
    Yes,
    No,
    Unsure,
}

impl Snapshot {
    /// Reads `/proc`; `None` where there is none. Where it cannot be read for now (no free descriptor), the
    /// answer is a snapshot that says so: it must not pass for a machine without processes.
    pub(crate) fn take() -> Option<Self> {
        let folder = match fs::read_dir("/proc") {
            Ok(folder) => folder,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(_) => return Some(Self { procs: Vec::new() }),
        };
        let procs: Vec<Proc> = folder
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(Proc::read)
            .collect();
        Some(Self { procs })
    }

    /// The living processes of the run `target`; those known to be its already are, too, though
    /// nothing may show it any more. Never this process, never init.
    pub(crate) fn members(&self, target: &Target, known: &HashSet<(i32, u64)>) -> Members {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        // Once another process has the leader's pid, group and session are somebody else's.
        let reused = target.leader_start != 0
            && self.procs.iter().any(|p| p.pid == target.leader && p.start != target.leader_start);
        // This process is always there: without it, the machine could not be looked at.
        let mut found = Members { blind: !self.procs.iter().any(|p| p.pid == me), ..Members::default() };
        let mut belongs: HashMap<i32, bool> = HashMap::with_capacity(self.procs.len());
        for proc in &self.procs {
            if proc.pid <= 1 || proc.pid == me || proc.kernel || proc.is_gone() {
                continue;
            }
            let grouped = !reused && (proc.group == target.leader || proc.session == target.leader);
            // What is older than the run's first process cannot carry its token.
            let hit = grouped
                || known.contains(&(proc.pid, proc.start))
                || (proc.start >= target.leader_start
                    && match marked(proc.pid, &target.token) {
                        Marked::Yes => true,
                        Marked::No => false,
                        Marked::Unsure => {
                            found.unsure = true;
                            false
                        }
                    });
            belongs.insert(proc.pid, hit);
        }
        self.add_descendants(&mut belongs);
        found.living =
            self.procs.iter().filter(|p| belongs.get(&p.pid).copied().unwrap_or(false)).copied().collect();
        found
    }

    /// Children of what belongs to the run belong to it, too, whatever session they made and
    /// however clean their environment is.
    fn add_descendants(&self, belongs: &mut HashMap<i32, bool>) {
        loop {
            let mut grew = false;
            for proc in &self.procs {
                if belongs.get(&proc.pid) == Some(&false) && belongs.get(&proc.ppid) == Some(&true) {
                    belongs.insert(proc.pid, true);
                    grew = true;
                }
            }
            if !grew {
                return;
            }
        }
    }
}

fn marked(pid: i32, token: &str) -> Marked {
    match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environ) if environ.is_empty() => Marked::Unsure,
        Ok(environ) if carries(&environ, token) => Marked::Yes,
        // Unreadable: another user's, hence not started by this worker (or by a setuid
        // program, which is found by its session or parent if at all).
        Err(error) if out_of_descriptors(&error) => Marked::Unsure,
        Ok(_) | Err(_) => Marked::No,
    }
}

fn out_of_descriptors(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| {
        matches!(nix::errno::Errno::from_raw(code), nix::errno::Errno::EMFILE | nix::errno::Errno::ENFILE)
    })
}

fn carries(environ: &[u8], token: &str) -> bool {
    environ
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.strip_prefix(TOKEN_ENV.as_bytes())?.strip_prefix(b"="))
        .any(|value| contains_parts(value, token.as_bytes()))
}

/// Does `value` hold the parts of `token`, which dots separate, whole and in a row?
fn contains_parts(value: &[u8], token: &[u8]) -> bool {
    let begins =
        std::iter::once(0).chain(value.iter().zip(1..).filter(|(byte, _)| **byte == b'.').map(|(_, at)| at));
    begins
        .filter_map(|at| value.get(at..)?.strip_prefix(token))
        .any(|rest| rest.is_empty() || rest.starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_a_strange_name_is_read() {
        let stat = b"42 (a) b (c)) T 7 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 9876 1 2";
        let proc = Proc::parse(42, stat).expect("parses");
        assert_eq!((proc.pid, proc.ppid, proc.group, proc.session), (42, 7, 42, 41));
        assert_eq!((proc.state, proc.threads, proc.start, proc.kernel), (b'T', 3, 9876, false));
        assert!(proc.is_still() && !proc.is_gone());
        assert!(Proc::parse(1, b"1 (x").is_none());
    }

    #[test]
    fn a_zombie_leader_with_living_threads_is_not_gone() {
        let gone = Proc::parse(1, b"1 (x) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0").expect("parses");
        let lives = Proc::parse(1, b"1 (x) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 2 0 5 0").expect("parses");
        assert!(gone.is_gone() && !lives.is_gone());
    }

    #[test]
    fn tokens_are_compared_whole_or_up_to_a_nested_one() {
        assert!(carries(b"A=1\0LEASEHOLD_RUN_TOKEN=abc\0B=2\0", "abc"));
        assert!(carries(b"LEASEHOLD_RUN_TOKEN=abc.def\0", "abc"));
        assert!(!carries(b"LEASEHOLD_RUN_TOKEN=abcd\0", "abc"));
        assert!(!carries(b"XLEASEHOLD_RUN_TOKEN=abc\0", "abc"));
        assert!(!carries(b"", "abc"));
    }

    #[test]
    fn r11_an_incarnation_is_found_in_the_tokens_of_its_runs_and_of_runs_inside_them() {
        let found = |value: &str| carries(format!("A=1\0{TOKEN_ENV}={value}").as_bytes(), "inc1");
        for of_its_runs in ["inc1.run", "inc0.run.inc1.run", "inc1.run.inc2.run", "inc1"] {
            assert!(found(of_its_runs), "{of_its_runs}");
        }
        for of_others in ["inc2.run", "inc12.run", "xinc1.run", "inc2.inc1x", "run", ""] {
            assert!(!found(of_others), "{of_others}");
        }
        assert!(
            carries(b"LEASEHOLD_RUN_TOKEN=a.b.c.d", "b.c") && !carries(b"LEASEHOLD_RUN_TOKEN=a.b.x.c", "b.c")
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_never_a_member() {
        let me = i32::try_from(std::process::id()).expect("fits");
        let proc = Proc::read(me).expect("reads itself");
        let target = Target { leader: proc.group, leader_start: 0, token: "none".into() };
        let members = Snapshot::take().expect("has /proc").members(&target, &HashSet::new());
        assert!(members.living.iter().all(|p| p.pid != me));
        // Processes of outer namespaces have group and session 0 here: no incarnation means them.
        let nobody = Target::of_incarnation("none");
        let members = Snapshot::take().expect("has /proc").members(&nobody, &HashSet::new());
        assert!(members.living.is_empty() && !members.blind);
    }
}
