//! `leasehold task show`.

use clap::Args;
use leasehold_producer::explain::explain;

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
/// durations in milliseconds (`_ms`): `phase`, `phases`, `budgets`, `checkpoint_bytes`, `lane`, `owner`, `deadline_at`,
/// `last_event_at`, `silent_since`, `notices`, `unkillable`, `reconciled_at`, `reconciled_by`, `reconciled_reason`.
/// `leasehold task explain` says in words why it is where it is.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(context: &Context, args: &ShowArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let task = args.which.find(&producer).await?;
    let detail = task.detail().await?;
    let facts = producer.facts(task.queue(), &detail.record).await?;
    let told = explain(task.queue(), &detail, &facts);
    let ended = detail.record.state.is_terminal();
    let warnings = if ended { Vec::new() } else { health::warnings(&producer, task.queue()).await? };
    if context.output.is_json() {
        let mut document = view::document(task.queue(), &detail);
        document["notices"] = view::notices(&detail.record, facts.now_ms).into();
        document["next"] = told.next.into();
        document["warnings"] = warnings.into();
        output::json(&document)?;
        return Ok(Exit::Success);
    }
    output::line(&view::text(&told, &detail, facts.now_ms))?;
    for warning in warnings {
        output::warn(&warning);
    }
    Ok(Exit::Success)
}
