//! Heartbeats: renewing leases, and the control channel to a worker.

use std::time::Duration;

use super::Store;
use crate::error::{Error, Result};
use crate::name::{Incarnation, QueueName, RunId, TaskId};
use crate::record::StopCause;
use crate::script;
use crate::state::TaskState;
use crate::transport::ScriptCall;

/// One run that is still there, or whose finish is not answered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// The task.
    pub id: TaskId,
    /// The run.
    pub run: RunId,
    /// The worker itself stops it: Redis records that, and tells until when it has time.
    pub stopping: bool,
}

/// What Redis says of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeatAnswer {
    /// Go on: the lease is renewed.
    Ok,
    /// End within the grace; the lease is renewed until `hard_end_ms`.
    Stop {
        /// Why.
        cause: StopCause,
        /// When nobody waits any longer, ms by Redis's clock.
        hard_end_ms: u64,
        /// By whom.
        by: String,
    },
    /// The run has ended: its finish had arrived.
    Ended(TaskState),
    /// The task ended and was removed.
    Gone,
    /// The task belongs to another run, or is none: this run must leave no effect any more.
    Lost,
    /// The record cannot be read: neither a yes nor a no.
    Corrupt,
}

/// The answers to a batch of beats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beats {
    /// Redis's time, ms.
    pub now_ms: u64,
    /// The queue's lease T.
    pub lease: Duration,
    /// In the order of the beats.
    pub answers: Vec<BeatAnswer>,
}

pub(super) fn cause(text: &str) -> Result<StopCause> {
    StopCause::ALL.into_iter().find(|c| c.as_str() == text).ok_or_else(|| {
        Error::Protocol(format!("unknown stop cause {text:?}: a newer release's; upgrade this process"))
    })
}

impl Store {
    /// Renews the leases of runs, in one call.
    ///
    /// # Errors
    /// Any error of Redis: then nobody knows of any of the leases.
    pub async fn heartbeat(
        &self,
        queue: &QueueName,
        incarnation: &Incarnation,
        beats: &[Beat],
    ) -> Result<Beats> {
        let mut call = ScriptCall::new(&script::HEARTBEAT, &self.keys(queue)).arg(incarnation.as_str());
        for beat in beats {
            call.push(beat.id.as_str());
            if beat.stopping {
                call.push(format!("!{}", beat.run));
            } else {
                call.push(beat.run.as_str());
            }
        }
        let mut reply = self.ok(queue, call).await?;
        let now_ms = reply.number()?;
        let lease = Duration::from_millis(reply.number()?);
        let answers = reply.for_each(beats.len(), |reply, tag| {
            let (what, hard_end_ms, by) = (reply.text()?, reply.number()?, reply.text()?);
            Ok(match tag {
                "ok" => BeatAnswer::Ok,
                "stop" => BeatAnswer::Stop { cause: cause(&what)?, hard_end_ms, by },
                "ended" => BeatAnswer::Ended(what.parse()?),
                "gone" => BeatAnswer::Gone,
                "lost" => BeatAnswer::Lost,
                "corrupt" => BeatAnswer::Corrupt,
                _ => return Err(reply.unknown_tag(tag)),
            })
        })?;
        if answers.len() != beats.len() {
            return Err(Error::Protocol("heartbeat answered another number of runs than asked".into()));
        }
        Ok(Beats { now_ms, lease, answers })
    }
}
