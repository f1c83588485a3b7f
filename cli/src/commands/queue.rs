//! `leasehold queue`: look at queues.

mod list;
mod show;

pub(crate) use show::missing;

use clap::Subcommand;
use leasehold_common::time::display_duration;
use leasehold_producer::{QueueName, QueueStatus, TaskState};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::view::millis;

/// What to do with queues.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List the queues: how much waits, runs (or is aborting) and has ended, and what is missing
    List,
    /// Show one queue in full
    Show {
        /// The queue: 1 to 64 characters of A-Z a-z 0-9 . _ -
        #[arg(value_name = "QUEUE")]
        queue: QueueName,
    },
}

/// Runs it.
pub(crate) async fn run(context: &Context, command: &QueueCommand) -> Result<Exit> {
    match command {
        QueueCommand::List => list::run(context).await,
        QueueCommand::Show { queue } => show::run(context, queue).await,
    }
}

/// The states with their numbers.
fn counts(status: &QueueStatus) -> impl Iterator<Item = (&'static str, u64)> {
    TaskState::ALL.into_iter().map(|state| (state.as_str(), status.count(state)))
}

fn since(ago: Option<std::time::Duration>, else_shown: &str) -> String {
    ago.map_or_else(|| else_shown.to_owned(), |ago| format!("{} ago", display_duration(ago)))
}

/// A queue as JSON.
fn document(status: &QueueStatus) -> Value {
    let mut map = Map::new();
    map.insert("queue".into(), json!(status.queue));
    for (state, count) in counts(status) {
        map.insert(state.into(), json!(count));
    }
    map.insert("workers".into(), json!(status.workers.len()));
    map.insert("slots".into(), json!(status.slots()));
    map.insert("oldest_queued_ms_ago".into(), json!(status.oldest_queued.map(millis)));
    map.insert("swept_ms_ago".into(), json!(status.last_sweep.map(millis)));
    map.insert("lease_ms".into(), json!(millis(status.lease)));
    map.insert("warnings".into(), json!(status.warnings));
    Value::Object(map)
}
