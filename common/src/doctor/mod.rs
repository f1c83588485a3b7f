//! The doctor: the invariants of every queue, checked on a live system.
//!
//! [`examine`] reads page by page and blocks Redis nowhere. What a scan finds is a candidate only: one atomic look
//! ([`Store::inspect`]) at a task and all its places judges. A breach of the counts, and whatever depends on time,
//! must be seen in two looks before it is reported; facts that lie in different slots only warn.
//!
//! - [`report`]: what the doctor says; `tally` gathers it
//! - `judge`, `counts`, `server`: what a look means (pure)
//! - `key`: which key is which (pure)
//! - `pages`: the reads; `rows`: candidates from keys and indexes
//! - `repair`: what of it can be mended, task by task
//! - `chart`, `exam`, `again`: one examination: per queue, as a whole, and its second look

mod again;
mod chart;
mod counts;
mod exam;
mod judge;
mod key;
mod pages;
mod repair;
pub mod report;
mod rows;
mod server;
mod tally;

use std::time::Duration;

pub use repair::{Repair, repair};
pub use report::{Finding, QueueReport, Report, Severity};

use exam::Exam;

use crate::error::Result;
use crate::name::QueueName;
use crate::store::Store;

/// What to examine, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Only these queues. Defaults to none named: every queue of the namespace.
    pub queues: Vec<QueueName>,
    /// Between the two looks at what may be a passing matter; spent only if there is any. Defaults to 1 s.
    pub pause: Duration,
    /// At most so many findings of one code and queue are told one by one. Defaults to 20.
    pub each: usize,
    /// Whether the server itself is judged too. Defaults to true.
    pub server: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { queues: Vec::new(), pause: Duration::from_secs(1), each: 20, server: true }
    }
}

/// Examines the queues of a store.
///
/// # Errors
/// When Redis cannot be asked. What it answers, however odd, is a finding.
pub async fn examine(store: &Store, options: &Options) -> Result<Report> {
    Exam::new(store, options).run().await
}
