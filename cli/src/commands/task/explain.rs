//! `leasehold task explain`.

use clap::Args;
use leasehold_common::time::display_time;
use serde_json::json;

use super::Which;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;

/// Say in a paragraph why a task is where it is: since when, what keeps it there, who acts next and by when.
///
/// With --json: `state`, `since`, `why`, `next`, `by` (when the next step comes at the latest; null where no machine owes
/// one) and the whole `text`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(context: &Context, args: &ExplainArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let task = args.which.find(&producer).await?;
    let Some(told) = producer.explain(task.queue(), task.id()).await? else {
        return Err(Failure::not_found(format!("task {} was removed meanwhile", task.id())));
    };
    let document = json!({
        "id": told.id,
        "queue": told.queue,
        "state": told.state,
        "since": told.since_ms.map(display_time),
        "why": told.why,
        "next": told.next,
        "by": told.by_ms.map(display_time),
        "text": told.text(),
    });
    context.output.either(&document, || told.text())?;
    Ok(Exit::Success)
}
