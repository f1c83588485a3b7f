//! The guard process: stops runs whose lease lapsed, kills all of them when the worker is
//! gone. Starts nothing, writes nothing, allocates little.

use super::clock::BootInstant;
use super::hygiene;
use super::procs::Target;
use super::signals::{self, Hunt, Round};
use super::wire::{Answer, Lines, Order};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The longest sleep while there are runs: poll does not count suspend, leases do; and
/// stopped runs are looked at again for processes that move.
const LONGEST_NAP: Duration = Duration::from_millis(500);

struct Run {
    target: Target,
    until: BootInstant,
    stopped: bool,
}

#[derive(Default)]
struct Watch {
    runs: HashMap<u64, Run>,
}

/// Runs the role; never returns.
pub(crate) fn run() -> ! {
    hygiene::become_guard();
    let code = match hygiene::stdin_socket() {
        Ok(mut socket) => {
            let mut watch = Watch::default();
            watch.serve(&mut socket);
            watch.kill_everything();
            0
        }
        Err(_) => 1,
    };
    std::process::exit(code)
}

impl Watch {
    /// Serves the worker until its end of the socket is closed.
    fn serve(&mut self, socket: &mut UnixStream) {
        if socket.set_nonblocking(true).is_err() || answer(socket, Answer::Alive).is_err() {
            return;
        }
        let mut lines = Lines::default();
        let mut buffer = [0; 4096];
        loop {
            let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            // A poll that fails (interrupted) is as good as one that timed out.
            let _ = poll(&mut fds, self.nap());
            // Everything the worker said comes before any judgement about leases.
            loop {
                match socket.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(length) => {
                        for line in lines.feed(&buffer[..length]) {
                            self.obey(&line, socket);
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => return,
                }
            }
            self.stop_lapsed();
        }
    }

    fn obey(&mut self, line: &str, socket: &mut UnixStream) {
        match Order::parse(line) {
            Some(Order::Watch { run, target, until, again }) => {
                // Stopped by a guard that died before the renewal came?
                if again && until > BootInstant::now() {
                    signals::resume(std::slice::from_ref(&target));
                }
                self.runs.insert(run, Run { target, until, stopped: false });
                let _ = answer(socket, Answer::Noted(run));
            }
            Some(Order::Renew { run, until }) => {
                if let Some(run) = self.runs.get_mut(&run)
                    && until > run.until
                {
                    run.until = until;
                    if run.stopped && until > BootInstant::now() {
                        run.stopped = false;
                        signals::resume(std::slice::from_ref(&run.target));
                    }
                }
            }
            Some(Order::Forget { run }) => {
                self.runs.remove(&run);
            }
            Some(Order::Ping) => {
                let _ = answer(socket, Answer::Alive);
            }
            None => {}
        }
    }

    fn nap(&self) -> PollTimeout {
        let now = BootInstant::now();
        let nap = self
            .runs
            .values()
            .map(|run| if run.stopped { LONGEST_NAP } else { run.until.since(now).min(LONGEST_NAP) })
            .min();
        // Rounded up, so that the deadline has passed when poll returns.
        nap.and_then(|nap| PollTimeout::try_from(nap + Duration::from_millis(1)).ok())
            .unwrap_or(PollTimeout::NONE)
    }

    /// Stops what has no lease, and again what moves though it was stopped.
    fn stop_lapsed(&mut self) {
        let now = BootInstant::now();
        let mut lapsed = Vec::new();
        for run in self.runs.values_mut().filter(|run| now >= run.until) {
            run.stopped = true;
            lapsed.push(run.target.clone());
        }
        if !lapsed.is_empty() {
            signals::stop(&lapsed);
        }
    }

    /// Kills all runs, again until nothing of them is found.
    fn kill_everything(&self) {
        let targets: Vec<Target> = self.runs.values().map(|run| run.target.clone()).collect();
        if targets.is_empty() {
            return;
        }
        let mut hunt = Hunt::new(targets);
        while !hunt.kill(Duration::from_secs(5)).is_empty() {}
        // What was forked away from under the last look has had time to show itself.
        hygiene::pause(Duration::from_millis(20));
        while matches!(hunt.round(), Round::Killed | Round::Blind) {
            hygiene::pause(Duration::from_millis(20));
        }
    }
}

fn answer(socket: &mut UnixStream, answer: Answer) -> std::io::Result<()> {
    socket.write_all(answer.line().as_bytes())
}
