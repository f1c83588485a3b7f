//! What a handler knows of its run, and what it can say while it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_common::body::Body;
use leasehold_common::bounds::MOST_BUDGET;
use leasehold_common::limits::{Limits, check_size};
use leasehold_common::name::{BudgetName, Lane, Owner, PhaseName, QueueName, TaskId, WorkerName};
use leasehold_common::record::StopCause;
use leasehold_common::task::{decode, encode};
use leasehold_common::time::{MAX_DURATION, display_duration};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::executor::Executor;
use crate::guard::BootInstant;
use crate::heartbeat::Nudge;
use crate::run::Run;
use crate::telling::Teller;
use crate::voice::{RunError, Voice, taken, until_answered};

/// A handler's view of its run. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    run: Arc<Run>,
    body: Body,
    worker: WorkerName,
    teller: Teller,
    voice: Arc<dyn Voice>,
    nudge: Nudge,
    limits: Limits,
}

impl Context {
    pub(crate) fn new(run: Arc<Run>, body: Body, with: &Executor) -> Self {
        let inner = Inner {
            run,
            body,
            worker: with.worker.clone(),
            teller: with.teller.clone(),
            voice: Arc::clone(&with.voice),
            nudge: with.nudge.clone(),
            limits: with.limits,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The task's id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.inner.run.key.id
    }

    /// The queue it came from.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.inner.run.key.queue
    }

    /// How often the task was claimed, this time included.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.inner.run.claimed.attempt
    }

    /// Failures of earlier attempts.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.inner.run.claimed.failures
    }

    /// A number that grows with every claim in the queue. Hand it to systems outside, which then can refuse
    /// what an earlier run still sends.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.inner.run.claimed.token
    }

    /// Whom the task belongs to.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.inner.body.owner.as_ref()
    }

    /// What the task takes its turn in.
    #[must_use]
    pub fn lane(&self) -> Option<&Lane> {
        self.inner.body.lane.as_ref()
    }

    /// What the producer passed through.
    #[must_use]
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.inner.body.headers
    }

    /// The worker that runs it.
    #[must_use]
    pub fn worker(&self) -> &WorkerName {
        &self.inner.worker
    }

    /// Cancelled when the run should end (abort, timeout, a stopping worker, a lost lease): clean up and
    /// return. After the task's stop grace the future is dropped. An `Ok` returned after it still counts.
    #[must_use]
    pub fn stopped(&self) -> &CancellationToken {
        &self.inner.run.stopped
    }

    /// Tells how far the run is: `share` from 0 to 1, and a message of at most 1 KiB. Returns at once; only
    /// the newest leaves the worker, at most every 100 ms.
    ///
    /// # Errors
    /// [`leasehold_common::Error::Invalid`] for a share out of range or a message too long.
    pub fn progress(&self, share: f64, message: impl Into<String>) -> leasehold_common::Result<()> {
        let message = message.into();
        if !(0.0..=1.0).contains(&share) {
            return Err(leasehold_common::Error::invalid("progress", format!("{share} is not 0 to 1")));
        }
        check_size("progress message", message.len(), self.inner.limits.progress)?;
        self.inner.run.telling.set_progress(Some(share), &message);
        self.inner.run.bounds.note_life();
        self.inner.teller.news();
        Ok(())
    }

    /// Adds a line to the task's log. Returns at once; what comes faster than Redis takes it is dropped in
    /// the middle, and the log says how much.
    pub fn log(&self, line: &str) {
        self.inner.run.telling.log(&format!("{line}\n"));
        self.inner.run.bounds.note_life();
        self.inner.teller.news();
    }

    /// Enters a phase, which ends the one before: a name `[A-Za-z0-9._-]{1,64}`, and how long it may last, 1 ms to ten years
    /// (none = as long as the run). Entered again, a phase begins anew. The task's record says which phase it is in and
    /// since when; one that lasts too long ends the run, and the failure names it.
    ///
    /// # Errors
    /// [`RunError::Lost`]; [`RunError::Protocol`] for a name or a timeout out of range, and for a name that holds a secret:
    /// masked it would be none. An outage of Redis is waited out.
    pub async fn phase(
        &self,
        name: impl AsRef<str>,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<(), RunError> {
        let (run, name) = (&self.inner.run, name.as_ref());
        if run.telling.secrets.mask(name) != name {
            let reason = "holds a value that is marked secret: name the step, not what it works on";
            return Err(leasehold_common::Error::invalid("phase", reason).into());
        }
        let (name, timeout) = (PhaseName::new(name)?, timeout.into());
        check_phase_timeout(timeout)?;
        let mut number = run.said.phases.lock().await;
        *number += 1;
        let call = || self.inner.voice.enter_phase(&run.key, *number, &name, timeout);
        let answer = until_answered(run, call).await?;
        taken(answer)?;
        run.bounds.enter_phase(timeout);
        Ok(())
    }

    /// Charges a budget of the task, and returns what is left of it. Charges of all attempts count.
    ///
    /// # Errors
    /// [`RunError::BudgetExceeded`] for a charge above the rest: it is refused whole, the run is asked to stop, and whatever
    /// it returns then, the task ends as failed. [`RunError::NoSuchBudget`]; [`RunError::Lost`]. An outage of Redis is
    /// waited out.
    pub async fn spend(&self, budget: impl AsRef<str>, amount: u64) -> Result<u64, RunError> {
        let budget = BudgetName::new(budget.as_ref())?;
        if amount > MOST_BUDGET {
            let reason = format!("{amount} is over {MOST_BUDGET}");
            return Err(leasehold_common::Error::invalid("amount", reason).into());
        }
        let run = &self.inner.run;
        run.bounds.note_life();
        let charged = run.said.spending.charge(run, &*self.inner.voice, budget, amount).await;
        if let Err(RunError::BudgetExceeded { .. }) = charged {
            let grace = self.inner.body.policy.stop_grace;
            run.stop(StopCause::BudgetExceeded, BootInstant::now().plus(grace));
            self.inner.nudge.beat();
        }
        charged
    }

    /// Keeps what the next attempt may go on from, in the place of what there was: at most 1 MiB of MessagePack.
    ///
    /// # Errors
    /// [`RunError::Lost`]; [`RunError::Protocol`] for a value that is too large. An outage of Redis is waited out.
    pub async fn set_checkpoint<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), RunError> {
        let bytes = encode("checkpoint", value)?;
        check_size("checkpoint", bytes.len(), self.inner.limits.checkpoint)?;
        let run = &self.inner.run;
        let mut number = run.said.checkpoints.lock().await;
        *number += 1;
        let answer =
            until_answered(run, || self.inner.voice.set_checkpoint(&run.key, *number, &bytes)).await?;
        run.bounds.note_life();
        taken(answer)
    }

    /// What an earlier run of the task, or this one, kept last.
    ///
    /// # Errors
    /// [`RunError::Protocol`] for one that is no `T`. An outage of Redis is waited out.
    pub async fn checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, RunError> {
        let run = &self.inner.run;
        let bytes = until_answered(run, || self.inner.voice.checkpoint(&run.key)).await?;
        Ok(bytes.map(|bytes| decode("checkpoint", &bytes)).transpose()?)
    }

    /// Keeps a secret out of what this run tells from now on: log, progress, the messages of its failures and
    /// panics show `***` in its place. Found is the value as it is, byte for byte, not one that is encoded or
    /// spread over both streams of the log. A result is data and stays as it is. Each secret costs a little for
    /// every byte that is told.
    ///
    /// # Errors
    /// [`leasehold_common::Error::Invalid`] for 1 to 3 bytes; they would be found all over. Nothing is no secret.
    pub fn redact(&self, value: impl AsRef<[u8]>) -> leasehold_common::Result<()> {
        self.inner.run.telling.secrets.add("secret", value.as_ref())
    }

    /// Has `cleanup` run at the end of this run, however that comes: an `Ok` or an `Err`, a panic, a stop (obeyed, or
    /// after the grace, when the handler's future has been dropped), a drain, a lost lease. Of several, the last that
    /// was added runs first. They run before Redis is told of the end, under the same lease.
    ///
    /// Each may take [`Config::cleanup_timeout`](crate::Config::cleanup_timeout), all together twice that, and after
    /// a stop no longer than the stop leaves. One that panics or is not done in time is dropped, logged and noted in
    /// the task's log; the outcome of the run stays what it was. Nothing runs them when the process dies: what must
    /// be cleaned up then as well belongs to a place that others can find. After a lost lease another run may be at
    /// work already: whatever is shared has to be told apart, by [`token`](Self::token) or the like.
    ///
    /// ```no_run
    /// # async fn example(context: leasehold_worker::Context) {
    /// let scratch = "/var/tmp/scratch-7";
    /// context.on_end(async move || {
    ///     let _ = tokio::fs::remove_dir_all(scratch).await;
    /// });
    /// # }
    /// ```
    pub fn on_end<F, Fut>(&self, cleanup: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        if !self.inner.run.cleanups.add(cleanup) {
            tracing::warn!(task = %self.id(), "a cleanup was added after the end of its run, and never runs");
        }
    }
}

fn check_phase_timeout(timeout: Option<Duration>) -> leasehold_common::Result<()> {
    let least = Duration::from_millis(1);
    match timeout {
        Some(t) if !(least..=MAX_DURATION).contains(&t) => {
            let most = display_duration(MAX_DURATION);
            let reason = format!("{} is not 1ms to {most}", display_duration(t));
            Err(leasehold_common::Error::invalid("phase timeout", reason))
        }
        _ => Ok(()),
    }
}
