//! `leasehold doctor`: the invariants, checked on the live system.

use clap::Args;
use leasehold_common::doctor::{Options, Repair, examine, repair};
use leasehold_common::text::printable;
use leasehold_producer::QueueName;
use serde_json::json;

use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;

/// Check every invariant on the live system, and whether the Redis can be trusted with work.
///
/// Reads page by page and changes nothing, unless told to repair. Exits with 0 when every invariant holds (warnings may be
/// there), with 1 on a breach.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Only this queue; repeatable [default: all]
    #[arg(long, value_name = "QUEUE")]
    queue: Vec<QueueName>,
    /// Put tasks back where their records say that they are and close runs whose owner is proven dead, then check again
    #[arg(long)]
    repair: bool,
}

/// Findings told one by one where they are to be mended.
const MENDED_AT_ONCE: usize = 100_000;

/// Runs it.
pub(crate) async fn run(context: &Context, args: &DoctorArgs) -> Result<Exit> {
    let store = context.store()?;
    let options = Options { queues: args.queue.clone(), ..Options::default() };
    let mut repairs = Vec::new();
    if args.repair {
        let thorough = Options { each: MENDED_AT_ONCE, ..options.clone() };
        repairs = repair(&store, &examine(&store, &thorough).await?).await?;
    }
    let report = examine(&store, &options).await?;
    let clean = report.is_clean();
    let document = json!({
        "clean": clean, "queues": report.queues, "findings": report.findings, "repairs": repairs,
    });
    context.output.either(&document, || format!("{}{report}", told(&repairs)))?;
    Ok(if clean { Exit::Success } else { Exit::Failed })
}

/// What was mended, a line each.
fn told(repairs: &[Repair]) -> String {
    let line = |repair: &Repair| {
        let id = printable(repair.id.as_str());
        match &repair.done {
            Some(done) => format!("repaired {} {id}: {}\n", repair.queue, printable(done)),
            None => format!("left alone {} {id}: its record cannot be read\n", repair.queue),
        }
    };
    repairs.iter().map(line).collect()
}
