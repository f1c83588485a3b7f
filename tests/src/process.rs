//! The built `leasehold` binary as a child process: its output, its signals, its end.

mod binary;

pub use binary::{binary, check_cli_parses};

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::eventually::{comes_true, eventually};
use crate::procfs;
use crate::redis_server::RedisUrl;

/// How long [`Leasehold::run`] waits for a command that is expected to end by itself.
pub const RUN_LIMIT: Duration = Duration::from_secs(60);

/// How long a signal may take to show in the process table.
const SIGNAL_LIMIT: Duration = Duration::from_secs(10);

/// How long a guard may take to end what its dead worker had started, before the harness does it.
const GUARD_LIMIT: Duration = Duration::from_secs(5);

/// The variable that marks every process started for a [`Proc`], for [`procfs::processes_with_env`].
const MARK: &str = "LEASEHOLD_TEST_MARK";

/// A `leasehold` command line that is about to run.
#[derive(Debug)]
pub struct Leasehold {
    command: Command,
    mark: String,
    stdin: Option<Vec<u8>>,
}

impl Leasehold {
    /// `leasehold` against this server, proxy or URL. Nothing of the caller's own Leasehold or Redis environment
    /// is handed on.
    pub fn new(redis: &(impl RedisUrl + ?Sized)) -> Self {
        Self::other_program(binary(), redis)
    }

    /// Another program (a built example, say) in the place of `leasehold`.
    pub fn other_program(program: impl AsRef<OsStr>, redis: &(impl RedisUrl + ?Sized)) -> Self {
        let mut this = Self::bare(program.as_ref());
        this.command.env("LEASEHOLD_REDIS_URL", redis.redis_url());
        this
    }

    /// `leasehold` with no Redis named in its environment.
    pub fn without_redis() -> Self {
        Self::bare(binary().as_os_str())
    }

    fn bare(program: &OsStr) -> Self {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("LEASEHOLD_") || text == "REDIS_URL" {
                command.env_remove(&name);
            }
        }
        let mark = uuid::Uuid::new_v4().simple().to_string();
        command.env(MARK, &mark);
        Self { command, mark, stdin: None }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The folder to run in.
    #[must_use]
    pub fn cwd(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// What the command reads; without it stdin is empty.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Starts it; it is killed with the returned value, and its descendants with it.
    pub fn spawn(mut self) -> Proc {
        let dir = tempfile::Builder::new().prefix("leasehold-proc-").tempdir().expect("a temporary folder");
        let file = |name| File::create(dir.path().join(name)).expect("create an output file");
        self.command.stdout(file("stdout")).stderr(file("stderr")).stdin(Stdio::null());
        if let Some(bytes) = &self.stdin {
            let path = dir.path().join("stdin");
            fs::write(&path, bytes).expect("write the input file");
            self.command.stdin(File::open(path).expect("open the input file"));
        }
        let arguments = self.command.get_args().map(OsStr::to_os_string).collect();
        let child = self.command.spawn().expect("start leasehold");
        Proc { child, arguments, mark: self.mark, dir }
    }

    /// Runs it to its end, which must come within [`RUN_LIMIT`].
    #[track_caller]
    pub fn run(self) -> Finished {
        self.spawn().wait(RUN_LIMIT)
    }
}

/// A command that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The arguments, for messages.
    pub arguments: Vec<OsString>,
    /// How it ended.
    pub status: ExitStatus,
    /// All of its stdout.
    pub stdout: String,
    /// All of its stderr.
    pub stderr: String,
}

impl Finished {
    /// The exit code as a shell has it: 128 + n for a signal.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Panics with the output unless it ended with this code.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code(),
            code,
            "exit code of leasehold {:?}\n-- stdout\n{}\n-- stderr\n{}",
            self.arguments,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Panics with the output unless it ended with 0.
    #[track_caller]
    pub fn success(self) -> Self {
        self.expect_code(0)
    }

    /// Stdout without the line end: an id, say.
    pub fn line(&self) -> String {
        self.stdout.trim_end().to_owned()
    }

    /// Stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("leasehold {:?}: {error} in: {}", self.arguments, self.stdout))
    }
}

/// A `leasehold` process.
#[derive(Debug)]
pub struct Proc {
    child: Child,
    arguments: Vec<OsString>,
    mark: String,
    dir: TempDir,
}

impl Proc {
    /// Its pid.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid fits")
    }

    /// Stdout so far.
    pub fn stdout(&self) -> String {
        self.output("stdout")
    }

    /// Stderr so far.
    pub fn stderr(&self) -> String {
        self.output("stderr")
    }

    /// Sends a signal to the process alone.
    pub fn signal(&self, signal: Signal) {
        procfs::signal(self.pid(), signal);
    }

    /// SIGSTOP, and waits until it is stopped.
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        self.wait_for_state("stopped", |state| state == Some('T'));
    }

    /// SIGCONT after [`stop`](Self::stop).
    pub fn cont(&self) {
        self.signal(Signal::SIGCONT);
        self.wait_for_state("continued", |state| state != Some('T'));
    }

    /// SIGKILL to the process alone, and waits for its end; what it started is left to its guard.
    pub fn kill(&mut self) {
        self.child.kill().expect("SIGKILL to our own child");
        self.child.wait().expect("wait for our own child");
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("wait for our own child")
    }

    /// Waits for its end; panics with its output when that does not come in time.
    #[track_caller]
    pub fn wait(mut self, within: Duration) -> Finished {
        let what = format!("leasehold {:?} ends", self.arguments);
        let status = eventually(&what, within, || {
            self.try_wait()
                .ok_or_else(|| format!("running; stdout:\n{}\nstderr:\n{}", self.stdout(), self.stderr()))
        });
        let arguments = self.arguments.clone();
        Finished { arguments, status, stdout: self.stdout(), stderr: self.stderr() }
    }

    /// SIGTERM, then [`wait`](Self::wait).
    #[track_caller]
    pub fn terminate(self, within: Duration) -> Finished {
        self.signal(Signal::SIGTERM);
        self.wait(within)
    }

    /// Waits until stdout or stderr contains `text`; panics when the process ends without having said it.
    #[track_caller]
    pub fn wait_for_output(&mut self, text: &str, within: Duration) {
        let what = format!("leasehold {:?} prints {text:?}", self.arguments);
        eventually(&what, within, || {
            let ended = self.try_wait();
            let (stdout, stderr) = (self.stdout(), self.stderr());
            if stdout.contains(text) || stderr.contains(text) {
                return Ok(());
            }
            assert!(ended.is_none(), "{what}: it ended, {ended:?}, with\n{stdout}\n{stderr}");
            Err(format!("stdout:\n{stdout}\nstderr:\n{stderr}"))
        });
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        procfs::is_running(self.pid())
    }

    fn output(&self, name: &str) -> String {
        let bytes = fs::read(self.dir.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[track_caller]
    fn wait_for_state(&self, what: &str, wanted: impl Fn(Option<char>) -> bool) {
        eventually(&format!("leasehold is {what}"), SIGNAL_LIMIT, || {
            let state = procfs::state(self.pid());
            if wanted(state) { Ok(()) } else { Err(format!("state {state:?}")) }
        });
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        // A failed test must leave nothing behind, whatever state the worker and its guard are in. Where the
        // worker has ended, its guard is given the time to do its work first: it knows more than we can find.
        let ended = self.child.try_wait().is_ok_and(|status| status.is_some());
        let marked = || procfs::processes_with_env(&self.mark);
        if !ended || !comes_true(GUARD_LIMIT, || marked().is_empty()) {
            let roots = marked().into_iter().chain((!ended).then_some(self.pid()));
            let strays: Vec<Stray> = roots.flat_map(Stray::family).collect();
            self.child.kill().ok();
            self.child.wait().ok();
            strays.iter().for_each(Stray::kill);
        }
        if std::thread::panicking() {
            let (stdout, stderr) = (self.stdout(), self.stderr());
            eprintln!("-- leasehold {:?}: stdout\n{stdout}\n-- stderr\n{stderr}", self.arguments);
        }
    }
}

/// A process to be killed, told by its start time from a later one with its number.
struct Stray {
    pid: i32,
    started: u64,
}

impl Stray {
    /// The process and all its descendants, as far as they are there.
    fn family(pid: i32) -> Vec<Self> {
        let pids = std::iter::once(pid).chain(procfs::descendants(pid));
        pids.filter_map(|pid| Some(Self { pid, started: procfs::stat(pid)?.started })).collect()
    }

    fn kill(&self) {
        if procfs::stat(self.pid).is_some_and(|stat| stat.started == self.started) {
            procfs::signal(self.pid, Signal::SIGKILL);
        }
    }
}
