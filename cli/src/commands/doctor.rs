//! `leasehold doctor`: the invariants, checked on the live system.

use clap::Args;
use leasehold_common::doctor::{Options, examine};
use leasehold_producer::QueueName;
use serde_json::json;

use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;

/// Check every invariant on the live system, and whether the Redis can be trusted with work.
///
/// Reads page by page and changes nothing. Exits with 0 when every invariant holds (warnings may be there), with
/// 1 on a breach.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Only this queue; repeatable [default: all]
    #[arg(long, value_name = "QUEUE")]
    queue: Vec<QueueName>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: &DoctorArgs) -> Result<Exit> {
    let options = Options { queues: args.queue.clone(), ..Options::default() };
    let report = examine(&context.store()?, &options).await?;
    let clean = report.is_clean();
    let document = json!({ "clean": clean, "queues": report.queues, "findings": report.findings });
    context.output.either(&document, || report.to_string())?;
    Ok(if clean { Exit::Success } else { Exit::Failed })
}
