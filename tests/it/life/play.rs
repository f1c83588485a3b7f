//! A handler that plays what its task says, step by step.

use std::time::Duration;

use leasehold_producer::{Enqueue, Payload, Policy, RawOutput, RawTask, Spec, TaskName};
use leasehold_tests::let_time_pass_async;
use leasehold_worker::{Context, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};

use crate::aborts::kit::{Hands, Kit, quick};

/// What a run does, one after another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Step {
    /// Enters a phase with a timeout in ms.
    Phase(String, Option<u64>),
    /// Works for so many ms; obeys a stop.
    Work(u64),
    /// Charges a budget.
    Spend(String, u64),
    /// Charges one of a budget for ever, whatever is answered.
    SpendForEver(String),
    /// Keeps a checkpoint.
    Keep(u64),
    /// Fails, unless a checkpoint of at least this is there.
    Need(u64),
    /// Tells of progress every so many ms, so many times.
    Tell(u64, u64),
    /// Fails if it is the first attempt.
    FailFirst,
    /// Fails.
    Fail,
}

/// A task that plays.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Play {
    pub(super) steps: Vec<Step>,
}

impl Task for Play {
    const NAME: &'static str = "play";
    type Output = Option<u64>;
}

pub(super) fn phase(name: &str, timeout_ms: impl Into<Option<u64>>) -> Step {
    Step::Phase(name.to_owned(), timeout_ms.into())
}

pub(super) fn spend(budget: &str, amount: u64) -> Step {
    Step::Spend(budget.to_owned(), amount)
}

async fn obey(context: &Context, ms: u64) -> Result<(), TaskError> {
    tokio::select! {
        () = context.stopped().cancelled() => Err(TaskError::retry("told to stop")),
        () = let_time_pass_async("the task works", Duration::from_millis(ms)) => Ok(()),
    }
}

async fn step(context: &Context, step: Step) -> Result<(), TaskError> {
    match step {
        Step::Phase(name, timeout) => context.phase(name, timeout.map(Duration::from_millis)).await?,
        Step::Work(ms) => obey(context, ms).await?,
        Step::Spend(budget, amount) => drop(context.spend(budget, amount).await?),
        Step::SpendForEver(budget) => loop {
            // An agent that does not listen.
            context.spend(&budget, 1).await.ok();
        },
        Step::Keep(n) => context.set_checkpoint(&n).await?,
        Step::Need(least) => {
            let kept = context.checkpoint::<u64>().await?;
            if kept.is_none_or(|kept| kept < least) {
                return Err(TaskError::fatal(format!("the checkpoint is {kept:?}")));
            }
        }
        Step::Tell(every, times) => {
            for n in 0..times {
                context.progress(n as f64 / times as f64, "")?;
                obey(context, every).await?;
            }
        }
        Step::FailFirst if context.attempt() == 1 => return Err(TaskError::retry("not at first")),
        Step::FailFirst => {}
        Step::Fail => return Err(TaskError::retry("it is to fail")),
    }
    Ok(())
}

async fn play(context: Context, play: Play) -> Result<Option<u64>, TaskError> {
    for one in play.steps {
        step(&context, one).await?;
    }
    Ok(context.checkpoint::<u64>().await?)
}

/// A worker inside the test that plays.
pub(super) async fn player(kit: &Kit, slots: usize) -> Hands {
    kit.hands(slots, |worker: Worker| worker.handle(play)).await
}

/// A task that plays these steps, with the bounds of the fast profile.
pub(super) fn task(kit: &Kit, id: &str, steps: impl IntoIterator<Item = Step>) -> Enqueue<RawOutput> {
    task_with(kit, id, quick(), steps)
}

pub(super) fn task_with(
    kit: &Kit,
    id: &str,
    policy: Policy,
    steps: impl IntoIterator<Item = Step>,
) -> Enqueue<RawOutput> {
    let play = Play { steps: steps.into_iter().collect() };
    let payload = leasehold_common::task::encode("payload", &play).unwrap();
    let name = TaskName::new(Play::NAME).unwrap();
    let mut raw = RawTask::new(kit.queue.clone(), name, Payload::MessagePack(payload));
    raw.spec = Spec { policy, ..Spec::default() };
    kit.producer.enqueue_raw(raw).id(id)
}
