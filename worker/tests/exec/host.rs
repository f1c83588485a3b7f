//! A small worker of its own process, to be killed and stopped.

use crate::support::{Bench, MARK, sh};
use leasehold_worker::exec::start;
use leasehold_worker::guard::{BootInstant, Guard, GuardStatus};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A command with children that try to get away: own session, double fork, clean environment.
pub(crate) const SPREAD: &str = "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; \
     sh -c 'sleep 1000 & exec sleep 1000' & echo ready; sleep 1000";
/// So many processes of it carry the mark.
pub(crate) const SPREAD_COUNT: usize = 8;

/// `host <mark> <lease ms>`: runs [`SPREAD`], renews its lease, tells of the guard, until its
/// input closes.
pub(crate) fn main() {
    let args: Vec<String> = std::env::args().collect();
    let lease = Duration::from_millis(args[3].parse().unwrap());
    let bench = Bench::new();
    let mut launch = bench.launch(sh(SPREAD));
    launch.env.insert(MARK.to_owned(), args[2].clone());
    launch.lease_until = BootInstant::now().plus(lease);
    let run = bench.runtime.block_on(start(&bench.guard, launch)).unwrap();
    let key = run.control().key();
    let status = bench.guard.status();
    let mut told = None;
    let (closed, input) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(closed);
    });
    loop {
        // The moment before the heartbeat that would have been answered now.
        let sent = BootInstant::now();
        bench.guard.renew(&[(key, sent.plus(lease))]);
        let now = *status.borrow();
        if told != Some(now) {
            told = Some(now);
            match now {
                GuardStatus::Up { pid } => say(&format!("up {pid}")),
                GuardStatus::Down { .. } => say("down"),
            }
        }
        if input.recv_timeout(lease / 20) == Err(std::sync::mpsc::RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// `host-without-init`: what a worker is told that forgot `init`.
pub(crate) fn without_init() {
    say(&Guard::start().map(|_| ()).unwrap_err().to_string());
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// The host as the test sees it.
pub(crate) struct Host {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
}

impl Host {
    pub(crate) fn spawn(mark: &str, lease: Duration) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["host", mark, &lease.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// The guard's pid, when the next line says that it is up.
    pub(crate) fn guard_pid(&mut self) -> i32 {
        let line = self.line();
        line.strip_prefix("up ").unwrap_or_else(|| panic!("no guard: {line:?}")).parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
