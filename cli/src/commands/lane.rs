//! `leasehold lane`: what takes its turn, in order.

mod limit;
mod list;
mod show;

use clap::{Args, Subcommand};
use leasehold_producer::{Lane, Producer, QueueName};

use crate::args::task_flags::QueueArg;
use crate::commands::queue::missing;
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;

/// What to do with lanes.
#[derive(Debug, Subcommand)]
pub(crate) enum LaneCommand {
    List(list::ListArgs),
    Show(show::ShowArgs),
    Limit(limit::LimitArgs),
}

/// Which lane.
#[derive(Debug, Args)]
pub(crate) struct WhichLane {
    #[command(flatten)]
    queue: QueueArg,
    /// The lane: at most 256 bytes of text
    #[arg(value_name = "LANE")]
    lane: Lane,
}

/// Runs it.
pub(crate) async fn run(context: &Context, command: &LaneCommand) -> Result<Exit> {
    match command {
        LaneCommand::List(args) => list::run(context, args).await,
        LaneCommand::Show(args) => show::run(context, args).await,
        LaneCommand::Limit(args) => limit::run(context, args).await,
    }
}

/// Looking at lanes makes no queue.
pub(super) async fn known(producer: &Producer, queue: &QueueName) -> Result<()> {
    if producer.queues().await?.contains(queue) { Ok(()) } else { Err(missing(queue)) }
}
