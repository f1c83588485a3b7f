//! What really ran: an append-only file outside Redis, one line at each attempt's start and one at its end.
//!
//! Redis can be wrong about an attempt; this file is written by the attempt itself. A run that was killed has a
//! start and no end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

/// One attempt as the file shows it. Times are nanoseconds of the machine's clock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// The task's id.
    pub task: String,
    /// Which attempt.
    pub attempt: u32,
    /// When it began.
    pub start: u128,
    /// When it ended by itself; `None` when it was killed or is still running.
    pub end: Option<u128>,
}

impl Interval {
    /// Whether both ran at some instant. Without an end an attempt counts for its first instant only: pair such
    /// runs with a check of the process table.
    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |interval: &Self| interval.end.unwrap_or(interval.start + 1);
        self.start < end(other) && other.start < end(self)
    }
}

/// An effects file in a folder of its own.
#[derive(Debug)]
pub struct Effects {
    dir: TempDir,
}

impl Effects {
    /// The environment variable by which the body finds the file.
    pub const VARIABLE: &'static str = "EFF";

    /// An empty file.
    pub fn new() -> Self {
        let dir =
            tempfile::Builder::new().prefix("leasehold-effects-").tempdir().expect("a temporary folder");
        fs::write(dir.path().join("effects"), "").expect("create the effects file");
        Self { dir }
    }

    /// Where it lies.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("effects")
    }

    /// For `exec --env`: `EFF=<path>`.
    pub fn env(&self) -> String {
        format!("{}={}", Self::VARIABLE, self.path().display())
    }

    /// The standard body "E": notes its start, runs for `busy`, notes its end.
    pub fn body(busy: Duration) -> String {
        Self::body_around(&format!("sleep {}", busy.as_secs_f64()))
    }

    /// Body "E" around another shell command; the body ends with that command's exit code.
    pub fn body_around(work: &str) -> String {
        let note = |what| {
            format!(
                r#"echo "$LEASEHOLD_TASK_ID $LEASEHOLD_ATTEMPT {what} $(date +%s%N)" >>"${}""#,
                Self::VARIABLE
            )
        };
        format!("{}; {work}; code=$?; {}; exit $code", note("start"), note("end"))
    }

    /// The arguments `--env EFF=.. -- sh -c BODY`, to follow `exec QUEUE`.
    pub fn exec_args(&self, busy: Duration) -> Vec<String> {
        ["--env", &self.env(), "--", "sh", "-c", &Self::body(busy)].map(str::to_owned).to_vec()
    }

    /// Notes an attempt's start from a handler inside the test process.
    pub fn note_start(&self, task: &str, attempt: u32) {
        self.note(task, attempt, "start");
    }

    /// Notes an attempt's end from a handler inside the test process.
    pub fn note_end(&self, task: &str, attempt: u32) {
        self.note(task, attempt, "end");
    }

    /// All attempts so far, by task and start.
    pub fn intervals(&self) -> Vec<Interval> {
        parse(&self.path())
    }

    /// The attempts of one task, in the order of their starts.
    pub fn of(&self, task: &str) -> Vec<Interval> {
        self.intervals().into_iter().filter(|interval| interval.task == task).collect()
    }

    /// How often any attempt started.
    pub fn starts(&self) -> usize {
        self.intervals().len()
    }

    /// How often any attempt came to its own end.
    pub fn ends(&self) -> usize {
        self.intervals().iter().filter(|interval| interval.end.is_some()).count()
    }

    /// Pairs of attempts of one task that ran at the same time.
    pub fn overlaps(&self) -> Vec<(Interval, Interval)> {
        let intervals = self.intervals();
        let mut pairs = Vec::new();
        for (index, first) in intervals.iter().enumerate() {
            let rest = intervals[index + 1..].iter().take_while(|second| second.task == first.task);
            pairs.extend(rest.filter(|second| first.overlaps(second)).map(|s| (first.clone(), s.clone())));
        }
        pairs
    }

    /// Panics when two attempts of one task ran at the same time.
    #[track_caller]
    pub fn assert_no_overlap(&self) {
        let pairs = self.overlaps();
        assert!(pairs.is_empty(), "attempts of one task ran at the same time:\n{}", list(&pairs));
    }

    /// Panics unless each of the tasks started exactly once and came to its end, and no other task ran.
    #[track_caller]
    pub fn assert_each_ran_once(&self, tasks: &[impl AsRef<str>]) {
        let mut runs: BTreeMap<String, Vec<Interval>> = BTreeMap::new();
        for interval in self.intervals() {
            runs.entry(interval.task.clone()).or_default().push(interval);
        }
        for task in tasks {
            let of_task = runs.remove(task.as_ref()).unwrap_or_default();
            let once = matches!(of_task.as_slice(), [only] if only.end.is_some());
            assert!(once, "task {} did not run exactly once to its end: {of_task:?}", task.as_ref());
        }
        assert!(runs.is_empty(), "tasks ran that were not asked for: {runs:?}");
    }

    /// The most attempts, of whatever tasks, that ran at one instant.
    pub fn most_at_once(&self) -> usize {
        let intervals = self.intervals();
        let at = |instant: u128| {
            let running = |i: &&Interval| i.start <= instant && i.end.is_none_or(|end| instant < end);
            intervals.iter().filter(running).count()
        };
        intervals.iter().map(|interval| at(interval.start)).max().unwrap_or(0)
    }

    #[expect(clippy::disallowed_methods, reason = "compared with `date` in shell bodies, never with a lease")]
    fn note(&self, task: &str, attempt: u32, what: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos();
        let mut file = OpenOptions::new().append(true).open(self.path()).expect("open the effects file");
        writeln!(file, "{task} {attempt} {what} {now}").expect("append to the effects file");
    }
}

impl Default for Effects {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads the file; a last line that is still being written is left for the next look.
fn parse(path: &Path) -> Vec<Interval> {
    let text = fs::read_to_string(path).expect("read the effects file");
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let mut intervals: Vec<Interval> = Vec::new();
    for line in whole.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [task, attempt, what, at] = fields[..] else { panic!("torn line in the effects file: {line:?}") };
        let attempt = attempt.parse().unwrap_or_else(|_| panic!("no attempt number: {line:?}"));
        let at = at.parse().unwrap_or_else(|_| panic!("no time: {line:?}"));
        if what == "start" {
            intervals.push(Interval { task: task.to_owned(), attempt, start: at, end: None });
            continue;
        }
        let mut latest_first = intervals.iter_mut().rev();
        let open = latest_first.find(|run| run.task == task && run.attempt == attempt && run.end.is_none());
        open.unwrap_or_else(|| panic!("an end without a start: {line:?}")).end = Some(at);
    }
    intervals.sort();
    intervals
}

fn list(pairs: &[(Interval, Interval)]) -> String {
    pairs.iter().fold(String::new(), |mut text, (first, second)| {
        writeln!(text, "  {first:?}\n  {second:?}").expect("write to a string");
        text
    })
}
