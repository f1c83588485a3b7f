//! What the doctor knows of one queue while it examines it.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use super::counts::slots;
use super::judge::{Moment, Verdict};
use super::key::Key;
use super::report::QueueReport;
use crate::name::{QueueName, TaskId};
use crate::store::{Inspection, WorkerInfo};

/// So many doubts of a queue are looked at again, or as many as are told; the first stand for the rest.
const DOUBTS: usize = 1000;

/// What stands in the way of looking into a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing.
    Open,
    /// It is not registered: it has no config.
    Unregistered,
    /// What is there cannot be read; a finding says so.
    Closed,
}

/// An entry of a ready stream under which no record was queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stray {
    pub(super) level: &'static str,
    pub(super) entry: String,
    /// None when it names no task at all.
    pub(super) task: Option<TaskId>,
}

/// The chart of one queue.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) access: Access,
    most_doubts: usize,
    /// A key without a TTL was seen.
    pub(super) lasting: bool,
    /// Hashes of the ids looked at: a whole queue's ids would be too much to keep.
    seen: HashSet<u64>,
    hasher: RandomState,
    /// Ids that had no record.
    pub(super) no_record: HashSet<TaskId>,
    pub(super) doubts: Vec<Verdict>,
    pub(super) doubted_keys: Vec<(Key, &'static str)>,
    pub(super) strays: Vec<Stray>,
    pub(super) report: Option<QueueReport>,
}

impl Chart {
    /// `each`: findings of a code that are told one by one.
    pub(super) fn new(access: Access, each: usize) -> Self {
        Self {
            access,
            most_doubts: each.max(DOUBTS),
            lasting: false,
            seen: HashSet::new(),
            hasher: RandomState::new(),
            no_record: HashSet::new(),
            doubts: Vec::new(),
            doubted_keys: Vec::new(),
            strays: Vec::new(),
            report: None,
        }
    }

    /// Notes an id; true if it was not seen before.
    pub(super) fn note(&mut self, id: &TaskId) -> bool {
        self.seen.insert(self.hasher.hash_one(id))
    }

    pub(super) fn doubt(&mut self, verdict: Verdict) {
        if self.doubts.len() < self.most_doubts {
            self.doubts.push(verdict);
        }
    }

    pub(super) fn doubt_key(&mut self, key: Key, code: &'static str) {
        if self.doubted_keys.len() < self.most_doubts {
            self.doubted_keys.push((key, code));
        }
    }

    pub(super) fn doubt_entry(&mut self, stray: Stray) {
        if self.strays.len() < self.most_doubts {
            self.strays.push(stray);
        }
    }

    pub(super) fn has_doubts(&self) -> bool {
        !(self.doubts.is_empty() && self.doubted_keys.is_empty() && self.strays.is_empty())
    }

    /// Takes the numbers of a look.
    pub(super) fn fill(&mut self, queue: &QueueName, look: &Inspection, workers: &[WorkerInfo]) {
        let facts = &look.facts;
        let count = |n: i64| u64::try_from(n).unwrap_or_default();
        self.report = Some(QueueReport {
            queue: queue.clone(),
            queued: count(facts.queued()),
            scheduled: count(facts.number("scheduled")),
            waiting: count(facts.number("waiting")),
            running: count(facts.number("running")),
            ended: count(facts.ended()),
            gone: count(facts.total("gone")),
            workers: workers.iter().filter(|w| slots(w, queue) > 0).count() as u64,
            swept_ms_ago: Moment::of(look).swept_ago.map(count),
            examined: self.seen.len() as u64,
        });
    }
}
