//! A private Redis per test: own port, own folder, killed with the value.
//!
//! The server is `$REDIS_SERVER`, else `redis-server`, else `valkey-server` from the PATH. Tests run in parallel,
//! one process each, so ports are claimed by a lock file that lives as long as the server value, and a server
//! counts as ours only when it reports the pid of our child.

mod inspect;
mod launch;

pub use inspect::{ClientInfo, CommandStat};
pub use launch::RedisBuilder;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use nix::sys::signal::Signal;
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use crate::eventually::eventually;
use crate::procfs;

/// How long a signal may take to show in the process table.
const SIGNAL_LIMIT: Duration = Duration::from_secs(10);

/// Anything that a client can be pointed at: the server itself, a proxy before it, a URL.
pub trait RedisUrl {
    /// The URL to give to a client.
    fn redis_url(&self) -> String;
}

impl RedisUrl for str {
    fn redis_url(&self) -> String {
        self.to_owned()
    }
}

impl RedisUrl for RedisServer {
    fn redis_url(&self) -> String {
        self.url()
    }
}

/// A running (or paused, or killed) server with its data folder.
#[derive(Debug)]
pub struct RedisServer {
    settings: RedisBuilder,
    dir: TempDir,
    port: u16,
    /// Held for as long as the port is ours, also while the server is down.
    _port_lock: File,
    child: Child,
}

impl RedisServer {
    /// A server as Leasehold wants one: AOF every second, noeviction.
    pub fn start() -> Self {
        RedisBuilder::default().start()
    }

    /// A server with other settings.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// `redis://127.0.0.1:<port>/`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The port on 127.0.0.1, the same after each restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The pid of the server process started last.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid fits")
    }

    /// What the server wrote to its log, over all starts.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join(launch::LOG_FILE)).unwrap_or_default()
    }

    /// SIGSTOP: the server keeps its connections and answers nobody.
    pub fn pause(&self) {
        procfs::signal(self.pid(), Signal::SIGSTOP);
        self.wait_for_state("redis is stopped", |state| state == Some('T'));
    }

    /// SIGCONT after [`pause`](Self::pause).
    pub fn resume(&self) {
        procfs::signal(self.pid(), Signal::SIGCONT);
        self.wait_for_state("redis goes on", |state| state != Some('T'));
    }

    /// SIGKILL, also of a paused server. The data folder stays for [`restart`](Self::restart).
    pub fn kill(&mut self) {
        self.child.kill().expect("SIGKILL to our own redis");
        self.child.wait().expect("wait for our own redis");
    }

    /// SIGTERM: an orderly shutdown that loses nothing.
    pub fn terminate(&mut self) -> ExitStatus {
        procfs::signal(self.pid(), Signal::SIGTERM);
        let limit = Duration::from_secs(30);
        eventually("redis shuts down", limit, || {
            self.child.try_wait().expect("wait for our own redis").ok_or("still running")
        })
    }

    /// Kills the server if it runs, and starts it on the same port and data folder; returns once it answers.
    pub fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Like [`restart`](Self::restart), but with an empty dataset.
    pub fn restart_empty(&mut self) {
        self.kill();
        fs::remove_dir_all(self.dir.path().join("appendonlydir")).ok();
        fs::remove_file(self.dir.path().join("dump.rdb")).ok();
        self.start_again();
    }

    /// Starts a server that was killed or terminated, on the same port and data folder.
    pub fn start_again(&mut self) {
        self.child = launch::spawn_until_ready(&self.settings, self.dir.path(), self.port)
            .unwrap_or_else(|problem| panic!("redis did not come back on port {}: {problem}", self.port));
    }

    /// A blocking connection.
    pub fn connection(&self) -> redis::Connection {
        self.client().get_connection().expect("connect to our own redis")
    }

    /// An async connection, shared by its clones.
    pub async fn async_connection(&self) -> MultiplexedConnection {
        self.client().get_multiplexed_async_connection().await.expect("connect to our own redis")
    }

    /// Runs one command on a connection of its own; panics on an error answer.
    pub fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_command(words).unwrap_or_else(|error| panic!("redis refused {words:?}: {error}"))
    }

    /// Runs one command on a connection of its own.
    pub fn try_command<T: FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let (name, arguments) = words.split_first().expect("a command has a name");
        redis::cmd(name).arg(arguments).query(&mut self.connection())
    }

    /// Runs one command and renders the answer as `redis-cli` does on a pipe: one element a line, nil empty.
    pub fn cli(&self, words: &[&str]) -> String {
        inspect::render(&self.command(words))
    }

    fn client(&self) -> redis::Client {
        redis::Client::open(self.url()).expect("our own URL is valid")
    }

    #[track_caller]
    fn wait_for_state(&self, what: &str, wanted: impl Fn(Option<char>) -> bool) {
        eventually(what, SIGNAL_LIMIT, || {
            let state = procfs::state(self.pid());
            if wanted(state) { Ok(()) } else { Err(format!("state {state:?}")) }
        });
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // SIGKILL ends a stopped process too; both fail only when it is gone already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
