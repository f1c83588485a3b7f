//! Starting a command: trampoline, guard, then the go.

use super::environment;
use super::error::StartError;
use super::limits::Limits;
use super::policy::ExecPolicy;
use super::program;
use super::running::{Run, RunControl, RunningCommand};
use super::spec::{CommandSpec, Stream, validate_variables};
use super::trampoline::{READY, Script};
use crate::guard::procs::{Proc, Target};
use crate::guard::signals::Hunt;
use crate::guard::{self, BootInstant, Guard, GuardError, RunKey};
use leasehold_common::name::Incarnation;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How long trampoline and worker wait for a word of each other.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(30);

/// How long a start waits for a guard that is just being started again.
const GUARD_WITHIN: Duration = Duration::from_secs(5);

/// How long a failed start may take to clear away.
const CLEAR_WITHIN: Duration = Duration::from_secs(5);

/// Takes output as it arrives, on the run's own thread. It must not block for long: what it
/// does not take, the command waits to write. See [`OutputBuffer::sink`](super::OutputBuffer::sink).
pub type OutputSink = Arc<dyn Fn(Stream, &[u8]) + Send + Sync>;

/// Everything a start needs.
#[derive(Clone)]
pub struct Launch {
    /// What to run.
    pub spec: CommandSpec,
    /// Variables of the run (`LEASEHOLD_TASK_ID` and so on); they win over the command's.
    pub env: BTreeMap<String, String>,
    /// Whose run it is: every process of it is marked so.
    pub incarnation: Incarnation,
    /// Whether it may run.
    pub policy: Arc<ExecPolicy>,
    /// Limits the system enforces.
    pub limits: Limits,
    /// When the run's lease ends: lease + the moment before the claim was sent.
    pub lease_until: BootInstant,
    /// Cancelled when the command is not to start any more; later it changes nothing.
    pub given_up: CancellationToken,
    /// Where output goes.
    pub sink: OutputSink,
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch").field("program", &self.spec.argv.first()).finish_non_exhaustive()
    }
}

/// Starts a command. Returns when it executes, or with the reason why it does not.
///
/// Dropping the future ends what was started.
///
/// # Errors
/// See [`StartError`]; nothing of the command is left then.
pub async fn start(guard: &Guard, launch: Launch) -> Result<RunningCommand, StartError> {
    let guard = guard.clone();
    let (reply, answer) = oneshot::channel();
    std::thread::Builder::new()
        .name("leasehold-run".to_owned())
        .stack_size(256 * 1024)
        .spawn(move || conduct(&guard, launch, reply))
        .map_err(|error| exhausted(&error))?;
    answer
        .await
        .unwrap_or_else(|_| Err(StartError::Trampoline { reason: "the run's thread panicked".to_owned() }))
}

/// The life of a run, on its own thread.
fn conduct(guard: &Guard, launch: Launch, reply: oneshot::Sender<Result<RunningCommand, StartError>>) {
    let started = execute(guard, &launch);
    // What it was started with, a large input among it, is not kept while it runs.
    let Launch { sink, .. } = launch;
    match started {
        Err(error) => {
            let _ = reply.send(Err(error));
        }
        Ok((run, child)) => {
            let control = RunControl(Arc::clone(&run));
            // When nobody waits any more, what is sent comes back and is dropped, which kills
            // the run; what follows cleans up after it.
            drop(reply.send(Ok(RunningCommand::new(control))));
            run.supervise(child, &sink);
        }
    }
}

/// A trampoline on its way to become the command; cleared away when that fails.
struct Nascent {
    child: Option<Child>,
    target: Target,
    guard: Guard,
    key: Option<RunKey>,
}

impl Drop for Nascent {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            Hunt::new(vec![self.target.clone()]).kill(CLEAR_WITHIN);
            // Also when it has not even made its session yet.
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(key) = self.key.take() {
            self.guard.forget(key);
        }
    }
}

fn execute(guard: &Guard, launch: &Launch) -> Result<(Arc<Run>, Child), StartError> {
    let token = environment::new_token(&launch.incarnation);
    let script = prepare(launch, &token)?;
    let message = rmp_serde::to_vec(&script).map_err(|error| broken("message", &error))?;
    drop(script);
    let (mut ours, theirs) = UnixStream::pair().map_err(|error| exhausted(&error))?;
    ours.set_read_timeout(Some(HANDSHAKE_WITHIN)).map_err(|error| broken("socket", &error))?;
    ours.set_write_timeout(Some(HANDSHAKE_WITHIN)).map_err(|error| broken("socket", &error))?;
    let mut command = guard::trampoline_command().ok_or(StartError::NotInitialised)?;
    let child = command
        .env(guard::procs::TOKEN_ENV, &token)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| exhausted(&error))?;
    // Its end of the socket must be open in the trampoline alone.
    drop(command);
    let leader = i32::try_from(child.id()).map_err(|error| broken("process id", &error))?;
    let leader_start = Proc::read(leader).map_or(0, |proc| proc.start);
    let target = Target { leader, leader_start, token };
    let mut nascent = Nascent { child: Some(child), target: target.clone(), guard: guard.clone(), key: None };
    let mut ready = [0];
    ours.read_exact(&mut ready).map_err(|error| broken("no word from the trampoline", &error))?;
    if ready != [READY] {
        return Err(broken("trampoline", &"strange answer"));
    }
    let key = guard.watch(target.clone(), launch.lease_until, GUARD_WITHIN).map_err(|error| match error {
        GuardError::NotInitialised => StartError::NotInitialised,
        GuardError::Down | GuardError::Start(_) => StartError::GuardDown,
    })?;
    nascent.key = Some(key);
    if launch.lease_until <= BootInstant::now() {
        return Err(StartError::LeaseOver);
    }
    if launch.given_up.is_cancelled() {
        return Err(StartError::GivenUp);
    }
    ours.write_all(&(message.len() as u64).to_be_bytes())
        .and_then(|()| ours.write_all(&message))
        .map_err(|error| broken("the trampoline does not listen", &error))?;
    drop(message);
    // Closed by the exec; a report means that there was none.
    let mut report = Vec::new();
    ours.read_to_end(&mut report).map_err(|error| broken("no word from the trampoline", &error))?;
    if !report.is_empty() {
        let error = rmp_serde::from_slice(&report);
        return Err(error.unwrap_or_else(|error| broken("report", &error)));
    }
    nascent.key = None;
    let child = nascent.child.take().ok_or_else(|| broken("trampoline", &"lost"))?;
    Ok((Arc::new(Run::new(target, key, guard.clone())), child))
}

/// Everything that can be found out before a process is started.
fn prepare(launch: &Launch, token: &str) -> Result<Script, StartError> {
    let spec = &launch.spec;
    if !guard::initialised() {
        return Err(StartError::NotInitialised);
    }
    if !launch.policy.is_on() {
        return Err(StartError::Off);
    }
    spec.validate()?;
    validate_variables(&launch.env)?;
    let cwd = working_directory(spec)?;
    let env = environment::compose(|name| std::env::var_os(name), &spec.env, &launch.env, token);
    let name = spec.argv.first().map_or("", String::as_str);
    let found = program::resolve(name, env.get(OsStr::new("PATH")).map(AsRef::as_ref), &cwd)?;
    let real = std::fs::canonicalize(&found)
        .map_err(|_| StartError::NotFound { program: name.to_owned(), path: None })?;
    launch.policy.check(name, &real)?;
    // With a list, exactly the file that was judged runs, whatever a link becomes meanwhile.
    let program = if matches!(*launch.policy, ExecPolicy::Globs(_)) { real } else { found };
    Ok(Script {
        program: program.into_os_string(),
        argv: spec.argv.clone(),
        env: env.into_iter().collect(),
        cwd: spec.cwd.is_some().then(|| cwd.into_os_string()),
        stdin: spec.stdin.clone(),
        limits: launch.limits,
    })
}

/// The command's own, or the worker's. That the worker's is gone is no fault of the command.
fn working_directory(spec: &CommandSpec) -> Result<PathBuf, StartError> {
    let Some(given) = spec.cwd.as_deref() else {
        let own = std::env::current_dir().map_err(|error| own_directory(&error))?;
        return std::fs::metadata(&own).map(|_| own).map_err(|error| own_directory(&error));
    };
    let cwd = std::path::absolute(given).map_err(|error| program::explain_cwd(given, &error))?;
    program::check_cwd(&cwd)?;
    Ok(cwd)
}

fn own_directory(error: &std::io::Error) -> StartError {
    StartError::Exhausted { reason: format!("the worker's own working directory: {error}") }
}

fn exhausted(error: &std::io::Error) -> StartError {
    StartError::Exhausted { reason: error.to_string() }
}

fn broken(what: &str, reason: &dyn fmt::Display) -> StartError {
    StartError::Trampoline { reason: format!("{what}: {reason}") }
}
