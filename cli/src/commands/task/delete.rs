//! `leasehold task delete`.

use clap::Args;
use leasehold_producer::DeleteAnswer;
use serde_json::json;

use super::Which;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;

/// Remove an ended task with its output, log and history. One that has not ended is refused: abort it first.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(context: &Context, args: &DeleteArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let task = args.which.find(&producer).await?;
    let id = task.id();
    match task.delete().await? {
        DeleteAnswer::Deleted => {
            let document = json!({ "id": id, "queue": task.queue(), "deleted": true });
            context.output.either(&document, || "deleted".to_owned())?;
            Ok(Exit::Success)
        }
        DeleteAnswer::Live(state) => Err(Failure::failed(format!("task {id} is {state}: it is not removed"))
            .hint(format!("abort it first: leasehold task abort {id}"))),
        DeleteAnswer::Changed(state) => Err(super::changed(id, state)),
        DeleteAnswer::NotFound => Err(Failure::not_found(format!("task {id} was removed meanwhile"))),
        DeleteAnswer::Corrupt => Err(super::corrupt(id)),
    }
}
