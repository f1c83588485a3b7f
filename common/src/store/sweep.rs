//! The reaper's calls.

use std::time::Duration;

use super::Store;
use crate::error::Result;
use crate::name::QueueName;
use crate::script;
use crate::transport::ScriptCall;

/// What one sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Running tasks looked at.
    pub looked: u64,
    /// First looks that missed a lease.
    pub suspected: u64,
    /// Runs reclaimed from dead owners.
    pub reclaimed: u64,
    /// Runs ended past their hard end.
    pub ended: u64,
    /// Stops recorded for runs past their bound.
    pub stopped: u64,
    /// Scheduled tasks that became due.
    pub promoted: u64,
    /// There was a gap before this sweep: suspicion waits.
    pub gap: bool,
    /// Rows that did not fit the protocol; the doctor tells of them.
    pub odd: u64,
    /// Until the next look is due, at most a second.
    pub next_look: Duration,
    /// More is due now.
    pub more: bool,
}

/// What one cleanup did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Tasks removed.
    pub deleted: u64,
    /// Rows that did not fit the protocol.
    pub odd: u64,
    /// More is due now.
    pub more: bool,
}

impl Store {
    /// Looks at up to `limit` (1 to 256) running tasks that are due for a look.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn sweep(&self, queue: &QueueName, limit: usize) -> Result<Swept> {
        let call = ScriptCall::new(&script::SWEEP, &self.keys(queue)).arg(limit.to_string());
        let mut r = self.ok(queue, call).await?;
        r.number()?;
        Ok(Swept {
            looked: r.number()?,
            suspected: r.number()?,
            reclaimed: r.number()?,
            ended: r.number()?,
            stopped: r.number()?,
            promoted: r.number()?,
            gap: r.number()? == 1,
            odd: r.number()?,
            next_look: Duration::from_millis(r.number()?),
            more: r.number()? == 1,
        })
    }

    /// Removes up to `limit` (1 to 256) tasks of each state that are past their retention.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn cleanup(&self, queue: &QueueName, limit: usize) -> Result<Cleaned> {
        let call = ScriptCall::new(&script::CLEANUP, &self.keys(queue)).arg(limit.to_string());
        let mut r = self.ok(queue, call).await?;
        r.number()?;
        Ok(Cleaned { deleted: r.number()?, odd: r.number()?, more: r.number()? == 1 })
    }
}
