//! Stop, continue and kill everything of a run.

use super::hygiene;
use super::procs::{Members, Proc, Snapshot, Target};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long a freeze waits for processes to be seen standing still.
const STOP_WITHIN: Duration = Duration::from_millis(500);

/// Looks that must find nothing while some process is in the middle of an exec.
const UNSURE_LOOKS: u32 = 3;

/// Sends SIGSTOP to everything of the runs, again until nothing of them moves. Answers the
/// pids not seen standing still in time (their SIGSTOP is pending all the same).
pub(crate) fn stop(targets: &[Target]) -> Vec<i32> {
    Hunt::new(targets.to_vec()).stop()
}

/// Sends SIGCONT to everything of the runs.
pub(crate) fn resume(targets: &[Target]) {
    targets.iter().for_each(|target| signal_group(target, Signal::SIGCONT));
    if let Some(found) = look(targets, &HashSet::new()) {
        found.living.iter().for_each(|proc| send(proc, Signal::SIGCONT));
    }
}

/// Pids of the runs that are alive now.
pub(crate) fn living(targets: &[Target]) -> Vec<i32> {
    Hunt::new(targets.to_vec()).living()
}

/// What one round of killing found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// Nothing of the runs is left.
    Clean,
    /// Nothing seen, but some process was in the middle of an exec.
    Unsure,
    /// Something was there, and was sent SIGKILL.
    Killed,
    /// The machine could not be looked at: the groups were sent SIGKILL, and nobody knows what is left.
    Blind,
}

/// Kills runs. Remembers what it has seen of them: a process that was only known by its parent
/// is still theirs when the parent has died first.
#[derive(Debug)]
pub(crate) struct Hunt {
    targets: Vec<Target>,
    seen: HashSet<(i32, u64)>,
}

impl Hunt {
    pub(crate) fn new(targets: Vec<Target>) -> Self {
        Self { targets, seen: HashSet::new() }
    }

    /// The same, with processes that were seen before.
    pub(crate) fn knowing(mut self, known: &HashSet<(i32, u64)>) -> Self {
        self.seen.extend(known);
        self
    }

    /// Pid and start of what is alive now.
    pub(crate) fn members(&mut self) -> Vec<(i32, u64)> {
        self.look()
            .map(|found| found.living.iter().map(|proc| (proc.pid, proc.start)).collect())
            .unwrap_or_default()
    }

    /// Pids of the runs that are alive now.
    pub(crate) fn living(&mut self) -> Vec<i32> {
        self.look().map(|found| found.living.iter().map(|proc| proc.pid).collect()).unwrap_or_default()
    }

    fn stop(&mut self) -> Vec<i32> {
        self.signal_groups(Signal::SIGSTOP);
        let deadline = Instant::now() + STOP_WITHIN;
        let mut signalled: HashSet<(i32, u64)> = HashSet::new();
        let mut unsure = 0;
        loop {
            let Some(found) = self.look() else {
                return Vec::new();
            };
            let mut moving = Vec::new();
            for proc in found.living {
                if signalled.insert((proc.pid, proc.start)) {
                    send(&proc, Signal::SIGSTOP);
                    moving.push(proc.pid);
                } else if !proc.is_still() {
                    moving.push(proc.pid);
                }
            }
            unsure = if found.unsure || found.blind { unsure + 1 } else { 0 };
            let settled = moving.is_empty() && (unsure == 0 || unsure >= UNSURE_LOOKS);
            if settled || Instant::now() >= deadline {
                return moving;
            }
            hygiene::pause(Duration::from_millis(1));
        }
    }

    /// One round of killing: stops everything first, so that nothing can fork away, then kills.
    pub(crate) fn round(&mut self) -> Round {
        let Some(found) = self.look() else {
            self.signal_groups(Signal::SIGKILL);
            return Round::Clean;
        };
        if found.living.is_empty() {
            if found.blind {
                self.signal_groups(Signal::SIGKILL);
                return Round::Blind;
            }
            return if found.unsure { Round::Unsure } else { Round::Clean };
        }
        self.stop();
        // Looked up before the first of them dies.
        let found = self.look().unwrap_or_default();
        found.living.iter().for_each(|proc| send(proc, Signal::SIGKILL));
        self.signal_groups(Signal::SIGKILL);
        Round::Killed
    }

    /// Kills everything of the runs, again until nothing is found or the time is over. Answers
    /// the pids that are still alive then.
    pub(crate) fn kill(&mut self, within: Duration) -> Vec<i32> {
        let deadline = Instant::now() + within;
        let mut pause = Duration::from_millis(1);
        let (mut quiet, mut blind) = (0, false);
        loop {
            let enough = match self.round() {
                round @ (Round::Killed | Round::Blind) => {
                    blind = round == Round::Blind;
                    quiet = 0;
                    u32::MAX
                }
                Round::Unsure => UNSURE_LOOKS,
                // After a kill one looks twice: a new process may have been read past while
                // its parent died.
                Round::Clean => 1 + u32::from(!self.seen.is_empty()),
            };
            quiet += 1;
            if quiet >= enough {
                return Vec::new();
            }
            if Instant::now() >= deadline {
                // Who cannot look must not say that nothing is left.
                let leaders = self.targets.iter().map(|target| target.leader);
                return if blind { leaders.collect() } else { self.living() };
            }
            hygiene::pause(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    fn signal_groups(&self, signal: Signal) {
        self.targets.iter().for_each(|target| signal_group(target, signal));
    }

    fn look(&mut self) -> Option<Members> {
        let found = look(&self.targets, &self.seen)?;
        self.seen.extend(found.living.iter().map(|proc| (proc.pid, proc.start)));
        Some(found)
    }
}

fn look(targets: &[Target], known: &HashSet<(i32, u64)>) -> Option<Members> {
    let snapshot = Snapshot::take()?;
    let mut all = Members::default();
    for target in targets {
        let members = snapshot.members(target, known);
        all.living.extend(members.living);
        all.unsure |= members.unsure;
        all.blind |= members.blind;
    }
    Some(all)
}

/// Signals the process group, unless its number was given to somebody else.
pub(crate) fn signal_group(target: &Target, signal: Signal) {
    if target.leader <= 1 {
        return;
    }
    // While the leader's pid is ours, or no process has it, the group is ours or empty.
    let reused = target.leader_start != 0
        && Proc::read(target.leader).is_some_and(|proc| proc.start != target.leader_start);
    if !reused {
        // Gone already is as good.
        let _ = killpg(Pid::from_raw(target.leader), signal);
    }
}

/// Signals one process of a snapshot, unless its pid was given to another process since.
fn send(proc: &Proc, signal: Signal) {
    let is_same = || Proc::read(proc.pid).is_some_and(|now| now.start == proc.start);
    #[cfg(target_os = "linux")]
    if let Some(pid) = rustix::process::Pid::from_raw(proc.pid)
        && let Ok(handle) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
    {
        if is_same()
            && let Some(signal) = rustix::process::Signal::from_named_raw(signal as i32)
        {
            let _ = rustix::process::pidfd_send_signal(handle, signal);
        }
        return;
    }
    // No pidfd to be had (an old kernel, no free descriptor): a small window remains.
    if is_same() {
        let _ = kill(Pid::from_raw(proc.pid), signal);
    }
}
