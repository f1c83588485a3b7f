//! A record byte by byte, with every field that scripts keep: the layout of `docs/redis-data-model.md`, said here once
//! more, so that a field that a script adds is noticed (an unknown one is an error).

use std::collections::BTreeMap;

use leasehold_common::record::{FailureKind, StopCause};
use leasehold_common::state::TaskState;
use serde::Deserialize;

/// States by their code, from 1 on.
const STATES: [TaskState; 9] = [
    TaskState::Scheduled,
    TaskState::Queued,
    TaskState::Running,
    TaskState::Aborting,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::TimedOut,
    TaskState::Aborted,
    TaskState::Waiting,
];

/// All that a record says.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its state.
    pub state: TaskState,
    /// Raised by every transition.
    pub rev: u64,
    /// Due, waiting since, or ended.
    pub at: u64,
    /// Code of its level.
    pub level: u8,
    /// How often it was claimed.
    pub attempt: u64,
    /// Failures.
    pub failures: u64,
    /// Reclaims.
    pub reclaims: u64,
    /// Begin of the current or last run.
    pub begun: u64,
    /// Its token.
    pub token: u64,
    /// The entry, the run, or the last run.
    pub run: String,
    /// The incarnation.
    pub inc: String,
    /// What few have.
    pub rare: Rare,
    /// The worker.
    pub worker: String,
    /// When it was enqueued.
    pub enqueued: u64,
    /// What never changes.
    pub fixed: Vec<u8>,
    /// The output.
    pub output: Vec<u8>,
}

/// The map of rare fields, by the names of `docs/redis-data-model.md`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the page tells of each")]
pub struct Rare {
    pub ml: Option<f64>,
    pub sp: Option<Stop>,
    pub le: Option<(String, String, String)>,
    pub us: Option<f64>,
    pub pg: Option<f64>,
    pub lo: Option<f64>,
    pub lb: Option<f64>,
    #[serde(rename = "lh")]
    pub log_head: Option<String>,
    pub fk: Option<FailureKind>,
    pub un: Option<f64>,
    pub rr: Option<f64>,
    pub ar: Option<(String, String)>,
    pub ln: Option<String>,
    pub ow: Option<String>,
    pub dl: Option<f64>,
    pub dr: Option<f64>,
    pub si: Option<f64>,
    pub sa: Option<f64>,
    pub la: Option<f64>,
    pub sn: Option<f64>,
    pub up: Option<f64>,
    pub uc: Option<f64>,
    pub ph: Option<Phase>,
    pub ck: Option<f64>,
    pub bu: BTreeMap<String, (f64, f64)>,
    pub ub: Option<(f64, String, String)>,
    pub uk: Option<(f64, String)>,
    pub rc: Option<Closed>,
}

/// A stop.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the page tells of each")]
pub struct Stop {
    pub c: StopCause,
    pub at: f64,
    pub g: f64,
    pub he: f64,
    #[serde(default)]
    pub by: Option<String>,
    #[serde(default)]
    pub rs: Option<String>,
    #[serde(default)]
    pub rq: Option<String>,
    #[serde(default)]
    pub ec: Option<StopCause>,
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the page tells of each")]
pub struct Phase {
    pub n: String,
    pub at: f64,
    pub tm: f64,
    #[serde(default)]
    pub e: Option<f64>,
}

/// How an end was decided for a run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the page tells of each")]
pub struct Closed {
    pub at: f64,
    pub by: String,
    pub why: String,
}

/// Reads big-endian numbers and counted bytes from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, width: usize) -> Option<u64> {
        Some(self.bytes(width)?.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    fn counted(&mut self, width: usize) -> Option<&'a [u8]> {
        let count = self.number(width)?;
        self.bytes(usize::try_from(count).ok()?)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.counted(1)?.to_vec()).ok()
    }
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// When it cannot be read, or has a field that nobody knows.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader(bytes);
        read(&mut reader).unwrap_or_else(|| Err("it ends too early".to_owned()))
    }

    /// The lane's text.
    pub fn lane(&self) -> Option<&str> {
        self.rare.ln.as_deref()
    }

    /// Does this run of this incarnation own it now?
    pub fn owned_by(&self, run: &str, inc: &str) -> bool {
        self.state.has_run() && self.run == run && self.inc == inc
    }
}

fn read(r: &mut Reader<'_>) -> Option<Result<Record, String>> {
    if r.number(1)? != 0xC1 || r.number(1)? != u64::from(leasehold_common::FORMAT) {
        return Some(Err("it is of another format".to_owned()));
    }
    let state = *STATES.get(usize::try_from(r.number(1)?).ok()?.checked_sub(1)?)?;
    let (rev, at, level) = (r.number(4)?, r.number(6)?, r.number(1)?);
    let (attempt, failures, reclaims) = (r.number(4)?, r.number(2)?, r.number(2)?);
    let (begun, token) = (r.number(6)?, r.number(8)?);
    let (run, inc) = (r.text()?, r.text()?);
    let rare = match r.counted(3)? {
        [] => Rare::default(),
        map => match rmp_serde::from_slice(map) {
            Ok(rare) => rare,
            Err(error) => return Some(Err(error.to_string())),
        },
    };
    let (worker, enqueued, fixed) = (r.text()?, r.number(6)?, r.counted(2)?.to_vec());
    let level = u8::try_from(level).ok()?;
    Some(Ok(Record {
        state,
        rev,
        at,
        level,
        attempt,
        failures,
        reclaims,
        begun,
        token,
        run,
        inc,
        rare,
        worker,
        enqueued,
        fixed,
        output: r.0.to_vec(),
    }))
}
