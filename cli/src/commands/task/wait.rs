//! `leasehold task wait`.

use std::time::Duration;

use clap::Args;
use leasehold_producer::Ended;
use serde_json::json;

use super::Which;
use crate::args::values;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::signals;
use crate::view;

/// Wait until a task has ended, and print the state it ended in; the exit code tells it too.
///
/// Ctrl-C and --timeout end the wait with 75; the task goes on.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    which: Which,
    /// Give up after this time, with exit code 75; a duration with its unit, such as 90s or 5m [default: never]
    #[arg(long, value_name = "DUR", value_parser = values::timeout)]
    timeout: Option<Duration>,
}

pub(super) async fn run(context: &Context, args: &WaitArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let task = args.which.find(&producer).await?;
    // cancel-safe: both are only listened to; what is not heard here is lost with the process.
    let ended = tokio::select! {
        ended = task.wait_end(args.timeout) => ended?,
        () = signals::asked_to_stop() => {
            return Err(Failure::new(Exit::StillGoing, format!("stopped waiting; task {} goes on", task.id())));
        }
    };
    match ended {
        Ended::Kept(detail) => {
            let state = detail.record.state;
            context.output.either(&view::document(task.queue(), &detail), || state.to_string())?;
            Ok(Exit::of_state(state))
        }
        Ended::Discarded(Some(state)) => {
            let document =
                json!({ "queue": task.queue(), "id": task.id(), "state": state, "discarded": true });
            context.output.either(&document, || state.to_string())?;
            Ok(Exit::of_state(state))
        }
        Ended::Discarded(None) => Err(Failure::not_found(format!(
            "task {} has ended and was removed: how it ended is not known",
            task.id()
        ))),
    }
}
