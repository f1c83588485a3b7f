//! `leasehold lane limit`.

use clap::Args;
use serde_json::json;

use super::WhichLane;
use crate::args::values;
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;

/// Say how many tasks of a lane may run at a time. What a higher number admits goes at once; a lower one holds for tasks
/// that come: who was let go stays so.
///
/// With --json: `queue`, `lane`, `limit` and the one `before`.
#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    which: WhichLane,
    /// Tasks at a time: 1 to 256 [default of lanes: 1]
    #[arg(value_name = "N", value_parser = values::lane_limit, allow_hyphen_values = true)]
    limit: u32,
}

pub(super) async fn run(context: &Context, args: &LimitArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let (queue, lane) = (&args.which.queue.queue, &args.which.lane);
    super::known(&producer, queue).await?;
    let before = producer.set_lane_limit(queue, lane, args.limit).await?;
    let document = json!({ "queue": queue, "lane": lane, "limit": args.limit, "before": before });
    context.output.either(&document, || format!("{} at a time (before: {before})", args.limit))?;
    Ok(Exit::Success)
}
