//! Two lock files, because Redis does not lock its data and two servers on one folder corrupt it.
//!
//! * The decision lock is held by whoever starts or stops the server, while deciding and doing it.
//! * The life lock is held by the server itself. It is handed over as the server's stdin, locked, so that the kernel
//!   keeps it exactly as long as the server lives: through a `kill -9` of whoever started it, from before the socket
//!   answers, and while the server is stopped or hangs. It needs no process id and cannot be stale.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::error::{Doing as _, Error};
use super::folder::Folder;
use super::polling::Polling;
use super::reporter::Reporter;

/// How long to wait for another process that starts or stops the server. It may be fetching one, or waiting for a
/// person to type a password.
const DECISION_DEADLINE: Duration = Duration::from_secs(120);

/// A child that was just forked holds a copy of each lock until it executes its program, so "taken" is believed only
/// if it lasts.
pub(super) const FORK_WINDOW: Duration = Duration::from_secs(1);

/// Does `work` while nobody else starts or stops the server of `folder`.
pub(super) fn exclusively<T>(
    folder: &Folder,
    reporter: &dyn Reporter,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let path = folder.decision_lock();
    let mut lock = fd_lock::RwLock::new(open(&path)?);
    let polling = Polling::for_at_most(DECISION_DEADLINE);
    let mut said = false;
    loop {
        match lock.try_write() {
            Ok(_guard) => return work(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).doing(|| format!("could not lock {}", path.display())),
        }
        if !said {
            said = true;
            reporter.say(&format!(
                "redis: waiting for another leasehold process that starts or stops the server in {}",
                folder.path().display()
            ));
        }
        if !polling.again() {
            return Err(Error::Busy { folder: folder.path().to_owned() });
        }
    }
}

/// Whether a server lives on `folder`.
pub(super) fn is_server_alive(folder: &Folder) -> Result<bool, Error> {
    let path = folder.life_lock();
    match File::open(&path) {
        // The lock ends with the file at the end of this expression.
        Ok(file) => is_free(&file, &path).map(|free| !free),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).doing(|| format!("could not open {}", path.display())),
    }
}

/// Whether the server of `folder` has gone within `limit`.
pub(super) fn is_free_within(folder: &Folder, limit: Duration) -> Result<bool, Error> {
    let polling = Polling::for_at_most(limit);
    loop {
        if !is_server_alive(folder)? {
            return Ok(true);
        }
        if !polling.again() {
            return Ok(false);
        }
    }
}

/// Takes the life lock for a server that is about to be started with the returned file as its stdin. The lock
/// belongs to the open file, not to a process: it ends when the last copy of it is closed.
pub(super) fn claim_life(folder: &Folder) -> Result<File, Error> {
    let path = folder.life_lock();
    let file = open(&path)?;
    let polling = Polling::for_at_most(FORK_WINDOW);
    loop {
        if is_free(&file, &path)? {
            return Ok(file);
        }
        if !polling.again() {
            return Err(Error::Unresponsive { folder: folder.path().to_owned(), pid: None });
        }
    }
}

/// Tries to lock `file`.
fn is_free(file: &File, path: &Path) -> Result<bool, Error> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error).doing(|| format!("could not lock {}", path.display())),
    }
}

/// Opens a lock file, which is never written to.
fn open(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .doing(|| format!("could not open {}", path.display()))
}
