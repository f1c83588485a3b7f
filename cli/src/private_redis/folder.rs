//! What lies where in the data folder of a private server.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::error::{Doing as _, Error};
use super::resp::Address;

/// The longest socket path used. The kernel's limit is 104 bytes on macOS and 108 on Linux, its final NUL included.
const LONGEST_SOCKET_PATH: usize = 100;

/// A data folder that exists, by its canonical path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder at `path`, created for this user alone if it is missing.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let create = || {
            DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            fs::canonicalize(path)
        };
        let root = create().doing(|| format!("could not create the data folder {}", path.display()))?;
        Ok(Self { root })
    }

    /// The folder at `path`, or none if there is none.
    pub(super) fn existing(path: &Path) -> Result<Option<Self>, Error> {
        match fs::canonicalize(path) {
            Ok(root) => Ok(Some(Self { root })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).doing(|| format!("could not open the data folder {}", path.display())),
        }
    }

    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.root
    }

    /// The address of a server here, unless the socket's path would be too long and a port has to do.
    pub(super) fn unix_address(&self) -> Option<Address> {
        let socket = self.socket();
        (socket.as_os_str().as_bytes().len() <= LONGEST_SOCKET_PATH).then_some(Address::Unix(socket))
    }

    /// The socket of the server.
    pub(super) fn socket(&self) -> PathBuf {
        self.root.join("r.sock")
    }

    /// Locked by whoever starts or stops the server.
    pub(super) fn decision_lock(&self) -> PathBuf {
        self.root.join("redis.lock")
    }

    /// Locked by the server as long as it lives.
    pub(super) fn life_lock(&self) -> PathBuf {
        self.root.join("redis.alive")
    }

    /// Says how the server was started.
    pub(super) fn record(&self) -> PathBuf {
        self.root.join("redis.json")
    }

    /// The log of the server.
    pub(super) fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Removes what a server that is gone has left behind, but none of its data.
    pub(super) fn remove_traces(&self) -> Result<(), Error> {
        for path in [self.socket(), self.record()] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).doing(|| format!("could not remove {}", path.display()));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}
