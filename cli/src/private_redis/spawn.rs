//! Starting a server in a folder that has none, and waiting until it answers.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::binary::ServerBinary;
use super::error::{Doing as _, Error};
use super::folder::Folder;
use super::lock;
use super::polling::Polling;
use super::process;
use super::record::Record;
use super::reporter::{Reporter, printable};
use super::resp::{self, Address, Greeting, ServerInfo};

/// How long a server may stay silent after its start; reading its data does not count.
const START_DEADLINE: Duration = Duration::from_secs(10);

/// How long the kernel may take to end what was killed, if a wrapper had started it.
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// How many free ports are tried before giving up: another process may take one between our look and the bind.
const PORT_ATTEMPTS: usize = 5;

/// The port of a system-wide Redis, which a private one must never take.
const SYSTEM_PORT: u16 = 6379;

/// What a server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Work that must survive a crash: on a socket, with an append-only file.
    Durable,
    /// Measurements: on a port of 127.0.0.1, with nothing written to disk.
    Fleeting,
}

/// A server that answers, as its parent sees it.
#[derive(Debug)]
pub(super) struct Spawned {
    /// The process, to be waited for after it has ended.
    pub(super) child: Child,
    /// Where it listens.
    pub(super) address: Address,
    /// What it says about itself.
    pub(super) info: ServerInfo,
}

/// Why a start failed.
enum Failure {
    /// Another process has the port; try another one.
    PortTaken(Error),
    /// Anything else.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// Starts `binary` on `folder`. The caller holds the decision lock and knows that no server lives there.
pub(super) fn spawn(
    folder: &Folder,
    binary: &ServerBinary,
    manner: Manner,
    reporter: &dyn Reporter,
) -> Result<Spawned, Error> {
    let mut attempts = 1;
    loop {
        let address = match (folder.unix_address(), manner) {
            (Some(address), Manner::Durable) => address,
            (None, _) | (_, Manner::Fleeting) => Address::Tcp(free_port()?),
        };
        match spawn_at(folder, binary, manner, address, reporter) {
            Ok(spawned) => return Ok(spawned),
            Err(Failure::PortTaken(_)) if attempts < PORT_ATTEMPTS => attempts += 1,
            Err(Failure::PortTaken(error) | Failure::Final(error)) => return Err(error),
        }
    }
}

/// One attempt of [`spawn`]. A server that does not become usable is killed before the error is returned.
fn spawn_at(
    folder: &Folder,
    binary: &ServerBinary,
    manner: Manner,
    address: Address,
    reporter: &dyn Reporter,
) -> Result<Spawned, Failure> {
    folder.remove_traces()?;
    let life = lock::claim_life(folder)?;
    let (log, log_start) = open_log(folder)?;
    let arguments = arguments(folder, &address, manner);
    let mut child = start_process(folder, binary, &arguments, life, &log)?;
    let pid = child.id();
    let command = std::iter::once(binary.path.as_os_str())
        .chain(arguments.iter().map(OsString::as_os_str))
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let ready = Record::new(pid, &address, binary, command)
        .write(folder)
        .map_err(Failure::Final)
        .and_then(|()| Start { folder, binary, log_start }.wait(&mut child, &address, reporter));
    match ready {
        Ok(info) => Ok(Spawned { child, address, info }),
        Err(failure) => {
            // The first failure is the one to report; these only tidy up.
            let _ = process::send_to_group(pid, Signal::SIGKILL);
            let _ = child.wait();
            let _ = lock::is_free_within(folder, KILL_DEADLINE);
            let _ = folder.remove_traces();
            Err(failure)
        }
    }
}

/// Starts the process, in a group of its own: Ctrl-C must not end Redis before the workers have drained.
fn start_process(
    folder: &Folder,
    binary: &ServerBinary,
    arguments: &[OsString],
    life: File,
    log: &File,
) -> Result<Child, Error> {
    let action = || format!("could not start {}", binary.path.display());
    let output = || log.try_clone().map(Stdio::from).doing(action);
    // The command, and with it our copy of the life lock, ends with this function.
    Command::new(&binary.path)
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::from(life))
        .stdout(output()?)
        .stderr(output()?)
        .process_group(0)
        .spawn()
        .doing(action)
}

/// The command line of a private server.
fn arguments(folder: &Folder, address: &Address, manner: Manner) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = match address {
        Address::Unix(socket) => vec![
            "--port".into(),
            "0".into(),
            "--unixsocket".into(),
            socket.into(),
            "--unixsocketperm".into(),
            "700".into(),
        ],
        Address::Tcp(port) => {
            vec!["--bind".into(), "127.0.0.1".into(), "--port".into(), port.to_string().into()]
        }
    };
    arguments.extend(["--dir".into(), folder.path().into(), "--logfile".into(), folder.log().into()]);
    let appendonly = match manner {
        Manner::Durable => "yes",
        Manner::Fleeting => "no",
    };
    arguments.extend(
        [
            "--appendonly",
            appendonly,
            "--appendfsync",
            "everysec",
            "--save",
            "",
            "--maxmemory-policy",
            "noeviction",
        ]
        .map(OsString::from),
    );
    arguments
}

/// A start that is under way.
struct Start<'a> {
    folder: &'a Folder,
    binary: &'a ServerBinary,
    /// Where this start begins in the log.
    log_start: u64,
}

impl Start<'_> {
    /// Waits until the server answers, and checks that it is the one that was started.
    fn wait(
        &self,
        child: &mut Child,
        address: &Address,
        reporter: &dyn Reporter,
    ) -> Result<ServerInfo, Failure> {
        let mut polling = Polling::for_at_most(START_DEADLINE);
        let mut said = false;
        loop {
            if let Some(status) = child.try_wait().doing(|| String::from("could not wait for the server"))? {
                let error = self.failed(format!("it ended at once ({status})"));
                let taken = matches!(address, Address::Tcp(_)) && self.log_tail().contains("already in use");
                return Err(if taken { Failure::PortTaken(error) } else { Failure::Final(error) });
            }
            match resp::ping(address) {
                Ok(Greeting::Pong) => break,
                Ok(Greeting::Loading) => {
                    polling.restart();
                    if !said {
                        said = true;
                        reporter.say("redis: the server reads its data");
                    }
                }
                Ok(Greeting::Unexpected(_)) | Err(_) => {}
            }
            if !polling.again() {
                let why = format!("it did not answer within {} s", START_DEADLINE.as_secs());
                return Err(self.failed(why).into());
            }
        }
        let info = resp::check_server(address)?;
        if info.process_id == child.id() {
            return Ok(info);
        }
        Err(match address {
            Address::Tcp(_) => Failure::PortTaken(self.failed(String::from("another server has its port"))),
            Address::Unix(_) => Failure::Final(self.failed(format!(
                "it runs the server as process {} instead of becoming it: let the wrapper use exec, or set \
                 REDIS_SERVER to the server itself",
                info.process_id
            ))),
        })
    }

    /// The error for a server that did not become usable.
    fn failed(&self, why: String) -> Error {
        let tail = self.log_tail();
        let log = if tail.is_empty() {
            format!("; {} holds no line about it", self.folder.log().display())
        } else {
            format!("; the end of {}:\n{tail}", self.folder.log().display())
        };
        let folder = self.folder.path().to_owned();
        Error::NotStarted { server: self.binary.to_string(), folder, why, log }
    }

    /// The last lines that this start has logged.
    fn log_tail(&self) -> String {
        const LINES: usize = 12;
        const BYTES: u64 = 4096;
        let read = || {
            let mut file = File::open(self.folder.log())?;
            let from = file.metadata()?.len().saturating_sub(BYTES).max(self.log_start);
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.take(BYTES).read_to_end(&mut bytes)?;
            std::io::Result::Ok(bytes)
        };
        // Without a log the error says so; that it could not be read changes nothing for its reader.
        let text = printable(&String::from_utf8_lossy(&read().unwrap_or_default()));
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

/// Opens the log for appending and says how long it is. The server writes it by itself; what it says before it has
/// read its options comes here through stdout and stderr.
fn open_log(folder: &Folder) -> Result<(File, u64), Error> {
    let path = folder.log();
    let open = || {
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        let length = file.metadata()?.len();
        std::io::Result::Ok((file, length))
    };
    open().doing(|| format!("could not open {}", path.display()))
}

/// A port of 127.0.0.1 that was free a moment ago.
fn free_port() -> Result<u16, Error> {
    let find = || {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = first.local_addr()?.port();
        if port != SYSTEM_PORT {
            return Ok(port);
        }
        // The first listener still has its port, so the second gets another one.
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|address| address.port())
    };
    find().doing(|| String::from("could not find a free port on 127.0.0.1"))
}
