//! A server binary: where it is, where it came from, and what it says its version is.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::polling::Polling;
use super::version::{FLOOR, Version, parse_version_output};

/// How long `--version` may take; a wrapper that waits for something must not hang the start.
const VERSION_DEADLINE: Duration = Duration::from_secs(10);

/// Which step of the search found a binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `$REDIS_SERVER` named it.
    Variable,
    /// It was on `PATH`.
    Path,
    /// It was fetched with pip, now or earlier.
    Cache,
    /// The named package manager installed it, now or earlier.
    Package(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable => f.write_str("from $REDIS_SERVER"),
            Self::Path => f.write_str("on PATH"),
            Self::Cache => f.write_str("fetched with pip"),
            Self::Package(manager) => write!(f, "installed with {manager}"),
        }
    }
}

/// A server binary of an accepted version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerBinary {
    /// The absolute path.
    pub(crate) path: PathBuf,
    /// `Redis` or `Valkey`, as it calls itself.
    pub(crate) product: String,
    /// Its own version.
    pub(crate) version: Version,
    /// How it was found.
    pub(crate) origin: Origin,
}

impl ServerBinary {
    /// Asks the binary at `path` for its version; the error says why it cannot be used.
    pub(super) fn examine(path: &Path, origin: Origin) -> Result<Self, String> {
        let place = path.display();
        let output = version_output(path).map_err(|why| format!("{place} --version {why}"))?;
        let (product, version) = parse_version_output(&output)
            .ok_or_else(|| format!("{place} --version does not name a Redis or Valkey server"))?;
        if !version.meets_floor() {
            return Err(format!("{place} is {product} {version}, and Leasehold needs {FLOOR} or later"));
        }
        Ok(Self { path: path.to_owned(), product, version, origin })
    }
}

impl fmt::Display for ServerBinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}: {})", self.product, self.version, self.origin, self.path.display())
    }
}

/// What `path --version` prints; its few bytes fit into the pipe, so they are read after the end.
fn version_output(path: &Path) -> Result<String, String> {
    let mut child = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("did not start: {error}"))?;
    let polling = Polling::for_at_most(VERSION_DEADLINE);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if !polling.again() {
            // The child may have ended just now; then there is nothing to kill, and waiting is right.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("did not end within {} s", VERSION_DEADLINE.as_secs()));
        }
    };
    if !status.success() {
        return Err(format!("failed: {status}"));
    }
    let mut bytes = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        // Bounded: a version takes one line.
        stdout.take(4096).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
