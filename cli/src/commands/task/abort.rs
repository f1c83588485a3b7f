//! `leasehold task abort`.

use std::time::Duration;

use clap::Args;
use leasehold_common::time::display_time;
use leasehold_producer::AbortAnswer;
use serde_json::json;

use super::Which;
use crate::args::values;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::view::ago;

/// End a task: at once if it does not run, else it is `aborting` until its run has ended.
///
/// A run gets TERM (a handler: cancellation), then its grace, then KILL. The answer says until when. Aborting a
/// task that has ended, or a second time, changes nothing and says so.
#[derive(Debug, Args)]
pub(crate) struct AbortArgs {
    #[command(flatten)]
    which: Which,
    /// Time between TERM and KILL, with its unit, such as 500ms or 30s [default: the task's own stop grace]
    #[arg(long, value_name = "DUR", value_parser = values::grace)]
    grace: Option<Duration>,
    /// Why, for people: at most 1024 bytes are kept
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

pub(super) async fn run(context: &Context, args: &AbortArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let task = args.which.find(&producer).await?;
    let by = std::env::var("USER").map_or_else(|_| "cli".to_owned(), |user| format!("cli ({user})"));
    let answer = task.abort_with(args.grace, &by, &args.reason).await?;
    let (id, queue) = (task.id(), task.queue());
    match answer {
        AbortAnswer::Ended(state) => {
            let document = json!({ "id": id, "queue": queue, "answer": "ended", "state": state });
            context.output.either(&document, || state.to_string())?;
        }
        AbortAnswer::Already(state) => {
            let document = json!({ "id": id, "queue": queue, "answer": "already", "state": state });
            context
                .output
                .either(&document, || format!("{state} (it had ended already: nothing was changed)"))?;
        }
        AbortAnswer::Requested { kill_at_ms, hard_end_ms } => {
            let now = producer.now_ms().await?;
            let (kill, end) = (display_time(kill_at_ms), display_time(hard_end_ms));
            let document = json!({
                "id": id, "queue": queue, "answer": "requested", "state": "aborting",
                "kill_at": kill, "hard_end_at": end,
            });
            context.output.either(&document, || {
                format!(
                    "aborting: it was asked to end; what is left of it is killed at {kill} ({}); \
                     it has ended at {end} ({}) at the latest",
                    ago(kill_at_ms, now),
                    ago(hard_end_ms, now)
                )
            })?;
        }
        AbortAnswer::NotFound => {
            return Err(Failure::not_found(format!("task {id} was removed meanwhile")));
        }
        AbortAnswer::Corrupt => {
            return Err(super::corrupt(task.id()));
        }
    }
    Ok(Exit::Success)
}
