//! `leasehold task`: one task, or a list of them.

mod abort;
mod abort_where;
mod checkpoint;
mod delete;
mod explain;
mod list;
mod logs;
mod retry;
mod show;
mod wait;

use clap::{Args, Subcommand};
use leasehold_producer::{DEFAULT_QUEUE, Producer, QueueName, RawOutput, TaskHandle, TaskId, TaskState};

use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;

/// What to do with tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    Show(show::ShowArgs),
    Explain(explain::ExplainArgs),
    List(list::ListArgs),
    Wait(wait::WaitArgs),
    Abort(abort::AbortArgs),
    Retry(retry::RetryArgs),
    Resume(retry::ResumeArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Logs(logs::LogsArgs),
    Delete(delete::DeleteArgs),
}

/// Which task.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The task: the id that `enqueue` or `exec` printed
    #[arg(value_name = "ID")]
    pub(crate) id: TaskId,
    /// The queue it is in [default: default, else whichever queue has the id]
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<QueueName>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, command: &TaskCommand) -> Result<Exit> {
    match command {
        TaskCommand::Show(args) => show::run(context, args).await,
        TaskCommand::Explain(args) => explain::run(context, args).await,
        TaskCommand::List(args) => list::run(context, args).await,
        TaskCommand::Wait(args) => wait::run(context, args).await,
        TaskCommand::Abort(args) => abort::run(context, args).await,
        TaskCommand::Retry(args) => retry::run(context, args).await,
        TaskCommand::Resume(args) => retry::resume(context, args).await,
        TaskCommand::Checkpoint(args) => checkpoint::run(context, args).await,
        TaskCommand::Logs(args) => logs::run(context, args).await,
        TaskCommand::Delete(args) => delete::run(context, args).await,
    }
}

impl Which {
    /// The task, which exists: in the queue named, in `default`, or in the one queue that has it.
    pub(crate) async fn find(&self, producer: &Producer) -> Result<TaskHandle<RawOutput>> {
        let queue = match &self.queue {
            Some(queue) => {
                let known = producer.record(queue, &self.id).await?;
                known.map(|_| queue.clone()).ok_or_else(|| self.missing(&format!("in queue {queue}")))?
            }
            None => self.search(producer).await?,
        };
        Ok(producer.task(queue, self.id.clone()))
    }

    async fn search(&self, producer: &Producer) -> Result<QueueName> {
        let default = QueueName::new(DEFAULT_QUEUE)?;
        if producer.record(&default, &self.id).await?.is_some() {
            return Ok(default);
        }
        let having: Vec<QueueName> =
            producer.find(&self.id).await?.into_iter().map(|(queue, _)| queue).collect();
        match &having[..] {
            [queue] => Ok(queue.clone()),
            [] => Err(self.missing("in any queue")),
            several => {
                let names: Vec<&str> = several.iter().map(QueueName::as_str).collect();
                let reason = format!("several queues have this id: name one of {}", names.join(", "));
                Err(Failure::usage("queue", reason))
            }
        }
    }

    fn missing(&self, place: &str) -> Failure {
        Failure::not_found(format!("there is no task {} {place}", self.id))
            .hint("it was never enqueued here, or removed after its retention; `leasehold task list` lists those there are")
    }
}

/// The record cannot be read: nothing was changed.
fn corrupt(id: &TaskId) -> Failure {
    Failure::failed(format!("the record of task {id} cannot be read: nothing was changed"))
        .hint("`leasehold doctor` tells more")
}

/// It has changed since it was looked at.
fn changed(id: &TaskId, state: TaskState) -> Failure {
    Failure::failed(format!("task {id} changed meanwhile and is {state} now: nothing was done"))
        .hint("look at it, then try again")
}
