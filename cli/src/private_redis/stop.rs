//! Ending the server of a folder: exactly that process, and only if it surely is that one.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::error::Error;
use super::folder::Folder;
use super::lock::{self, FORK_WINDOW};
use super::polling::Polling;
use super::process;
use super::record::Record;
use super::reporter::Reporter;
use super::resp;
use super::server::is_absent;

/// How long a server may take to flush its data after SIGTERM, and the kernel to end it after SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// There was none.
    NotRunning,
    /// This process ended after SIGTERM.
    Terminated(u32),
    /// This process had to be killed; the last second of writes may be lost.
    Killed(u32),
}

/// Ends the server of the folder `path` for everyone who uses it, and waits until it is gone.
pub(crate) fn stop(path: &Path, reporter: &dyn Reporter) -> Result<Stopped, Error> {
    stop_within(path, reporter, GRACE)
}

/// [`stop`] with another grace.
pub(super) fn stop_within(path: &Path, reporter: &dyn Reporter, grace: Duration) -> Result<Stopped, Error> {
    let Some(folder) = Folder::existing(path)? else { return Ok(Stopped::NotRunning) };
    lock::exclusively(&folder, reporter, || {
        if !lock::is_server_alive(&folder)? {
            return clean_up(&folder);
        }
        let record = match identify(&folder) {
            Ok(record) => record,
            // It may have ended while it was looked at.
            Err(_) if lock::is_free_within(&folder, FORK_WINDOW)? => return clean_up(&folder),
            Err(error) => return Err(error),
        };
        end(&folder, &record, reporter, grace)
    })
}

/// Tidies up where no server lives.
fn clean_up(folder: &Folder) -> Result<Stopped, Error> {
    let listening = folder.unix_address().is_some_and(|address| match resp::ping(&address) {
        Ok(_) => true,
        Err(error) => !is_absent(&error),
    });
    if listening {
        return Err(not_ours(
            folder,
            format!(
                "a server that Leasehold did not start has its socket; end it with `redis-cli -s {} shutdown`",
                folder.socket().display()
            ),
        ));
    }
    folder.remove_traces()?;
    Ok(Stopped::NotRunning)
}

/// The record of the living server, after checking that the process it names is the one that was started: by its
/// start time where `/proc` tells it, and by what answers on its address. One that hangs cannot answer; then the
/// start time must do.
fn identify(folder: &Folder) -> Result<Record, Error> {
    let Some(record) = Record::read(folder) else {
        return Err(not_ours(
            folder,
            format!("{} does not say which process it is", folder.record().display()),
        ));
    };
    let pid = record.pid;
    let started = process::started(pid);
    if started != record.started {
        return Err(not_ours(folder, format!("process {pid} is not the one that was started for it")));
    }
    let answer = record.address(folder).and_then(|address| resp::info(&address).ok());
    match answer {
        Some(info) if info.process_id != pid => Err(not_ours(
            folder,
            format!("it answers as process {}, but {pid} was started for it", info.process_id),
        )),
        None if started.is_none() => {
            Err(not_ours(folder, format!("it does not answer, so process {pid} cannot be checked")))
        }
        Some(_) | None => Ok(record),
    }
}

/// SIGTERM, a grace, SIGKILL.
fn end(folder: &Folder, record: &Record, reporter: &dyn Reporter, grace: Duration) -> Result<Stopped, Error> {
    let pid = record.pid;
    process::send(pid, Signal::SIGTERM)?;
    if is_gone_within(folder, record, grace)? {
        folder.remove_traces()?;
        return Ok(Stopped::Terminated(pid));
    }
    reporter.say(&format!("redis: process {pid} did not end within {} s, killing it", grace.as_secs()));
    process::send(pid, Signal::SIGKILL)?;
    if is_gone_within(folder, record, grace)? {
        folder.remove_traces()?;
        return Ok(Stopped::Killed(pid));
    }
    Err(Error::NotGone { pid })
}

/// Waits until neither the life lock is held nor the process is there.
fn is_gone_within(folder: &Folder, record: &Record, limit: Duration) -> Result<bool, Error> {
    let polling = Polling::for_at_most(limit);
    loop {
        // Without /proc there is no start time, and the lock alone tells.
        let ended = record.started.is_none() || process::started(record.pid) != record.started;
        if ended && !lock::is_server_alive(folder)? {
            return Ok(true);
        }
        if !polling.again() {
            return Ok(false);
        }
    }
}

/// The error for a server that must not be touched.
fn not_ours(folder: &Folder, why: String) -> Error {
    Error::NotOurs { folder: folder.path().to_owned(), why }
}
