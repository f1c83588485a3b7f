//! What the doctor says, for people and as JSON.

use std::fmt;

use serde::Serialize;

use crate::name::{QueueName, TaskId};
use crate::store::Spot;
use crate::text::printable;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Something waits, or will go wrong: somebody should act.
    Warning,
    /// An invariant does not hold.
    Breach,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Breach => "breach",
        })
    }
}

/// One thing found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How grave.
    pub severity: Severity,
    /// What class it is of, in stable kebab-case: for alerts and tests.
    pub code: &'static str,
    /// The queue, if it is about one.
    pub queue: Option<QueueName>,
    /// The task, if it is about one.
    pub id: Option<TaskId>,
    /// For people: what it is, and what to do next.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.severity, self.code)?;
        if let Some(queue) = &self.queue {
            write!(f, " {queue}")?;
        }
        if let Some(id) = &self.id {
            write!(f, " {}", printable(id.as_str()))?;
        }
        write!(f, ": {}", printable(&self.message))
    }
}

/// One queue in numbers, as one atomic look saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueReport {
    /// Its name.
    pub queue: QueueName,
    /// Tasks in ready streams.
    pub queued: u64,
    /// Tasks waiting for their time.
    pub scheduled: u64,
    /// Tasks waiting for their turn in a lane.
    pub waiting: u64,
    /// Tasks that a run owns (running and aborting).
    pub running: u64,
    /// Tasks that have ended and are kept.
    pub ended: u64,
    /// Tasks that ended and were removed.
    pub gone: u64,
    /// Living workers that serve it.
    pub workers: u64,
    /// How long ago a reaper swept it, ms; none = never.
    pub swept_ms_ago: Option<u64>,
    /// Ids whose places were looked at.
    pub examined: u64,
}

/// What an examination found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// Of each queue.
    pub queues: Vec<QueueReport>,
    /// Gravest first.
    pub findings: Vec<Finding>,
    /// Rows that some of them are about, for a repair.
    #[serde(skip)]
    pub(crate) rows: Vec<(QueueName, Spot)>,
}

impl Report {
    /// Does every invariant hold? Warnings and notes may be there.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.breaches().next().is_none()
    }

    /// The breaches.
    pub fn breaches(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.severity == Severity::Breach)
    }

    /// The findings of one code.
    pub fn of_code<'a>(&'a self, code: &'a str) -> impl Iterator<Item = &'a Finding> {
        self.findings.iter().filter(move |f| f.code == code)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for q in &self.queues {
            write!(
                f,
                "{}: {} queued, {} scheduled, {} waiting, {} running, ",
                q.queue, q.queued, q.scheduled, q.waiting, q.running
            )?;
            writeln!(f, "{} ended and kept, {} gone; {} examined", q.ended, q.gone, q.examined)?;
        }
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        let count = |severity| self.findings.iter().filter(|f| f.severity == severity).count();
        let (breaches, warnings) = (count(Severity::Breach), count(Severity::Warning));
        if breaches + warnings == 0 {
            return write!(f, "all invariants hold");
        }
        write!(f, "breaches: {breaches}, warnings: {warnings}")
    }
}
