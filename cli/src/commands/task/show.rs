//! `leasehold task show`.

use clap::Args;

use super::Which;
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::health;
use crate::output;
use crate::view;

/// Show all that is known of a task.
///
/// With --json: `state`, `attempt`, `run`, `failure.kind` and more at the top level, times as RFC 3339 in UTC,
/// durations in milliseconds (`_ms`).
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(context: &Context, args: &ShowArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let task = args.which.find(&producer).await?;
    let detail = task.detail().await?;
    let now = producer.now_ms().await?;
    let ended = detail.record.state.is_terminal();
    let warnings = if ended { Vec::new() } else { health::warnings(&producer, task.queue()).await? };
    if context.output.is_json() {
        let mut document = view::document(task.queue(), &detail);
        document["next"] = view::next_step(task.queue(), &detail.record, now).into();
        document["warnings"] = warnings.into();
        output::json(&document)?;
        return Ok(Exit::Success);
    }
    output::line(&view::text(task.queue(), &detail, now))?;
    for warning in warnings {
        output::warn(&warning);
    }
    Ok(Exit::Success)
}
