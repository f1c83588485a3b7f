//! What a run says and is answered: phases, charges, checkpoints. Handlers reach it by their context.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use leasehold_common::name::{BudgetName, Incarnation, PhaseName};
use leasehold_common::store::{SpendAnswer, Store, Teller, UpdateAnswer};
use leasehold_common::{Error, Result};

use crate::run::{Run, RunKey};

/// After a call that Redis could not answer: it is repeated under its number.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Why a run could not say something, or was refused.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A value is out of its range, or Redis answered something that is no answer.
    #[error(transparent)]
    Protocol(#[from] Error),
    /// The task belongs to another run, or has ended: nothing was changed, and this run must leave no effect any more.
    #[error("this run has lost its task: another run owns it, or it has ended")]
    Lost,
    /// The charge is above the rest of the budget: it was refused whole, and the run has to end.
    #[error("budget {budget} is exceeded: {rest} are left")]
    BudgetExceeded {
        /// The budget.
        budget: BudgetName,
        /// What is left of it.
        rest: u64,
    },
    /// The task was enqueued without such a budget.
    #[error("the task has no budget {0}: give it one when it is enqueued")]
    NoSuchBudget(BudgetName),
}

/// What an answer means for the run.
pub(crate) fn taken(answer: UpdateAnswer) -> std::result::Result<(), RunError> {
    match answer {
        UpdateAnswer::Ok => Ok(()),
        UpdateAnswer::Lost | UpdateAnswer::Gone => Err(RunError::Lost),
        UpdateAnswer::Corrupt => Err(corrupt()),
    }
}

/// The record cannot be read.
pub(crate) fn corrupt() -> RunError {
    Error::Protocol("the record of the task cannot be read: run `leasehold doctor`".into()).into()
}

/// Who takes what runs say: Redis, or the recorder of a test. Each call may be repeated under its number.
pub(crate) trait Voice: fmt::Debug + Send + Sync {
    fn enter_phase<'a>(
        &'a self,
        run: &'a RunKey,
        number: u64,
        phase: &'a PhaseName,
        timeout: Option<Duration>,
    ) -> BoxFuture<'a, Result<UpdateAnswer>>;

    fn spend<'a>(
        &'a self,
        run: &'a RunKey,
        number: u64,
        budget: &'a BudgetName,
        charges: &'a [u64],
    ) -> BoxFuture<'a, Result<SpendAnswer>>;

    fn set_checkpoint<'a>(
        &'a self,
        run: &'a RunKey,
        number: u64,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<UpdateAnswer>>;

    fn checkpoint<'a>(&'a self, run: &'a RunKey) -> BoxFuture<'a, Result<Option<Vec<u8>>>>;

    fn unkillable<'a>(&'a self, run: &'a RunKey, pids: &'a str) -> BoxFuture<'a, Result<UpdateAnswer>>;
}

/// The voice of a worker.
#[derive(Debug)]
pub(crate) struct RedisVoice {
    pub(crate) store: Store,
    pub(crate) incarnation: Incarnation,
}

impl RedisVoice {
    fn of<'a>(&'a self, run: &'a RunKey, number: u64) -> Teller<'a> {
        Teller { incarnation: &self.incarnation, id: &run.id, run: &run.run, number }
    }
}

impl Voice for RedisVoice {
    fn enter_phase<'a>(
        &'a self,
        run: &'a RunKey,
        number: u64,
        phase: &'a PhaseName,
        timeout: Option<Duration>,
    ) -> BoxFuture<'a, Result<UpdateAnswer>> {
        Box::pin(
            async move { self.store.enter_phase(&run.queue, &self.of(run, number), phase, timeout).await },
        )
    }

    fn spend<'a>(
        &'a self,
        run: &'a RunKey,
        number: u64,
        budget: &'a BudgetName,
        charges: &'a [u64],
    ) -> BoxFuture<'a, Result<SpendAnswer>> {
        Box::pin(async move { self.store.spend(&run.queue, &self.of(run, number), budget, charges).await })
    }

    fn set_checkpoint<'a>(
        &'a self,
        run: &'a RunKey,
        number: u64,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<UpdateAnswer>> {
        Box::pin(async move { self.store.set_checkpoint(&run.queue, &self.of(run, number), bytes).await })
    }

    fn checkpoint<'a>(&'a self, run: &'a RunKey) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(self.store.checkpoint(&run.queue, &run.id))
    }

    fn unkillable<'a>(&'a self, run: &'a RunKey, pids: &'a str) -> BoxFuture<'a, Result<UpdateAnswer>> {
        Box::pin(async move { self.store.tell_unkillable(&run.queue, &self.of(run, 0), pids).await })
    }
}

/// Repeats a call until it is answered, or the run is lost meanwhile.
pub(crate) async fn until_answered<'a, T>(
    run: &Run,
    call: impl Fn() -> BoxFuture<'a, Result<T>>,
) -> std::result::Result<T, RunError> {
    loop {
        match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) if !error.is_retryable() => return Err(error.into()),
            Err(_) if run.is_judged() => return Err(RunError::Lost),
            Err(error) => {
                tracing::debug!(task = %run.key.id, %error, "repeating a call of the run");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}
