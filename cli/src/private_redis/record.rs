//! `redis.json`: which process serves the folder and how it was started, so that it can be joined and ended later.

use std::fs;
use std::io::Write as _;

use serde::{Deserialize, Serialize};

use super::binary::ServerBinary;
use super::error::{Doing as _, Error};
use super::folder::Folder;
use super::process;
use super::resp::Address;

/// How a private server was started. Written by whoever starts it, under the decision lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The process of the server.
    pub(super) pid: u32,
    /// Its start time as in `/proc/<pid>/stat`, where there is one.
    pub(super) started: Option<u64>,
    /// The port of 127.0.0.1 it listens on, or none for the socket in the folder.
    pub(super) port: Option<u16>,
    /// The binary, its version and where it came from, for people.
    pub(super) server: String,
    /// The command line, for people.
    pub(super) command: Vec<String>,
}

impl Record {
    /// Describes the process `pid`, which was just started.
    pub(super) fn new(pid: u32, address: &Address, binary: &ServerBinary, command: Vec<String>) -> Self {
        let port = match address {
            Address::Unix(_) => None,
            Address::Tcp(port) => Some(*port),
        };
        Self { pid, started: process::started(pid), port, server: binary.to_string(), command }
    }

    /// The record in `folder`; none if it is missing or cannot be read, which a newer version's may not.
    pub(super) fn read(folder: &Folder) -> Option<Self> {
        let bytes = fs::read(folder.record()).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Writes the record in one step, so that no reader sees half of it.
    pub(super) fn write(&self, folder: &Folder) -> Result<(), Error> {
        let path = folder.record();
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(folder.path())?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.persist(&path).map_err(|error| error.error)?;
            std::io::Result::Ok(())
        };
        write().doing(|| format!("could not write {}", path.display()))
    }

    /// Where the server listens.
    pub(super) fn address(&self, folder: &Folder) -> Option<Address> {
        self.port.map(Address::Tcp).or_else(|| folder.unix_address())
    }
}
