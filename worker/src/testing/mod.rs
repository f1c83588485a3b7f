//! For tests of handlers: one run, in this process, without Redis.
//!
//! ```
//! use std::time::Duration;
//! use leasehold_worker::testing::{Ended, Trial};
//! use leasehold_worker::{Context, StopCause, Task, TaskError};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Fetch { url: String }
//! impl Task for Fetch {
//!     const NAME: &'static str = "fetch";
//!     type Output = u64;
//! }
//!
//! async fn fetch(context: Context, task: Fetch) -> Result<u64, TaskError> {
//!     context.phase("download", Duration::from_secs(60)).await?;
//!     context.spend("requests", 1).await?;
//!     if task.url.ends_with("/slow") {
//!         tokio::time::sleep(Duration::from_secs(3600)).await;
//!     }
//!     Ok(task.url.len() as u64)
//! }
//!
//! // In a test: #[tokio::test(start_paused = true)], so that an hour is over at once.
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! let task = Fetch { url: "https://example.org/".into() };
//! let report = Trial::of(&task).budget("requests", 3).run(fetch).await;
//! assert_eq!(report.ended, Ended::Completed(20));
//! assert_eq!(report.spent["requests"], 1);
//!
//! let slow = Fetch { url: "https://example.org/slow".into() };
//! let report = Trial::of(&slow).budget("requests", 3).run(fetch).await;
//! assert!(matches!(report.ended, Ended::Stopped { cause: StopCause::PhaseTimeout, .. }));
//! # });
//! ```

mod decided;
mod recorder;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_common::body::{Body, TaskKind};
use leasehold_common::bounds::Deadline;
use leasehold_common::clock::wall_ms;
use leasehold_common::limits::Limits;
use leasehold_common::name::{
    BudgetName, Incarnation, Lane, Namespace, Owner, QueueName, RunId, TaskId, TaskName, WorkerName,
};
use leasehold_common::record::{FailureDetail, FailureKind, StopCause};
use leasehold_common::store::{ClaimedTask, Outcome, RetryAdvice, Store};
use leasehold_common::task::{Spec, Task, decode, encode};
use leasehold_common::transport::RecordingTransport;

use crate::context::Context;
use crate::error::TaskError;
use crate::executor::Executor;
use crate::guard::BootInstant;
use crate::handler::Handlers;
use crate::heartbeat::{Leases, Nudge};
use crate::redact::Secrets;
use crate::run::Run;
use crate::telling::Teller;
use decided::decided;
use recorder::Recorder;

/// Output of a trial that is kept.
const LOG_BYTES: usize = 1024 * 1024;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended<O> {
    /// With a result.
    Completed(O),
    /// With a failure.
    Failed {
        /// Its class.
        kind: FailureKind,
        /// As people would read it.
        message: String,
        /// When it would be tried again.
        retry: RetryAdvice,
    },
    /// It was asked to end, and did, by whatever way, or its future was dropped after its grace. By cause the task ends
    /// as `aborted`, `timed_out` or `failed` (`budget_exceeded`), or is tried again as its policy says.
    Stopped {
        /// Why.
        cause: StopCause,
        /// As people would read it.
        message: String,
    },
    /// It asked to be run again later.
    Snoozed(Duration),
}

/// What a run made of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Report<O> {
    /// How it ended.
    pub ended: Ended<O>,
    /// The share that it told last, 0 to 1.
    pub progress: Option<f64>,
    /// The message that it told last.
    pub note: String,
    /// Its log.
    pub log: String,
    /// The phases it entered, in order, with their timeouts.
    pub phases: Vec<(String, Option<Duration>)>,
    /// What it spent, by budget.
    pub spent: BTreeMap<String, u64>,
    /// The checkpoint that it left, or found: MessagePack. See [`checkpoint_as`](Self::checkpoint_as).
    pub checkpoint: Option<Vec<u8>>,
}

impl<O> Report<O> {
    /// The checkpoint, decoded.
    ///
    /// # Panics
    /// If it is of another type.
    #[must_use]
    pub fn checkpoint_as<C: serde::de::DeserializeOwned>(&self) -> Option<C> {
        let decoded = |bytes: &Vec<u8>| decode("checkpoint", bytes);
        self.checkpoint.as_ref().map(|bytes| decoded(bytes).unwrap_or_else(|error| panic!("{error}")))
    }
}

/// One run of a task, about to be tried. See the [module](self) for an example.
#[derive(Debug, Clone)]
#[must_use = "nothing runs before `run`"]
pub struct Trial {
    body: Body,
    attempt: u64,
    failures: u64,
    checkpoint: Option<Vec<u8>>,
    spent: BTreeMap<String, u64>,
    stop_after: Option<(Duration, StopCause)>,
}

impl Trial {
    /// The first attempt of a task, with the bounds of its type.
    ///
    /// # Panics
    /// If the payload cannot be encoded, or the type's name is none.
    pub fn of<T: Task>(task: &T) -> Self {
        let spec = T::spec();
        let body = Body {
            name: TaskName::new(T::NAME).unwrap_or_else(|error| panic!("{error}")),
            kind: TaskKind::Handler,
            payload: encode("payload", task).unwrap_or_else(|error| panic!("{error}")),
            policy: spec.policy,
            priority: spec.priority,
            owner: None,
            lane: None,
            bounds: spec.bounds,
            headers: BTreeMap::new(),
            result_rule: spec.result_rule,
            origins: spec.origins,
        };
        Self { body, attempt: 1, failures: 0, checkpoint: None, spent: BTreeMap::new(), stop_after: None }
    }

    /// Which attempt it is, from 1, and how many failed before. Defaults to the first.
    pub fn attempt(mut self, attempt: u64, failures: u64) -> Self {
        (self.attempt, self.failures) = (attempt, failures);
        self
    }

    /// Bounds, priority and result rule in place of the type's.
    pub fn spec(mut self, spec: Spec) -> Self {
        (self.body.policy, self.body.priority) = (spec.policy, spec.priority);
        (self.body.bounds, self.body.result_rule) = (spec.bounds, spec.result_rule);
        self
    }

    /// What an earlier attempt left.
    ///
    /// # Panics
    /// If it cannot be encoded.
    pub fn checkpoint<C: serde::Serialize + ?Sized>(mut self, left: &C) -> Self {
        self.checkpoint = Some(encode("checkpoint", left).unwrap_or_else(|error| panic!("{error}")));
        self
    }

    /// The next attempt after one that was tried: it finds its checkpoint, and what it has spent is spent.
    pub fn after<O>(mut self, earlier: &Report<O>) -> Self {
        (self.attempt, self.checkpoint) = (self.attempt + 1, earlier.checkpoint.clone());
        self.spent.clone_from(&earlier.spent);
        self
    }

    /// What it may spend.
    ///
    /// # Panics
    /// If the name is none.
    pub fn budget(mut self, name: &str, most: u64) -> Self {
        let name = BudgetName::new(name).unwrap_or_else(|error| panic!("{error}"));
        self.body.bounds.budgets.insert(name, most);
        self
    }

    /// Whom it belongs to.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.body.owner = Some(owner);
        self
    }

    /// What it takes its turn in.
    pub fn lane(mut self, lane: Lane) -> Self {
        self.body.lane = Some(lane);
        self
    }

    /// A header that the producer passed through.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.body.headers.insert(name.into(), value.into());
        self
    }

    /// Asks it to stop after so long, as an abort or a drain would.
    pub fn stop_after(mut self, after: Duration, cause: StopCause) -> Self {
        self.stop_after = Some((after, cause));
        self
    }

    /// Runs it. Its bounds hold, by tokio's clock: in a test that pauses it they pass at once. Cleanups run, secrets are
    /// masked, and the result is judged, as in a worker; what the run says after it was asked to stop ends it as Redis
    /// decides. A deadline that is a time is compared with the time of day, and one that has passed runs nothing.
    ///
    /// # Panics
    /// If the handler's output is no output of the task.
    pub async fn run<T, F, Fut, E>(self, handler: F) -> Report<T::Output>
    where
        T: Task,
        F: Fn(Context, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T::Output, E>> + Send + 'static,
        E: Into<TaskError> + Send + 'static,
    {
        let recorder =
            Arc::new(Recorder::new(&self.body.bounds.budgets, &self.spent, self.checkpoint.clone()));
        let mut handlers = Handlers::default();
        handlers.add(handler).unwrap_or_else(|error| panic!("{error}"));
        let executor = executor(handlers, &recorder);
        let outcome = BootInstant::by_tokio(self.see_through(&executor)).await;
        report(outcome, &recorder)
    }

    async fn see_through(&self, executor: &Executor) -> (Option<Outcome>, Arc<Run>) {
        // A trial's lease never runs out.
        let run = Run::new(&queue(), self.claimed(), BootInstant::from_nanos(u64::MAX));
        if run.claimed.deadline_in == Some(Duration::ZERO) {
            // The claim finds it too late: no worker ever sees such a task.
            let message = "the deadline passed before the next attempt".to_owned();
            let detail = FailureDetail::default();
            return (Some(Outcome::Stopped { cause: StopCause::Deadline, message, detail }), run);
        }
        let ordered = async {
            if let Some((after, cause)) = self.stop_after {
                tokio::time::sleep(after).await;
                run.stop(cause, BootInstant::now().plus(self.body.policy.stop_grace));
            }
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            // cancel-safe: the order only waits.
            ended = executor.see_through(&run) => ended.map(decided),
            () = ordered => None,
        };
        (outcome, run)
    }

    fn claimed(&self) -> ClaimedTask {
        let bounds = &self.body.bounds;
        let deadline_in = bounds.deadline.map(|deadline| match deadline {
            Deadline::After(after) => after,
            Deadline::At(ms) => Duration::from_millis(ms.saturating_sub(wall_ms())),
        });
        ClaimedTask {
            id: TaskId::fresh(),
            run: RunId::new("normal:1-0").unwrap_or_else(|error| panic!("{error}")),
            attempt: self.attempt,
            failures: self.failures,
            reclaims: 0,
            token: self.attempt,
            begun_ms: 1,
            stop: None,
            deadline_in,
            body: self.body.encode().unwrap_or_else(|error| panic!("{error}")),
        }
    }
}

fn queue() -> QueueName {
    QueueName::new("trial").unwrap_or_else(|error| panic!("{error}"))
}

fn executor(handlers: Handlers, recorder: &Arc<Recorder>) -> Executor {
    Executor {
        store: Store::over(Arc::new(RecordingTransport::default()), Namespace::default()),
        incarnation: Incarnation::fresh(),
        worker: WorkerName::new("trial").unwrap_or_else(|error| panic!("{error}")),
        handlers,
        commands: None,
        limits: Limits::default(),
        teller: Teller::default(),
        voice: Arc::clone(recorder) as _,
        nudge: Nudge::default(),
        leases: Arc::new(Leases::default()),
        secrets: Arc::new(Secrets::default()),
        cleanup_timeout: Duration::from_secs(5),
    }
}

fn report<O: serde::de::DeserializeOwned>(
    (outcome, run): (Option<Outcome>, Arc<Run>),
    recorder: &Recorder,
) -> Report<O> {
    let told = recorder.told();
    let (progress, note) = run.telling.newest();
    let log: Vec<u8> = run.telling.output.take(LOG_BYTES).into_iter().flat_map(|chunk| chunk.bytes).collect();
    Report {
        ended: ended(outcome),
        progress,
        note,
        log: String::from_utf8_lossy(&log).into_owned(),
        phases: told.phases.into_iter().map(|(name, timeout)| (name.to_string(), timeout)).collect(),
        spent: told.budgets.into_iter().map(|(name, held)| (name.to_string(), held.spent)).collect(),
        checkpoint: told.checkpoint,
    }
}

fn ended<O: serde::de::DeserializeOwned>(outcome: Option<Outcome>) -> Ended<O> {
    match outcome {
        Some(Outcome::Completed(output)) => {
            Ended::Completed(decode("result", &output).unwrap_or_else(|error| panic!("{error}")))
        }
        Some(Outcome::Failed { kind, message, retry, .. }) => Ended::Failed { kind, message, retry },
        Some(Outcome::Stopped { cause, message, .. }) => Ended::Stopped { cause, message },
        Some(Outcome::Snoozed(delay)) => Ended::Snoozed(delay),
        Some(Outcome::Released) | None => {
            Ended::Stopped { cause: StopCause::Drain, message: "handed back".to_owned() }
        }
        Some(Outcome::Unknown { name }) => unreachable!("the handler of {name} was added"),
    }
}
