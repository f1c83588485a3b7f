//! The processes of the demo as their parent holds them: started, killed, terminated, and never left behind.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use leasehold_common::name::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::processes::{self, MARK_VARIABLE, Watched};
use crate::error::{Failure, Result};

/// How long a process may take to end after SIGTERM: a worker's drain, its last words, and some slack.
const END_LIMIT: Duration = Duration::from_secs(20);

/// How long guards may take to end what a killed worker had started, before the demo does it.
const GUARD_LIMIT: Duration = Duration::from_secs(5);

/// Lines of a process's log that are shown when it failed.
const TAIL: usize = 8;

/// One process.
#[derive(Debug)]
struct Member {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

/// The processes of one demo.
#[derive(Debug)]
pub(super) struct Crew {
    url: String,
    namespace: Namespace,
    mark: String,
    logs: PathBuf,
    /// Folders that the first process, the reaper, removes if this one is killed.
    passing: Vec<PathBuf>,
    members: Vec<Member>,
}

impl Crew {
    /// No process yet; their logs will lie in `logs`. The first one started inherits the folders in `passing`.
    pub(super) fn new(url: String, namespace: Namespace, logs: PathBuf, passing: Vec<PathBuf>) -> Self {
        let own = format!("{namespace}-{}", uuid::Uuid::new_v4().simple());
        // A demo that is itself part of a run stays findable for that run's guard.
        let mark = match std::env::var(MARK_VARIABLE) {
            Ok(outer) if !outer.is_empty() => format!("{outer}.{own}"),
            _ => own,
        };
        Self { url, namespace, mark, logs, passing, members: Vec::new() }
    }

    /// Starts this same binary in a role, in a process group of its own: a Ctrl-C is for the demo alone, which
    /// ends them in order. Each holds the other end of a pipe and ends when the demo is gone.
    pub(super) fn start(&mut self, name: &str, role: &str) -> Result<()> {
        let action = format!("cannot start {name}");
        let log = self.logs.join(format!("{name}.log"));
        let output = File::create(&log).map_err(|error| Failure::io(&action, &error))?;
        let mut command = Command::new(own_binary().map_err(|error| Failure::io(&action, &error))?);
        command
            .args(["demo", "--log-format", "text", "-v", "--role", role])
            .env("LEASEHOLD_REDIS_URL", &self.url)
            .env("LEASEHOLD_NAMESPACE", self.namespace.as_str())
            .env(MARK_VARIABLE, &self.mark)
            .env_remove("REDIS_URL")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(output)
            .process_group(0);
        for folder in self.passing.drain(..) {
            command.arg("--inherit").arg(folder);
        }
        let child = command.spawn().map_err(|error| Failure::io(&action, &error))?;
        self.members.push(Member { name: name.to_owned(), child, log, ended: None });
        Ok(())
    }

    /// The process id of a member.
    pub(super) fn pid(&self, name: &str) -> Option<u32> {
        self.members.iter().find(|member| member.name == name).map(|member| member.child.id())
    }

    /// SIGKILL to one of them, and its end.
    pub(super) fn kill(&mut self, name: &str) -> Result<()> {
        let member = self.member(name)?;
        member.kill().map_err(|error| Failure::io(format!("cannot kill {name}"), &error))
    }

    /// SIGSTOP to one of them, until [`Self::thaw`]. Its guard and its commands are processes of their own.
    pub(super) fn freeze(&mut self, name: &str) -> Result<()> {
        self.member(name)?.signal("freeze", Signal::SIGSTOP)
    }

    /// SIGCONT to one of them.
    pub(super) fn thaw(&mut self, name: &str) -> Result<()> {
        self.member(name)?.signal("thaw", Signal::SIGCONT)
    }

    /// The first line of a member's log in which all of `parts` stand.
    pub(super) fn logged(&self, name: &str, parts: &[&str]) -> Option<String> {
        let member = self.members.iter().find(|member| member.name == name)?;
        let log = fs::read(&member.log).ok()?;
        let text = String::from_utf8_lossy(&log);
        text.lines().find(|line| parts.iter().all(|part| line.contains(part))).map(str::to_owned)
    }

    /// SIGTERM to one of them, and its orderly end: anything else is a failure that shows its log.
    pub(super) async fn terminate(&mut self, name: &str) -> Result<()> {
        let member = self.member(name)?;
        if member.ended.is_some() {
            return Ok(());
        }
        if let Some(status) = member.look() {
            return Err(member.failure(&format!("ended by itself ({status})")));
        }
        member.signal("stop", Signal::SIGTERM)?;
        let begun = tokio::time::Instant::now();
        loop {
            match member.look() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(member.failure(&format!("ended badly ({status})"))),
                None if begun.elapsed() >= END_LIMIT => {
                    let failure = member.failure(&format!("did not end within {} s", END_LIMIT.as_secs()));
                    return Err(failure);
                }
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Fails if a process has ended by itself.
    pub(super) fn check(&mut self) -> Result<()> {
        for member in &mut self.members {
            if member.ended.is_none()
                && let Some(status) = member.look()
            {
                return Err(member.failure(&format!("ended by itself ({status})")));
            }
        }
        Ok(())
    }

    /// Terminates all that are left, the last started first. What fails is told; the others are ended all the same.
    pub(super) async fn dismiss(&mut self) -> Vec<String> {
        let names: Vec<String> = self.members.iter().rev().map(|member| member.name.clone()).collect();
        let mut problems = Vec::new();
        for name in names {
            if let Err(failure) = self.terminate(&name).await {
                problems.push(failure.text());
            }
        }
        problems
    }

    /// Kills what is left, then whatever the guards did not end in time. Returns what had to be killed beside the
    /// members themselves.
    pub(super) async fn clear(&mut self) -> Vec<Watched> {
        for member in &mut self.members {
            // It is our own child: it can only be gone already.
            let _ = member.kill();
        }
        let left = processes::unmarked(&self.mark, GUARD_LIMIT).await;
        left.iter().copied().for_each(processes::end);
        left
    }

    fn member(&mut self, name: &str) -> Result<&mut Member> {
        let member = self.members.iter_mut().find(|member| member.name == name);
        member.ok_or_else(|| Failure::failed(format!("{name} is no process of this demo")))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Reached with living members after a panic only; their guards end their commands.
        for member in &mut self.members {
            let _ = member.kill();
        }
    }
}

impl Member {
    /// How it ended, if it has.
    fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // An error says that somebody else has waited for it: it is gone.
            self.ended = self.child.try_wait().unwrap_or_else(|_| Some(ExitStatus::from_raw(0)));
        }
        self.ended
    }

    /// A signal to a child that nobody has waited for: its number is still its own.
    fn signal(&mut self, action: &str, signal: Signal) -> Result<()> {
        if let Some(status) = self.look() {
            return Err(self.failure(&format!("ended by itself ({status})")));
        }
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        kill(pid, signal)
            .map_err(|error| Failure::io(format!("cannot {action} {}", self.name), &error.into()))
    }

    fn kill(&mut self) -> std::io::Result<()> {
        if self.look().is_none() {
            self.child.kill()?;
            self.ended = Some(self.child.wait()?);
        }
        Ok(())
    }

    fn failure(&self, what: &str) -> Failure {
        let failure = Failure::failed(format!("{} {what}", self.name));
        match tail(&self.log) {
            text if text.is_empty() => failure.hint("its log is empty: was it killed from outside?"),
            text => failure.hint(format!("the end of its log:\n{text}")),
        }
    }
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

/// The running binary, also when its file was replaced meanwhile.
fn own_binary() -> std::io::Result<OsString> {
    let live = Path::new("/proc/self/exe");
    if live.exists() { Ok(live.into()) } else { Ok(std::env::current_exe()?.into()) }
}
