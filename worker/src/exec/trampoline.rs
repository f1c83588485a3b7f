//! The trampoline: the process that becomes the command.
//!
//! It makes its own session, says that it is there, and waits. Only when the worker answers,
//! which it does once the guard has noted the session, it executes the command. A worker that
//! dies before leaves a trampoline that sees its socket close and ends. On success the socket
//! closes by the exec itself; on failure the reason is sent first.

use super::error::StartError;
use super::limits::Limits;
use super::program;
use crate::guard::hygiene;
use nix::errno::Errno;
use nix::sys::signal::SigSet;
use nix::unistd::{dup2_stdin, execve};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a trampoline says once it has its own session.
pub(super) const READY: u8 = b'R';

/// How long a program that is just being written is tried again.
const BUSY_WITHIN: Duration = Duration::from_secs(1);

/// What a trampoline is to become.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Script {
    pub(super) program: OsString,
    pub(super) argv: Vec<String>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) cwd: Option<OsString>,
    #[serde(with = "serde_bytes")]
    pub(super) stdin: Option<Vec<u8>>,
    pub(super) limits: Limits,
}

/// Runs the role; never returns.
pub(crate) fn run() -> ! {
    hygiene::close_inherited();
    let done = hygiene::stdin_socket().and_then(|socket| serve(&socket));
    std::process::exit(i32::from(done.is_err()))
}

fn serve(mut socket: &UnixStream) -> std::io::Result<()> {
    nix::unistd::setsid()?;
    socket.write_all(&[READY])?;
    let mut length = [0; 8];
    if socket.read_exact(&mut length).is_err() {
        // The worker is gone, or has thought better of it.
        return Ok(());
    }
    let mut message = Vec::new();
    socket.take(u64::from_be_bytes(length)).read_to_end(&mut message)?;
    let Err(error) = rmp_serde::from_slice::<Script>(&message)
        .map_err(|error| StartError::Trampoline { reason: error.to_string() })
        .and_then(|script| {
            drop(message);
            become_command(script)
        });
    let report = rmp_serde::to_vec(&error).map_err(std::io::Error::other)?;
    socket.write_all(&report)
}

fn become_command(script: Script) -> Result<Infallible, StartError> {
    if let Some(cwd) = script.cwd.as_ref().map(Path::new) {
        std::env::set_current_dir(cwd).map_err(|error| program::explain_cwd(cwd, &error))?;
    }
    let trouble = |what: &str, reason: String| StartError::Trampoline { reason: format!("{what}: {reason}") };
    let input = match script.stdin {
        Some(bytes) => input_file(&bytes),
        None => File::open("/dev/null"),
    };
    let input = input.map_err(|error| trouble("standard input", error.to_string()))?;
    dup2_stdin(&input).map_err(|errno| trouble("standard input", errno.desc().to_owned()))?;
    drop(input);
    let file = PathBuf::from(script.program);
    let nul = |_| StartError::Nul { what: "the command".to_owned() };
    let argv: Vec<CString> =
        script.argv.into_iter().map(CString::new).collect::<Result<_, _>>().map_err(nul)?;
    let env: Vec<CString> = script
        .env
        .iter()
        .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect::<Result<_, _>>()
        .map_err(nul)?;
    let path = CString::new(OsStr::as_bytes(file.as_os_str())).map_err(nul)?;
    hygiene::unignore(None);
    let _ = SigSet::empty().thread_set_mask();
    // Last, so that they limit the command and not what prepares it.
    script.limits.apply()?;
    let deadline = Instant::now() + BUSY_WITHIN;
    loop {
        let Err(errno) = execve(&path, &argv, &env);
        if errno == Errno::ETXTBSY && Instant::now() < deadline {
            hygiene::pause(Duration::from_millis(20));
            continue;
        }
        let bytes = argv.iter().chain(&env).map(|text| text.as_bytes_with_nul().len() as u64).sum();
        return Err(program::explain_exec(&file, errno, bytes));
    }
}

/// Standard input as a file without a name: the command reads it at its own pace, and nobody
/// has to stand by and write.
fn input_file(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = nameless()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

fn nameless() -> std::io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        if let Ok(fd) = memfd_create(c"stdin", MFdFlags::MFD_CLOEXEC) {
            return Ok(File::from(fd));
        }
    }
    let path = std::env::temp_dir().join(format!("leasehold-stdin-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
