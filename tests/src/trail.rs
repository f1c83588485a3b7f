//! The trail of the soak: what a task does, and the lines that it leaves outside Redis while it does so.
//!
//! [`Effects`](crate::Effects) knows an attempt's start and its end; that an attempt which was killed or frozen did
//! not go on beside another one needs more. Here an attempt leaves a line every [`TICK`], with its grandchildren, so
//! that its time reaches from its first line to its last: **at both it certainly ran**. Where the times of two
//! attempts of a lane meet, one of them ran after the other had begun, whatever froze or killed it in between. A lock
//! held for a command's life would not do: a frozen command still holds it, and may lawfully be replaced.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Between two lines of an attempt that works.
pub const TICK: Duration = Duration::from_millis(25);

/// The variable by which an attempt finds the file.
pub const FILE: &str = "LH_SOAK_TRAIL";

/// The budget that [`Deed::Spend`] charges.
pub const BUDGET: &str = "calls";

/// The name of handler tasks.
pub const HANDLER: &str = "soak";

/// What a task does, one after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deed {
    /// From here on it does not listen to TERM, or to its cancellation.
    Deaf,
    /// A command's child of its own session that leaves lines until somebody kills it.
    Child,
    /// Works for so many ms.
    Work(u64),
    /// Enters a phase with a timeout in ms.
    Phase(String, u64),
    /// Charges [`BUDGET`].
    Spend(u64),
    /// Fails in the first so many attempts.
    FailFirst(u64),
    /// Fails.
    Fail,
}

/// A task of the soak: the payload of a handler, the last argument of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Play {
    /// Its lane, for the lines.
    pub lane: Option<String>,
    /// What it does.
    pub deeds: Vec<Deed>,
}

/// Where an attempt leaves its lines.
#[derive(Debug)]
pub struct Trail {
    file: File,
    head: String,
}

impl Trail {
    /// The trail of an attempt, in the file that the environment names.
    pub fn of(task: &str, attempt: u64, lane: Option<&str>) -> Self {
        let path = std::env::var_os(FILE).expect("the environment names the trail");
        let file = OpenOptions::new().append(true).open(path).expect("open the trail");
        Self { file, head: format!("{task} {attempt} {}", lane.unwrap_or("-")) }
    }

    /// Leaves a line: the time is taken first, so that at that time the attempt certainly ran.
    pub fn note(&self, what: &str) {
        let line = format!("{} {what} {} {}\n", self.head, now_ns(), std::process::id());
        (&self.file).write_all(line.as_bytes()).expect("append to the trail");
    }
}

/// Leaves a line every [`TICK`] for so long: the work of all tasks of the soak.
pub async fn work(trail: &Trail, how_long: Duration) {
    let working = async {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            trail.note("tick");
        }
    };
    // The end of the time is the end of the work.
    tokio::time::timeout(how_long, working).await.unwrap_or(());
}

/// A line of the trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The task.
    pub task: String,
    /// Which attempt.
    pub attempt: u64,
    /// Its lane.
    pub lane: Option<String>,
    /// `start`, `tick`, `spent:<n>`, `fail`, `end`.
    pub what: String,
    /// When, nanoseconds of the machine's monotonic clock.
    pub at: u64,
    /// By whom.
    pub pid: u32,
}

/// All lines, in the order of their writing. A torn line would be a defect of this harness, and panics.
pub fn read(path: &Path) -> Vec<Line> {
    let text = fs::read_to_string(path).expect("read the trail");
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().map(|line| parse(line).unwrap_or_else(|| panic!("torn: {line:?}"))).collect()
}

fn parse(line: &str) -> Option<Line> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [task, attempt, lane, what, at, pid] = fields[..] else { return None };
    Some(Line {
        task: task.to_owned(),
        attempt: attempt.parse().ok()?,
        lane: (lane != "-").then(|| lane.to_owned()),
        what: what.to_owned(),
        at: at.parse().ok()?,
        pid: pid.parse().ok()?,
    })
}

/// Nanoseconds of the machine's monotonic clock: one for all processes, never set back.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the monotonic clock");
    u64::try_from(Duration::from(now).as_nanos()).expect("within 500 years of the boot")
}
