//! The reaper's calls, and what a worker that starts again says of its dead.

use std::time::Duration;

use super::reply::{Refusal, Reply};
use super::{Store, unexpected};
use crate::error::{Error, Result};
use crate::name::{Incarnation, QueueName};
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

/// What one page of a declaration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Declared {
    /// Where the next page begins; none when all running tasks have been seen.
    pub more: Option<u64>,
    /// Running tasks seen.
    pub looked: u64,
    /// Runs reclaimed from the dead incarnation.
    pub reclaimed: u64,
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

    /// Declares an incarnation dead in a queue, and reclaims its runs among about `limit` (1 to 256) running tasks from
    /// `cursor` on, 0 at first. Repeat it with the answered cursor until there is none. From the first call on the queue
    /// hands nothing to that incarnation any more. Only for who has proved that it is dead and that nothing of it is alive.
    /// A queue that is not registered has no runs, and is not registered by it.
    ///
    /// # Errors
    /// Any error of Redis; it may be repeated from any cursor.
    pub async fn declare_dead(
        &self,
        queue: &QueueName,
        incarnation: &Incarnation,
        cursor: u64,
        limit: usize,
    ) -> Result<Declared> {
        let call = ScriptCall::new(&script::SWEEP, &self.keys(queue)).arg(limit.to_string());
        let value = self.run(call.arg(incarnation.as_str()).arg(cursor.to_string())).await?;
        let mut r = match Reply::open(&script::SWEEP, value)? {
            Ok(reply) => reply,
            Err(Refusal::Unregistered) => return Ok(Declared::default()),
            Err(refusal) => return Err(unexpected(&script::SWEEP, &refusal)),
        };
        r.number()?;
        let next =
            r.text()?.parse().map_err(|_| Error::Protocol("sweep answered a cursor that is none".into()))?;
        Ok(Declared { more: (next > 0).then_some(next), looked: r.number()?, reclaimed: r.number()? })
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
