//! Reading a command's two pipes, and waiting for its exit, in one poll.

use super::exit::Exit;
use super::launch::OutputSink;
use super::spec::Stream;
use crate::guard::hygiene;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Child;
use std::time::{Duration, Instant};

/// One read takes at most this much; it is all the memory output costs here.
const BUFFER: usize = 64 * 1024;

/// How often an exit is looked for where no descriptor tells of it (not Linux, or none free).
const LOOK_FOR_EXIT: Duration = Duration::from_millis(50);

/// The output side of a run.
pub(super) struct Pump<'a> {
    pipes: Vec<(Stream, File)>,
    buffer: Vec<u8>,
    sink: Option<&'a OutputSink>,
}

impl<'a> Pump<'a> {
    pub(super) fn new(child: &mut Child, sink: &'a OutputSink) -> Self {
        let mut pipes = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            pipes.push((Stream::Stdout, File::from(OwnedFd::from(pipe))));
        }
        if let Some(pipe) = child.stderr.take() {
            pipes.push((Stream::Stderr, File::from(OwnedFd::from(pipe))));
        }
        Self { pipes, buffer: vec![0; BUFFER], sink: Some(sink) }
    }

    /// Passes output on until the process has exited. Leaves it a zombie, so that its pid, and
    /// with it the group's and the session's number, stays taken.
    pub(super) fn until_exit(&mut self, pid: i32) -> Exit {
        let Some(pid) = Pid::from_raw(pid) else {
            return Exit::unknown();
        };
        let handle = exit_handle(pid);
        loop {
            if let Some(exit) = exited(pid) {
                return exit;
            }
            let timeout = if handle.is_some() { None } else { Some(LOOK_FOR_EXIT) };
            self.turn(handle.as_ref(), timeout);
        }
    }

    /// Passes on what still comes, until all pipes are closed, nothing came for `quiet`, or
    /// `longest` is over: somebody else may hold them open.
    pub(super) fn drain(&mut self, quiet: Duration, longest: Duration) {
        let deadline = Instant::now() + longest;
        while !self.pipes.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if !self.turn(None, Some(quiet.min(left))) || left.is_zero() {
                return;
            }
        }
    }

    /// One poll, and one read from each pipe that has something. Answers whether any had.
    fn turn(&mut self, exit: Option<&OwnedFd>, timeout: Option<Duration>) -> bool {
        let mut fds: Vec<PollFd<'_>> =
            self.pipes.iter().map(|(_, pipe)| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)).collect();
        fds.extend(exit.map(|exit| PollFd::new(exit.as_fd(), PollFlags::POLLIN)));
        let timeout =
            timeout.map_or(PollTimeout::NONE, |time| PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX));
        if let Err(errno) = poll(&mut fds, timeout) {
            // Interrupted: as if something had come, so that the caller looks again. Anything
            // else (no memory) must not become a busy loop.
            if errno != nix::errno::Errno::EINTR {
                hygiene::pause(LOOK_FOR_EXIT);
            }
            return true;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        drop(fds);
        let Self { pipes, buffer, sink } = self;
        let mut index = 0;
        let mut any = false;
        pipes.retain_mut(|(stream, pipe)| {
            let is_ready = ready.get(index).copied().unwrap_or(false);
            index += 1;
            any |= is_ready;
            !is_ready || pass_on(*stream, pipe, buffer, sink)
        });
        any
    }
}

/// Reads once; answers whether the pipe is still open.
fn pass_on(stream: Stream, pipe: &mut File, buffer: &mut [u8], sink: &mut Option<&OutputSink>) -> bool {
    match pipe.read(buffer) {
        Ok(0) => false,
        Ok(length) => {
            if let Some(target) = sink
                && catch_unwind(AssertUnwindSafe(|| target(stream, &buffer[..length]))).is_err()
            {
                tracing::error!("the receiver of a command's output panicked; the rest of it is dropped");
                *sink = None;
            }
            true
        }
        Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
    }
}

#[cfg(target_os = "linux")]
fn exit_handle(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn exit_handle(_pid: Pid) -> Option<OwnedFd> {
    None
}

/// How the process ended, if it has.
fn exited(pid: Pid) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(pid), options) {
        // Interrupted is as good as "not yet": the caller asks again.
        Ok(None) | Err(rustix::io::Errno::INTR) => None,
        Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::signal(signal, status.dumped()),
            (None, None) => Exit::unknown(),
        }),
        Err(_) => Some(Exit::unknown()),
    }
}
