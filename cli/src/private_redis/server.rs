//! The private server of one folder: joined if it runs, started if it does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::env::Env;
use super::error::{Doing as _, Error};
use super::folder::Folder;
use super::locate::locate_binary;
use super::lock;
use super::polling::Polling;
use super::process;
use super::record::Record;
use super::reporter::Reporter;
use super::resp::{self, Address, Greeting, ServerInfo};
use super::spawn::{Manner, spawn};
use super::stop::{Stopped, stop};

/// How long a living server may stay silent before it counts as unresponsive.
const JOIN_DEADLINE: Duration = Duration::from_secs(10);

/// A server that serves one folder and is ready.
///
/// Dropping it leaves the server running, for other processes may use it too; [`PrivateRedis::stop`] ends it for all.
#[derive(Debug)]
pub(crate) struct PrivateRedis {
    folder: Folder,
    pub(super) address: Address,
    info: ServerInfo,
    /// The binary and where it came from; none if another program has started the server.
    server: Option<String>,
    joined: bool,
    temporary: bool,
    /// The process, if this one is its parent and has to wait for it.
    pub(super) child: Option<Child>,
}

impl PrivateRedis {
    /// Joins the server of the folder `path`, or finds a binary and starts one. Blocks, at most for some seconds
    /// unless a server has to be fetched, installed, or has much data to read.
    pub(crate) fn start(path: &Path, env: &Env, reporter: &dyn Reporter) -> Result<Self, Error> {
        Self::start_for(path, Manner::Durable, env, reporter)
    }

    fn start_for(path: &Path, manner: Manner, env: &Env, reporter: &dyn Reporter) -> Result<Self, Error> {
        let folder = Folder::create(path)?;
        lock::exclusively(&folder, reporter, || {
            if let Some(joined) = Self::join(&folder, JOIN_DEADLINE)? {
                return Ok(joined);
            }
            let binary = locate_binary(env, reporter)?;
            reporter.say(&format!("redis: starting {binary} on {}", folder.path().display()));
            let spawned = spawn(&folder, &binary, manner, reporter)?;
            Ok(Self {
                address: spawned.address,
                info: spawned.info,
                server: Some(binary.to_string()),
                joined: false,
                temporary: false,
                child: Some(spawned.child),
                folder: folder.clone(),
            })
        })
    }

    /// [`PrivateRedis::start`] on a new folder that [`PrivateRedis::stop`] removes.
    pub(crate) fn start_temporary(manner: Manner, env: &Env, reporter: &dyn Reporter) -> Result<Self, Error> {
        let folder = tempfile::Builder::new()
            .prefix("leasehold-")
            .tempdir()
            .doing(|| String::from("could not create a temporary folder"))?;
        let mut redis = Self::start_for(folder.path(), manner, env, reporter)?;
        // From here on the folder must outlive a drop, as the server does.
        let _ = folder.keep();
        redis.temporary = true;
        Ok(redis)
    }

    /// The server that lives on `folder`, if there is one; an error if it lives but does not answer, because then a
    /// second one would corrupt its data.
    pub(super) fn join(folder: &Folder, deadline: Duration) -> Result<Option<Self>, Error> {
        let polling = Polling::for_at_most(deadline);
        loop {
            if !lock::is_server_alive(folder)? {
                return Self::join_stranger(folder);
            }
            let record = Record::read(folder);
            let pid = record.as_ref().map(|record| record.pid);
            if let Some(redis) = record.and_then(|record| Self::answering(folder, record)) {
                resp::check_server(&redis.address)?;
                return Ok(Some(redis));
            }
            if !polling.again() {
                return Err(Error::Unresponsive { folder: folder.path().to_owned(), pid });
            }
        }
    }

    /// The server of `record`, if it answers and is the recorded process.
    fn answering(folder: &Folder, record: Record) -> Option<Self> {
        let address = record.address(folder)?;
        let Ok(Greeting::Pong) = resp::ping(&address) else { return None };
        let info = resp::info(&address).ok().filter(|info| info.process_id == record.pid)?;
        Some(Self::joined_to(folder, address, info, Some(record.server)))
    }

    /// A server on the socket that does not hold the life lock, such as one started by hand.
    fn join_stranger(folder: &Folder) -> Result<Option<Self>, Error> {
        let Some(address) = folder.unix_address() else { return Ok(None) };
        let not_ours = |why: String| Err(Error::NotOurs { folder: folder.path().to_owned(), why });
        match resp::ping(&address) {
            Ok(Greeting::Pong) => {
                let info = resp::check_server(&address)?;
                Ok(Some(Self::joined_to(folder, address, info, None)))
            }
            Ok(Greeting::Loading) => {
                not_ours(String::from("a server that Leasehold did not start reads its data there"))
            }
            Ok(Greeting::Unexpected(answer)) => not_ours(format!("its socket answers `{answer}` to PING")),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => not_ours(format!("its socket is open but silent: {error}")),
        }
    }

    /// A server that was there already.
    fn joined_to(folder: &Folder, address: Address, info: ServerInfo, server: Option<String>) -> Self {
        Self { folder: folder.clone(), address, info, server, joined: true, temporary: false, child: None }
    }

    /// The URL to connect to, as the redis crate reads it: `redis+unix:///path` or `redis://127.0.0.1:port`.
    pub(crate) fn url(&self) -> String {
        self.address.url()
    }

    /// Whether the server ran already.
    pub(crate) fn joined(&self) -> bool {
        self.joined
    }

    /// What the server says about itself.
    pub(crate) fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// The data folder, by its canonical path.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// One line for people: version, where from, process, data folder.
    pub(crate) fn describe(&self) -> String {
        let itself = || format!("{} {} (started by another program)", self.info.product, self.info.version);
        format!(
            "{}, {}process {}, data in {}",
            self.server.clone().unwrap_or_else(itself),
            if self.joined { "already running, " } else { "" },
            self.info.process_id,
            self.folder.path().display()
        )
    }

    /// Ends the server for everyone who uses it, and waits until it is gone.
    pub(crate) fn stop(mut self, reporter: &dyn Reporter) -> Result<Stopped, Error> {
        let mut stopped = stop(self.folder.path(), reporter)?;
        if let Some(child) = &mut self.child {
            stopped = reap(child, stopped)?;
        }
        let path = self.folder.path();
        if self.temporary && path.exists() {
            fs::remove_dir_all(path).doing(|| format!("could not remove {}", path.display()))?;
        }
        Ok(stopped)
    }
}

/// Waits for our own child. It has ended, unless somebody removed its folder and so hid it from [`stop`].
fn reap(child: &mut Child, stopped: Stopped) -> Result<Stopped, Error> {
    let action = || String::from("could not wait for the server");
    if child.try_wait().doing(action)?.is_some() {
        return Ok(stopped);
    }
    process::send(child.id(), Signal::SIGTERM)?;
    let polling = Polling::for_at_most(JOIN_DEADLINE);
    while child.try_wait().doing(action)?.is_none() {
        if !polling.again() {
            child.kill().doing(action)?;
            child.wait().doing(action)?;
            return Ok(Stopped::Killed(child.id()));
        }
    }
    Ok(Stopped::Terminated(child.id()))
}

/// Whether nobody listens on a socket, as opposed to somebody who does not answer.
pub(super) fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused)
}
