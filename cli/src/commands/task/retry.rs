//! `leasehold task retry`.

use clap::Args;
use leasehold_producer::RetryAnswer;
use serde_json::json;

use super::Which;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;

/// Run an ended task again: failures and reclaims start anew, its number of attempts goes on, history is kept.
#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(context: &Context, args: &RetryArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let task = args.which.find(&producer).await?;
    let id = task.id();
    match task.retry().await? {
        RetryAnswer::Retried(state) => {
            context
                .output
                .either(&json!({ "id": id, "queue": task.queue(), "state": state }), || state.to_string())?;
            Ok(Exit::Success)
        }
        RetryAnswer::Live(state) => {
            Err(Failure::failed(format!("task {id} is {state}: only a task that has ended can be run again")))
        }
        RetryAnswer::NoCheckpoint(state) => {
            Err(Failure::failed(format!("task {id} is {state} and no run of it left a checkpoint")))
        }
        RetryAnswer::Changed(state) => Err(super::changed(id, state)),
        RetryAnswer::NotFound => Err(Failure::not_found(format!("task {id} was removed meanwhile"))),
        RetryAnswer::Corrupt => Err(super::corrupt(id)),
    }
}
