//! The private server against real servers and real processes.

mod locating;
mod servers;

use std::error::Error as StdError;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::{Address, Confirmation, Env, PrivateRedis, Reporter, resp, stop};

/// Tests end with `?` where the reason of a failure says enough.
type TestResult = Result<(), Box<dyn StdError>>;

/// Keeps what was said, and answers each question in the same way.
#[derive(Debug)]
struct Lines {
    said: Mutex<Vec<String>>,
    answer: Confirmation,
}

impl Lines {
    /// Nobody there to ask.
    fn new() -> Self {
        Self::answering(Confirmation::NoTerminal)
    }

    fn answering(answer: Confirmation) -> Self {
        Self { said: Mutex::new(Vec::new()), answer }
    }

    /// Everything said so far.
    fn text(&self) -> String {
        self.said.lock().map(|lines| lines.join("\n")).unwrap_or_default()
    }
}

impl Reporter for Lines {
    fn say(&self, line: &str) {
        if let Ok(mut said) = self.said.lock() {
            said.push(line.to_owned());
        }
    }

    fn confirm(&self, question: &str) -> Confirmation {
        self.say(question);
        self.answer
    }
}

/// A data folder whose server ends with the test, whatever the test does.
#[derive(Debug)]
struct DataFolder {
    path: PathBuf,
    _root: tempfile::TempDir,
}

impl DataFolder {
    fn new() -> std::io::Result<Self> {
        Self::named("data")
    }

    /// A folder at `name` below a temporary one.
    fn named(name: &str) -> std::io::Result<Self> {
        let root = tempfile::tempdir()?;
        Ok(Self { path: root.path().join(name), _root: root })
    }

    /// Joins or starts its server.
    fn start(&self) -> Result<PrivateRedis, super::Error> {
        PrivateRedis::start(&self.path, &installed(), &Lines::new())
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        if let Err(error) = stop(&self.path, &Lines::new()) {
            note(&format!("the server in {} was not ended: {error}", self.path.display()));
        }
    }
}

/// An environment in which only the server on `PATH` is found.
fn installed() -> Env {
    Env { path: std::env::var_os("PATH"), ..Env::default() }
}

/// One command to a server.
fn ask(redis: &PrivateRedis, command: &str) -> std::io::Result<String> {
    resp::ask(&redis.address, command)
}

/// Writes an executable script from another process: if this one held the file open for writing while some other
/// test forks, the script could not be executed ("text file busy").
fn write_script(path: &Path, text: &str) -> std::io::Result<()> {
    let status = Command::new("/bin/sh")
        .args(["-c", r#"printf '%s' "$2" > "$1" && chmod 755 "$1""#, "sh"])
        .arg(path)
        .arg(text)
        .status()?;
    if status.success() { Ok(()) } else { Err(std::io::Error::other(status.to_string())) }
}

/// Tells whoever reads the output of the tests why one of them did not do its work.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "note: {text}");
}

/// The port of an address that has one.
fn port_of(address: &Address) -> Option<u16> {
    match address {
        Address::Tcp(port) => Some(*port),
        Address::Unix(_) => None,
    }
}
