//! Claiming: the one call that hands tasks to a worker.

use std::time::Duration;

use redis::Value;

use super::finish::{Finish, FinishAnswer, finish_answers, finish_call};
use super::reply::{Refusal, Reply};
use super::{Store, unexpected};
use crate::error::{Error, Result};
use crate::limits::{BATCH_ITEMS, CLAIM_BYTES};
use crate::name::{Incarnation, QueueName, RunId, TaskId, WorkerName};
use crate::record::{StopCause, TaskRecord};
use crate::script;
use crate::transport::{Doorbell, ScriptCall};

/// What a worker asks for.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// Who asks.
    pub incarnation: Incarnation,
    /// Its name, for people.
    pub worker: WorkerName,
    /// The number of this claim on this queue: the same until answered, then one more.
    pub number: u64,
    /// Free slots. Zero gives a popped wake marker back.
    pub want: usize,
    /// It popped the wake marker.
    pub woken: bool,
    /// It is sent before the worker is woken and waits in Redis: whether the worker still stands then nobody knows, so it
    /// is given one plain task at most, none that must not be started twice.
    pub at_bell: bool,
    /// The last claim of a stopping worker: repeats the last answer, and every later claim is refused.
    pub closing: bool,
}

/// A task handed to the worker: its run begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedTask {
    /// Its id.
    pub id: TaskId,
    /// This claim of it.
    pub run: RunId,
    /// How often it was claimed, this time included.
    pub attempt: u64,
    /// Its failures so far.
    pub failures: u64,
    /// How often it lost its worker so far.
    pub reclaims: u64,
    /// Grows with every claim of the queue: for systems outside.
    pub token: u64,
    /// When this run began, ms by Redis's clock.
    pub begun_ms: u64,
    /// A stop that came before the answer did (repeats only): cause and hard end in ms.
    pub stop: Option<(StopCause, u64)>,
    /// Until the task ends wherever it is, if it has a deadline.
    pub deadline_in: Option<Duration>,
    /// Its body, see [`crate::body::Body::decode`].
    pub body: Vec<u8>,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Redis's time, ms.
    pub now_ms: u64,
    /// The queue's lease T.
    pub lease: Duration,
    /// For the one worker that watches due times: until the next one.
    pub next_due: Option<Duration>,
    /// More is claimable than a claim at the bell is given: claim at once.
    pub more: bool,
    /// The tasks.
    pub tasks: Vec<ClaimedTask>,
    /// Tasks that were handed out and that this release cannot read (foreign data): their leases lapse.
    pub unreadable: Vec<String>,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// It was answered.
    Claimed(Claimed),
    /// Its number is lower than the last one: a late duplicate.
    Stale,
    /// This incarnation has made its closing claim.
    Closed,
    /// A later worker of its name has declared this incarnation dead: none of its claims is answered again.
    Dead,
}

/// What a claim at the bell is told in the place of the next due time.
const MORE: i64 = -2;

fn claim_call(store: &Store, queue: &QueueName, request: &ClaimRequest) -> ScriptCall {
    ScriptCall::new(&script::CLAIM, &store.keys(queue))
        .arg(request.incarnation.as_str())
        .arg(request.worker.as_str())
        .arg(request.number.to_string())
        .arg(request.want.min(BATCH_ITEMS).to_string())
        .arg(CLAIM_BYTES.to_string())
        .arg(match (request.closing, request.at_bell) {
            (true, _) => "closing",
            (false, true) => "bell",
            (false, false) => "open",
        })
        .arg(if request.woken { "1" } else { "0" })
}

fn claim_answer(reply: Result<Reply, Refusal>) -> Result<ClaimAnswer> {
    let mut reply = match reply {
        Ok(reply) => reply,
        Err(Refusal::Tag(tag)) if tag == "stale" => return Ok(ClaimAnswer::Stale),
        Err(Refusal::Tag(tag)) if tag == "closed" => return Ok(ClaimAnswer::Closed),
        Err(Refusal::Tag(tag)) if tag == "dead" => return Ok(ClaimAnswer::Dead),
        Err(refusal) => return Err(unexpected(&script::CLAIM, &refusal)),
    };
    let now_ms = reply.number()?;
    let lease = Duration::from_millis(reply.number()?);
    let due = reply.signed()?;
    let (next_due, more) = (u64::try_from(due).ok().map(Duration::from_millis), due == MORE);
    let mut tasks = Vec::new();
    let mut unreadable = Vec::new();
    while reply.has_more() {
        // One that cannot be read must not keep the others from being started.
        let (id, record, apart) = (reply.shown()?, reply.bytes()?, reply.list_if_next()?);
        match claimed_task(&id, &record, apart, now_ms) {
            Ok(task) => tasks.push(task),
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    Ok(ClaimAnswer::Claimed(Claimed { now_ms, lease, next_due, more, tasks, unreadable }))
}

/// A task as the script answers it: id, record, and a list of its body if that lies outside the record.
fn claimed_task(id: &str, record: &[u8], apart: Option<Reply>, now_ms: u64) -> Result<ClaimedTask> {
    let record = TaskRecord::decode(&id.parse()?, record)?;
    let lacks = |what: &str| Error::Protocol(format!("claim answered task {} without {what}", record.id));
    let body = match apart {
        Some(mut body) => body.bytes()?,
        None => record.body.clone().ok_or_else(|| lacks("its body"))?,
    };
    Ok(ClaimedTask {
        run: record.run.clone().ok_or_else(|| lacks("a run"))?,
        attempt: record.attempt,
        failures: record.failures,
        reclaims: record.reclaims,
        token: record.token.ok_or_else(|| lacks("a token"))?,
        begun_ms: record.started_ms.ok_or_else(|| lacks("its begin"))?,
        stop: record.stop.as_ref().map(|stop| (stop.cause, stop.hard_end_ms)),
        deadline_in: record.deadline_ms.map(|at| Duration::from_millis(at.saturating_sub(now_ms))),
        body,
        id: record.id,
    })
}

impl Store {
    /// Claims tasks. Repeat it under the same number until it is answered.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn claim(&self, queue: &QueueName, request: &ClaimRequest) -> Result<ClaimAnswer> {
        claim_answer(self.answer(queue, claim_call(self, queue, request)).await?)
    }

    /// Waits for the wake marker, `block` at most, and claims in the same breath. Repeat the claim under the same
    /// number, by [`claim`](Self::claim), when this fails.
    ///
    /// # Errors
    /// Any error of Redis, among them that the queue or the script is not known; it ends the doorbell.
    pub async fn claim_when_woken(
        &self,
        bell: &mut Doorbell,
        queue: &QueueName,
        request: &ClaimRequest,
        block: Duration,
    ) -> Result<ClaimAnswer> {
        let call = claim_call(self, queue, request);
        let value = bell.wait_then(&self.keys(queue), block, &call).await?;
        claim_answer(Reply::open(&script::CLAIM, value)?)
    }

    /// Ends runs and claims the next ones in one round trip. Either part may fail by itself.
    pub async fn finish_and_claim(
        &self,
        queue: &QueueName,
        incarnation: &Incarnation,
        ends: &[Finish],
        request: &ClaimRequest,
    ) -> (Result<Vec<FinishAnswer>>, Result<ClaimAnswer>) {
        let calls = [finish_call(self, queue, incarnation, ends), claim_call(self, queue, request)];
        let mut answers = self.run_all(&calls).await.into_iter();
        let mut next = |script| match answers.next() {
            Some(Ok(value)) => Reply::open(script, value),
            Some(Err(e)) => Err(e),
            None => Reply::open(script, Value::Nil),
        };
        let finished = next(&script::FINISH).and_then(|reply| match reply {
            Ok(reply) => finish_answers(reply, ends.len()),
            Err(refusal) => Err(unexpected(&script::FINISH, &refusal)),
        });
        let claimed = next(&script::CLAIM).and_then(claim_answer);
        (finished, claimed)
    }
}
