//! Finding a server binary, claiming a port, and starting the server until it answers.

use std::env;
use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::RedisServer;
use crate::eventually::eventually;

/// The server's log, inside its data folder.
pub(super) const LOG_FILE: &str = "redis.log";

/// Ports are drawn from here: below the range from which Linux takes the ports of outgoing connections, so
/// that no client's own port is in the way at a restart.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// How often another port is tried before giving up.
const TRIES: usize = 20;

/// Loading an append-only file after a restart is included.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Settings of a server that is about to start.
#[derive(Debug, Clone)]
pub struct RedisBuilder {
    binary: Option<PathBuf>,
    aof: Option<&'static str>,
    eviction: String,
    extra: Vec<String>,
}

impl Default for RedisBuilder {
    fn default() -> Self {
        Self { binary: None, aof: Some("everysec"), eviction: "noeviction".to_owned(), extra: Vec::new() }
    }
}

impl RedisBuilder {
    /// Another binary than the one found by default.
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// The append-only file is synced at each write, so that no acknowledged write is ever lost.
    #[must_use]
    pub fn aof_always(mut self) -> Self {
        self.aof = Some("always");
        self
    }

    /// No persistence at all: a restart forgets everything.
    #[must_use]
    pub fn no_persistence(mut self) -> Self {
        self.aof = None;
        self
    }

    /// `maxmemory-policy`, for tests of the doctor.
    #[must_use]
    pub fn eviction(mut self, policy: &str) -> Self {
        policy.clone_into(&mut self.eviction);
        self
    }

    /// Any other setting: `.config("maxmemory", "10mb")`.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.extra.extend([format!("--{name}"), value.to_owned()]);
        self
    }

    /// Starts the server and returns once it answers; panics with the server's log when it does not.
    pub fn start(self) -> RedisServer {
        let dir = tempfile::Builder::new().prefix("leasehold-redis-").tempdir().expect("a temporary folder");
        let mut problems = Vec::new();
        for _ in 0..TRIES {
            let (port, port_lock) = claim_port();
            match spawn_until_ready(&self, dir.path(), port) {
                Ok(child) => return RedisServer { settings: self, dir, port, _port_lock: port_lock, child },
                Err(problem) => problems.push(problem),
            }
        }
        panic!("no redis server would start after {TRIES} tries:\n{}", problems.join("\n"));
    }

    fn command(&self, dir: &Path, port: u16) -> Command {
        let mut command = Command::new(self.binary.clone().unwrap_or_else(find_binary));
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no", "--save", ""]);
        command.arg("--dir").arg(dir).args(["--logfile", LOG_FILE]);
        command.args(["--appendonly", if self.aof.is_some() { "yes" } else { "no" }]);
        command.args(["--appendfsync", self.aof.unwrap_or("no"), "--maxmemory-policy", &self.eviction]);
        command.args(["--enable-debug-command", "local"]).args(&self.extra);
        command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Starts the server on exactly this port and waits until it answers; `Err` when it ended by itself.
pub(super) fn spawn_until_ready(settings: &RedisBuilder, dir: &Path, port: u16) -> Result<Child, String> {
    let mut child = settings.command(dir, port).spawn().map_err(|error| format!("cannot start: {error}"))?;
    let started = Instant::now();
    let outcome = eventually("redis answers", READY_LIMIT * 2, || {
        if let Some(status) = child.try_wait().expect("wait for our own redis") {
            let log = std::fs::read_to_string(dir.join(LOG_FILE)).unwrap_or_default();
            return Ok(Err(format!("port {port}: {status}\n{}", last_lines(&log))));
        }
        match answering_pid(port) {
            Ok(pid) if pid == child.id() => Ok(Ok(())),
            Ok(pid) => Err(format!("port {port} belongs to the process {pid}")),
            Err(error) if started.elapsed() < READY_LIMIT => Err(error.to_string()),
            Err(error) => Ok(Err(format!("port {port}: no answer within {READY_LIMIT:?}: {error}"))),
        }
    });
    if outcome.is_err() {
        child.kill().ok();
        child.wait().ok();
    }
    outcome.map(|()| child)
}

/// PING (which fails while the server loads its data), then the pid of whoever answers.
fn answering_pid(port: u16) -> redis::RedisResult<u32> {
    let limit = Duration::from_millis(500);
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/"))?;
    let mut connection = client.get_connection_with_timeout(limit)?;
    connection.set_read_timeout(Some(limit))?;
    redis::cmd("PING").exec(&mut connection)?;
    let info: redis::InfoDict = redis::cmd("INFO").arg("server").query(&mut connection)?;
    Ok(info.get("process_id").unwrap_or(0))
}

/// A port that nobody listens on, with the lock that keeps other tests away from it.
fn claim_port() -> (u16, File) {
    let span = usize::from(PORTS.end - PORTS.start);
    let folder = env::temp_dir().join("leasehold-test-ports");
    std::fs::create_dir_all(&folder).expect("a folder for port locks");
    for _ in 0..span {
        let draw = uuid::Uuid::new_v4().as_u128() % span as u128;
        let port = PORTS.start + u16::try_from(draw).expect("below the span");
        let path = folder.join(port.to_string());
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let Ok(lock) = lock else { continue };
        if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return (port, lock);
        }
    }
    panic!("no free port in {PORTS:?}");
}

/// `$REDIS_SERVER`, else `redis-server`, else `valkey-server` from the PATH.
fn find_binary() -> PathBuf {
    if let Some(named) = env::var_os("REDIS_SERVER").filter(|value| !value.is_empty()) {
        let named = PathBuf::from(named);
        assert!(named.is_file(), "$REDIS_SERVER names {}, which is no file", named.display());
        return named;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    for name in ["redis-server", "valkey-server"] {
        if let Some(found) =
            env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
        {
            return found;
        }
    }
    panic!(
        "these tests need a real Redis (7.0 or later), and neither redis-server nor valkey-server is on the PATH. \
         Run `make redis`, or install the package redis-server, or point $REDIS_SERVER at a binary."
    );
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
