//! Helpers: a runtime and a guard per test, commands that can be told apart, polling.

use leasehold_worker::exec::{
    CommandSpec, ExecPolicy, Exit, Launch, Limits, OutputBuffer, RunningCommand, StartError, Stream, start,
};
use leasehold_worker::guard::{BootInstant, Guard};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Nothing a test waits for takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Marks the processes of one test, apart from what the code under test does.
pub(crate) const MARK: &str = "LH_TEST_MARK";

/// What a test needs; checks at its end that nothing of it is left.
pub(crate) struct Bench {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) guard: Guard,
    pub(crate) output: Arc<OutputBuffer>,
    pub(crate) mark: String,
}

pub(crate) fn new_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("mark-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Bench {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let output = Arc::new(OutputBuffer::default());
        Self { runtime, guard: Guard::start().unwrap(), output, mark: new_mark() }
    }

    pub(crate) fn launch(&self, spec: CommandSpec) -> Launch {
        let env = BTreeMap::from([(MARK.to_owned(), self.mark.clone())]);
        Launch {
            spec,
            env,
            incarnation: leasehold_worker::Incarnation::fresh(),
            policy: Arc::new(ExecPolicy::Any),
            limits: Limits::default(),
            lease_until: BootInstant::now().plus(Duration::from_secs(600)),
            given_up: CancellationToken::new(),
            sink: self.output.sink(),
        }
    }

    pub(crate) fn start(&self, spec: CommandSpec) -> Result<RunningCommand, StartError> {
        self.runtime.block_on(start(&self.guard, self.launch(spec)))
    }

    /// A shell command that runs.
    pub(crate) fn sh(&self, script: &str) -> RunningCommand {
        self.start(sh(script)).unwrap()
    }

    pub(crate) fn wait(&self, run: &mut RunningCommand) -> Exit {
        let wait = async { tokio::time::timeout(PATIENCE, run.wait()).await };
        self.runtime.block_on(wait).expect("the run ends in time")
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, spec: CommandSpec) -> Exit {
        let mut run = self.start(spec).unwrap();
        self.wait(&mut run)
    }

    /// What was printed so far, both streams together, without what was taken before.
    pub(crate) fn text(&self) -> String {
        let bytes: Vec<u8> = self.output.take(usize::MAX).into_iter().flat_map(|chunk| chunk.bytes).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the command has printed this.
    pub(crate) fn until_printed(&self, text: &str) {
        let mut seen = String::new();
        until(&format!("{text:?} is printed"), || {
            seen.push_str(&self.text());
            seen.contains(text)
        });
    }

    pub(crate) fn of(&self, stream: Stream) -> Vec<u8> {
        let chunks = self.output.take(usize::MAX);
        chunks.into_iter().filter(|chunk| chunk.stream == stream).flat_map(|chunk| chunk.bytes).collect()
    }

    pub(crate) fn assert_nothing_left(&self) {
        until("nothing of the test is left", || marked(&self.mark).is_empty());
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.assert_nothing_left();
        }
    }
}

pub(crate) fn sh(script: &str) -> CommandSpec {
    CommandSpec::new(["sh", "-c", script])
}

/// Polls until it holds.
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(within(PATIENCE, holds), "not in time: {what}");
}

/// Polls until it holds or the time is over.
pub(crate) fn within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + time;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "the pause of a poll with a deadline")]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// How many processes with this first argument there are.
pub(crate) fn children(argument: &str) -> usize {
    let dirs = std::fs::read_dir("/proc").unwrap();
    dirs.filter_map(|dir| std::fs::read(dir.ok()?.path().join("cmdline")).ok())
        .filter(|line| line.split(|byte| *byte == 0).nth(1) == Some(argument.as_bytes()))
        .count()
}

/// Pid and state of every living process with this mark in its environment.
pub(crate) fn marked(mark: &str) -> Vec<(i32, char)> {
    let entry = format!("{MARK}={mark}");
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|dir| dir.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
        })
        .filter_map(|pid| Some((pid, state(pid)?)))
        .filter(|(_, state)| *state != 'Z')
        .collect()
}

/// The state letter of a process; none when it does not exist.
pub(crate) fn state(pid: i32) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

/// The fields of `/proc/<pid>/stat` after the name.
pub(crate) fn stat(pid: i32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Whether the process exists and is no zombie.
pub(crate) fn lives(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

pub(crate) fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

pub(crate) fn write_script(path: &Path, mode: u32, content: &[u8]) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}
