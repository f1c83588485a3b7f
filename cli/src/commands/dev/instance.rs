//! One `leasehold dev` per folder: a lock that lives as long as its process, and names it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Failure, Result};

/// How long one may drain before it is asked a second time, and how long the second time may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// The pause between two looks at the lock.
const PAUSE: Duration = Duration::from_millis(50);

/// The right to be the one `dev` of a folder.
#[derive(Debug)]
pub(super) struct Instance {
    /// Locked as long as this value lives.
    _lock: File,
}

fn path(folder: &Path) -> PathBuf {
    folder.join("dev.lock")
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(format!("cannot lock {}", path.display()), error)
}

impl Instance {
    /// Takes it.
    pub(super) fn claim(folder: &Path) -> Result<Self> {
        let path = path(folder);
        let open = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)
        };
        let mut lock = open().map_err(|error| failed(&path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::failed("leasehold dev runs in this folder already")
                    .hint("use it from here: other commands find it; `leasehold dev stop` ends it"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&path, &error)),
        }
        let named = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
        named.map_err(|error| failed(&path, &error))?;
        Ok(Self { _lock: lock })
    }

    /// Asks the one that lives in `folder` to end, and waits for it; its pid, if there was one.
    pub(super) async fn end(folder: &Path) -> Result<Option<i32>> {
        let path = path(folder);
        let Ok(mut lock) = File::open(&path) else { return Ok(None) };
        for _ in 0..2 {
            let Some(pid) = living(&mut lock) else { return Ok(None) };
            // It may have ended in this moment.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            let ended = async {
                while living(&mut lock).is_some() {
                    tokio::time::sleep(PAUSE).await;
                }
            };
            if tokio::time::timeout(PATIENCE, ended).await.is_ok() {
                return Ok(Some(pid));
            }
        }
        Err(Failure::failed("leasehold dev does not end").hint("look at its terminal"))
    }
}

/// The pid in the lock, if its process lives.
fn living(lock: &mut File) -> Option<i32> {
    if lock.try_lock_shared().is_ok() {
        let _ = lock.unlock();
        return None;
    }
    let mut text = String::new();
    lock.rewind().and_then(|()| lock.read_to_string(&mut text)).ok()?;
    text.trim().parse().ok().filter(|pid| *pid > 1)
}

#[cfg(test)]
mod tests {
    use super::Instance;

    #[tokio::test]
    async fn there_is_one_per_folder() {
        let dir = tempfile::tempdir().unwrap();
        let first = Instance::claim(dir.path()).unwrap();
        let second = Instance::claim(dir.path()).unwrap_err();
        assert!(second.text().contains("dev stop"), "{}", second.text());
        drop(first);
        assert_eq!(Instance::end(dir.path()).await.unwrap(), None);
        Instance::claim(dir.path()).unwrap();
    }
}
