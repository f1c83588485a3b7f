//! How guard and trampoline shed what they inherited: descriptors, signals, session.

use nix::sys::signal::SigSet;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Own session (a terminal's Ctrl-C and hang-up miss it), all signals blocked, nothing held
/// open, no directory pinned.
pub(crate) fn become_guard() {
    // Only SIGKILL and SIGSTOP still reach it: it must outlive what ends the worker.
    let _ = SigSet::all().thread_block();
    let _ = nix::unistd::setsid();
    close_inherited();
    let _ = std::env::set_current_dir("/");
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"leasehold-guard");
}

/// The socket to the worker, which is standard input, as a descriptor that no exec inherits.
pub(crate) fn stdin_socket() -> std::io::Result<UnixStream> {
    let owned: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned()?;
    Ok(UnixStream::from(owned))
}

/// Waits a moment, between two looks at something that gives no sign of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "milliseconds, on a thread or process that has nothing else to do"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Closes every descriptor but 0, 1 and 2. Call it before anything else is opened.
pub(crate) fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd")) else {
        return;
    };
    let open: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // The one that listed them is closed already.
        let _ = nix::unistd::close(fd);
    }
}

/// Gives signals that are being ignored a handler that does nothing: an exec turns handlers,
/// but not "ignore", into the default. (Setting the default itself has no safe call.)
pub(crate) fn unignore(only: Option<i32>) {
    for signal in 1..=31 {
        if only.is_none_or(|only| only == signal) && is_ignored(signal) {
            // Signals that may not be handled (KILL, STOP) are never ignored either; the
            // others cannot fail.
            if !signal_hook::consts::FORBIDDEN.contains(&signal) {
                let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
            }
        }
    }
}

fn is_ignored(signal: i32) -> bool {
    match ignored_mask() {
        Some(mask) => mask & (1 << (signal - 1)) != 0,
        // No /proc: whatever a parent is known to ignore.
        None => [1, 2, 3, 13, 15, 20].contains(&signal),
    }
}

fn ignored_mask() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}
