//! What a run tells of itself while it runs.

use super::Store;
use crate::error::Result;
use crate::name::{Incarnation, QueueName, RunId, TaskId};
use crate::script;
use crate::transport::ScriptCall;

/// Progress of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The task.
    pub id: TaskId,
    /// The run.
    pub run: RunId,
    /// Grows with each call of this run, from 1.
    pub number: u64,
    /// 0 to 1; none leaves it as it is.
    pub share: Option<f64>,
    /// For people; empty leaves it as it is.
    pub message: String,
}

/// Which stream a piece of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output, and the log of handlers.
    Out,
    /// Standard error.
    Err,
}

impl OutputStream {
    /// The name as the script spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::Err => "err",
        }
    }
}

/// A piece of a run's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// The task.
    pub id: TaskId,
    /// The run.
    pub run: RunId,
    /// Where it begins, in bytes of the run's whole output: a gap says how much was dropped.
    pub offset: u64,
    /// Where it came from.
    pub stream: OutputStream,
    /// The bytes.
    pub text: Vec<u8>,
}

/// What became of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateAnswer {
    /// Taken, or taken before.
    Ok,
    /// The task was removed.
    Gone,
    /// The task belongs to another run: nothing was changed.
    Lost,
    /// The record cannot be read: nothing was changed.
    Corrupt,
}

impl Store {
    /// Notes the progress of runs.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn progress(
        &self,
        queue: &QueueName,
        incarnation: &Incarnation,
        items: &[Progress],
    ) -> Result<Vec<UpdateAnswer>> {
        let mut call = self.update_call(queue, incarnation, "progress");
        for item in items {
            call.push(item.id.as_str());
            call.push(item.run.as_str());
            call.push(item.number.to_string());
            call.push(item.share.map(|s| s.clamp(0.0, 1.0).to_string()).unwrap_or_default());
            call.push(item.message.as_str());
        }
        self.updated(queue, call).await
    }

    /// Appends to the logs of runs. A full Redis refuses it, and the run goes on.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn append_log(
        &self,
        queue: &QueueName,
        incarnation: &Incarnation,
        pieces: &[LogPiece],
    ) -> Result<Vec<UpdateAnswer>> {
        let mut call = self.update_call(queue, incarnation, "log");
        for piece in pieces {
            call.push(piece.id.as_str());
            call.push(piece.run.as_str());
            call.push(piece.offset.to_string());
            call.push(piece.stream.as_str());
            call.push(&piece.text[..]);
        }
        self.updated(queue, call).await
    }

    fn update_call(&self, queue: &QueueName, incarnation: &Incarnation, kind: &str) -> ScriptCall {
        ScriptCall::new(&script::UPDATE, &self.keys(queue)).arg(incarnation.as_str()).arg(kind)
    }

    async fn updated(&self, queue: &QueueName, call: ScriptCall) -> Result<Vec<UpdateAnswer>> {
        let mut reply = self.ok(queue, call).await?;
        reply.number()?;
        let mut answers = Vec::new();
        while reply.has_more() {
            let tag = reply.text()?;
            answers.push(match tag.as_str() {
                "ok" => UpdateAnswer::Ok,
                "gone" => UpdateAnswer::Gone,
                "lost" => UpdateAnswer::Lost,
                "corrupt" => UpdateAnswer::Corrupt,
                _ => return Err(reply.unknown_tag(&tag)),
            });
        }
        Ok(answers)
    }
}
