//! What a run tells of itself while it runs.

use std::time::Duration;

use super::Store;
use crate::error::{Error, Result};
use crate::name::{BudgetName, Incarnation, PhaseName, QueueName, RunId, TaskId};
use crate::script;
use crate::time::as_ms;
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

/// A run as it tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Teller<'a> {
    /// The incarnation that owns it.
    pub incarnation: &'a Incarnation,
    /// The task.
    pub id: &'a TaskId,
    /// The run.
    pub run: &'a RunId,
    /// Grows with each call of its kind, from 1: a repeat keeps it.
    pub number: u64,
}

/// What became of charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpendAnswer {
    /// All were taken: so much is left.
    Taken {
        /// What is left.
        rest: u64,
    },
    /// So many were taken, in order; the next one was above the rest and refused whole, and the run is asked to end.
    Exceeded {
        /// How many were taken.
        taken: usize,
        /// What is left.
        rest: u64,
    },
    /// The task has no such budget: nothing was changed.
    Unknown,
    /// The task was removed.
    Gone,
    /// The task belongs to another run: nothing was changed.
    Lost,
    /// The record cannot be read: nothing was changed.
    Corrupt,
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

    /// The run enters a phase, which ends the one before. Its timeout is at least 1 ms.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn enter_phase(
        &self,
        queue: &QueueName,
        teller: &Teller<'_>,
        phase: &PhaseName,
        timeout: Option<Duration>,
    ) -> Result<UpdateAnswer> {
        let timeout = timeout.map(|t| as_ms(t).max(1).to_string()).unwrap_or_default();
        self.tell_one(queue, "phase", teller, &timeout, phase.as_str().as_bytes()).await
    }

    /// Keeps what the next run of the task may read, in the place of what there was.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn set_checkpoint(
        &self,
        queue: &QueueName,
        teller: &Teller<'_>,
        bytes: &[u8],
    ) -> Result<UpdateAnswer> {
        self.tell_one(queue, "checkpoint", teller, "", bytes).await
    }

    /// Says that the system does not end these processes of a run: until the worker is silent about it for a lease and a
    /// beat, nobody takes the run for ended.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn tell_unkillable(
        &self,
        queue: &QueueName,
        teller: &Teller<'_>,
        pids: &str,
    ) -> Result<UpdateAnswer> {
        self.tell_one(queue, "unkillable", teller, "", crate::text::head(pids, 256).as_bytes()).await
    }

    /// Charges a budget of the task, in order, each charge whole.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn spend(
        &self,
        queue: &QueueName,
        teller: &Teller<'_>,
        budget: &BudgetName,
        charges: &[u64],
    ) -> Result<SpendAnswer> {
        let charges = charges.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        let call = self.tell_call(queue, "spend", teller, &charges, budget.as_str().as_bytes());
        let mut reply = self.ok(queue, call).await?;
        reply.number()?;
        let (tag, value) = (reply.text()?, reply.text()?);
        let counts = || {
            let (taken, rest) = value.split_once(' ')?;
            Some((taken.parse().ok()?, rest.parse().ok()?))
        };
        Ok(match (tag.as_str(), counts()) {
            ("ok", Some((_, rest))) => SpendAnswer::Taken { rest },
            ("exceeded", Some((taken, rest))) => SpendAnswer::Exceeded { taken, rest },
            ("unknown", _) => SpendAnswer::Unknown,
            ("gone", _) => SpendAnswer::Gone,
            ("lost", _) => SpendAnswer::Lost,
            ("corrupt", _) => SpendAnswer::Corrupt,
            _ => return Err(reply.unknown_tag(&tag)),
        })
    }

    async fn tell_one(
        &self,
        queue: &QueueName,
        kind: &str,
        teller: &Teller<'_>,
        value: &str,
        text: &[u8],
    ) -> Result<UpdateAnswer> {
        let answers = self.updated(queue, self.tell_call(queue, kind, teller, value, text)).await?;
        answers.first().copied().ok_or_else(|| Error::Protocol("update answered nothing".into()))
    }

    fn tell_call(
        &self,
        queue: &QueueName,
        kind: &str,
        teller: &Teller<'_>,
        value: &str,
        text: &[u8],
    ) -> ScriptCall {
        self.update_call(queue, teller.incarnation, kind)
            .arg(teller.id.as_str())
            .arg(teller.run.as_str())
            .arg(teller.number.to_string())
            .arg(value)
            .arg(text)
    }

    fn update_call(&self, queue: &QueueName, incarnation: &Incarnation, kind: &str) -> ScriptCall {
        ScriptCall::new(&script::UPDATE, &self.keys(queue)).arg(incarnation.as_str()).arg(kind)
    }

    async fn updated(&self, queue: &QueueName, call: ScriptCall) -> Result<Vec<UpdateAnswer>> {
        let mut reply = self.ok(queue, call).await?;
        reply.number()?;
        let mut answers = Vec::new();
        while reply.has_more() {
            let (tag, _) = (reply.text()?, reply.text()?);
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
