//! What Leasehold costs beside plain Redis Streams, measured side by side on one Redis in one run.
//!
//! "Raw" is the same number of 200-byte entries through plain streams from the same client library: XADD in pipelines
//! of a hundred, XREADGROUP COUNT 100, XACK and XDEL of each entry in pipelines. "Task" is the full life: enqueued in
//! bulk of a hundred, claimed under a lease, a handler that does nothing, finished with its result kept. Both take
//! turns (raw, ours, raw, ours), and what is told is the median of the ratios of neighbours.
//!
//! - [`plan`]: what is measured, and how much of it; [`target`]: which Redis
//! - `lab`: what the rows share; `server`: questions to Redis; `clock`: time and CPU of a stretch of work
//! - `raw`, `ours`: the two sides; `job`: the task; `relay`: counts what a client sends
//! - `rows`: one file per group of rows
//! - [`figure`], [`report`], [`page`]: what came out, and how it is shown
//!
//! Nothing here prints, reads arguments or handles signals. On a Redis that is not its own it works in a namespace of
//! its own, which it removes, and resets no counter of the server.

pub mod error;
pub mod figure;
pub mod page;
pub mod plan;
pub mod report;
pub mod target;

mod clock;
mod job;
mod lab;
mod latency;
mod ours;
mod raw;
mod relay;
mod rows;
mod server;
mod spread;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use error::{Error, Result};
pub use plan::{Plan, Row};
pub use report::Report;
pub use target::Target;

use lab::Lab;

/// How long workers and reapers may take to end after an interruption, before their keys are removed.
const ENDING: Duration = Duration::from_secs(20);

/// Where steps are told while it runs.
pub trait Progress: Send + Sync {
    /// One line.
    fn say(&self, line: &str);
}

/// Measures the rows of `plan` on `target`, until done or `stop` is cancelled. Whatever happens, no key of it is left.
///
/// # Errors
/// [`Error::Interrupted`] after `stop`; [`Error::Doctor`] when an invariant did not hold after a stretch of work; a
/// plan out of its ranges; whatever Redis says.
pub async fn run(
    plan: &Plan,
    target: &Target,
    stop: &CancellationToken,
    progress: &dyn Progress,
) -> Result<Report> {
    plan.validate()?;
    let lab = Lab::open(plan, target, stop.child_token(), progress).await?;
    let measured = tokio::select! {
        // cancel-safe: what was dropped is taken down below, whatever it was doing.
        biased;
        () = stop.cancelled() => Err(Error::Interrupted),
        measured = Box::pin(rows::measure(&lab)) => measured,
    };
    let closed = lab.close(ENDING).await;
    let report = measured?;
    closed?;
    Ok(report)
}
