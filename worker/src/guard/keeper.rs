//! The thread that keeps the guard process: starts it, hears it, starts it again.

use super::client::{GuardStatus, Shared};
use super::clock::BootInstant;
use super::wire::{Answer, Lines};
use super::{GUARD_ROLE, role};
use std::io::{Error, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Reads and writes give up after this long; a read that does is followed by a ping.
const TICK: Duration = Duration::from_secs(1);

/// So many ticks in a row without a word: the guard is stuck (stopped by somebody, say).
const SILENT_TICKS: u32 = 10;

const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Keeps a guard process running until the last handle is gone.
pub(super) fn keep(shared: &Shared) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        let began = Instant::now();
        match launch() {
            Ok((child, socket)) => {
                tend(shared, child, &socket);
            }
            Err(error) => {
                tracing::error!(%error, "cannot start the guard process");
                shared.lock().failure = Some(error);
                shared.tell_waiting();
            }
        }
        pause = if began.elapsed() > LONGEST_PAUSE * 10 { SHORTEST_PAUSE } else { pause * 2 };
        let resume = Instant::now() + pause.min(LONGEST_PAUSE);
        let mut state = shared.lock();
        loop {
            if state.closing {
                return;
            }
            let left = resume.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = shared.wait(state, left);
        }
    }
}

fn launch() -> std::io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(TICK))?;
    ours.set_write_timeout(Some(TICK))?;
    let mut command =
        role(GUARD_ROLE).ok_or_else(|| Error::new(ErrorKind::Unsupported, "guard::init was not called"))?;
    let child = command
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((child, ours))
}

/// Serves one guard process until it is lost or no longer needed, and reaps it.
fn tend(shared: &Shared, mut child: Child, socket: &UnixStream) {
    let lost = listen(shared, &child, socket);
    let closing = {
        let mut state = shared.lock();
        state.link = None;
        state.closing
    };
    shared.announce(GuardStatus::Down { since: BootInstant::now() });
    if !closing {
        tracing::warn!(pid = child.id(), reason = %lost, "the guard process is gone; starting it again");
        // A guard that is merely stuck must not see its socket close: it would take that for
        // the death of the worker.
        let _ = child.kill();
    } else {
        let _ = socket.shutdown(Shutdown::Both);
    }
    let _ = child.wait();
}

fn listen(shared: &Shared, child: &Child, mut socket: &UnixStream) -> Error {
    let mut lines = Lines::default();
    let mut buffer = [0; 4096];
    let mut greetings = 0_u8;
    let mut silent = 0;
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return ErrorKind::UnexpectedEof.into(),
            Ok(length) => {
                silent = 0;
                for line in lines.feed(&buffer[..length]) {
                    match Answer::parse(&line) {
                        Some(Answer::Alive) => {
                            greetings = greetings.saturating_add(1);
                            if let Err(error) = greet(shared, child, socket, greetings) {
                                return error;
                            }
                        }
                        Some(Answer::Noted(run)) => {
                            shared.lock().noted(run);
                            shared.tell_waiting();
                        }
                        None => {}
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                silent += 1;
                let mut state = shared.lock();
                if state.closing {
                    return error;
                }
                if greetings > 0 {
                    state.ping();
                }
                if silent >= SILENT_TICKS || (greetings > 0 && state.link.is_none()) {
                    return ErrorKind::TimedOut.into();
                }
            }
            Err(error) => return error,
        }
    }
}

/// The first word of a new guard is answered with all runs; by its second it has noted them.
fn greet(shared: &Shared, child: &Child, socket: &UnixStream, greetings: u8) -> Result<(), Error> {
    let mut state = shared.lock();
    if state.closing {
        return Err(ErrorKind::ConnectionAborted.into());
    }
    match greetings {
        1 => state.introduce(socket.try_clone()?),
        2 => {
            drop(state);
            shared.announce(GuardStatus::Up { pid: child.id() });
        }
        _ => {}
    }
    Ok(())
}
