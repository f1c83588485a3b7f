//! `leasehold task retry` and `leasehold task resume`.

use clap::Args;
use leasehold_common::text::{printable, shell_word};
use leasehold_producer::{RetryAnswer, RetryMode};
use serde_json::json;

use super::Which;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;

/// Run an ended task again: failures, reclaims and budgets start anew, its number of attempts goes on, history is kept.
///
/// It goes to the end of its lane. Its checkpoint stays, unless --fresh drops it; `leasehold task resume` refuses where
/// there is none.
#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    which: Which,
    /// Drop its checkpoint: it begins anew
    #[arg(long)]
    fresh: bool,
}

/// Run an ended task again from its checkpoint. One that left none is refused: `leasehold task retry` begins it anew.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(context: &Context, args: &RetryArgs) -> Result<Exit> {
    again(context, &args.which, if args.fresh { RetryMode::Fresh } else { RetryMode::Keep }).await
}

pub(super) async fn resume(context: &Context, args: &ResumeArgs) -> Result<Exit> {
    again(context, &args.which, RetryMode::Resume).await
}

async fn again(context: &Context, which: &Which, mode: RetryMode) -> Result<Exit> {
    let producer = context.producer().await?;
    let task = which.find(&producer).await?;
    let id = task.id();
    match task.retry_with(mode).await? {
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
            let message =
                format!("task {id} is {state} and no run of it left a checkpoint: nothing was changed");
            let word = shell_word(&printable(id.as_str()));
            Err(Failure::failed(message).hint(format!("begin it anew: leasehold task retry {word}")))
        }
        RetryAnswer::Changed(state) => Err(super::changed(id, state)),
        RetryAnswer::NotFound => Err(Failure::not_found(format!("task {id} was removed meanwhile"))),
        RetryAnswer::Corrupt => Err(super::corrupt(id)),
    }
}
