//! What the kernel knows about a process, and the signals sent to one.

use std::fs;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::error::{Doing as _, Error};

/// When the process was started, in clock ticks since boot: with the process id it names one process for good.
/// Nothing without `/proc`, and nothing for a process that has ended but was not waited for.
pub(super) fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_started(&stat)
}

/// The start time in a line of `/proc/<pid>/stat`. The second field, the name, may hold spaces and parentheses, so
/// fields are counted from the last parenthesis: the state is the third field, the start time the 22nd.
fn parse_started(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Sends `signal` to one process; one that is gone already is fine.
pub(super) fn send(pid: u32, signal: Signal) -> Result<(), Error> {
    delivered(kill(positive(pid)?, signal)).doing(|| format!("could not send {signal} to process {pid}"))
}

/// Sends `signal` to each process of the group that `pid` leads.
pub(super) fn send_to_group(pid: u32, signal: Signal) -> Result<(), Error> {
    delivered(killpg(positive(pid)?, signal))
        .doing(|| format!("could not send {signal} to process group {pid}"))
}

/// A process that has gone needs no signal.
fn delivered(result: nix::Result<()>) -> nix::Result<()> {
    match result {
        Err(Errno::ESRCH) => Ok(()),
        other => other,
    }
}

/// A process id that names one process: to `kill`, 0 and negative numbers mean many, and 1 is never ours.
fn positive(pid: u32) -> Result<Pid, Error> {
    i32::try_from(pid)
        .ok()
        .filter(|&pid| pid > 1)
        .map(Pid::from_raw)
        .ok_or(Errno::ESRCH)
        .doing(|| format!("{pid} is no process id of a server"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start time is found behind any name, and a zombie has none.
    #[test]
    fn parses_stat() {
        let rest = "1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1000 10";
        let cases = [
            (format!("42 (redis-server) S {rest}"), Some(98765)),
            (format!("42 (a) R (b) S {rest}"), Some(98765)),
            (format!("42 (redis-server) Z {rest}"), None),
            (String::from("42 (redis-server) S 1 2"), None),
            (String::new(), None),
        ];
        for (stat, expected) in cases {
            assert_eq!(parse_started(&stat), expected, "{stat}");
        }
    }

    /// Ids that would mean "every process" are refused before they reach the kernel.
    #[test]
    fn refuses_ids_that_mean_many() {
        for pid in [0, 1, u32::MAX] {
            assert!(send(pid, Signal::SIGTERM).is_err(), "{pid}");
        }
    }
}
