//! `leasehold task abort`.

use std::time::Duration;

use clap::Args;
use leasehold_common::time::display_time;
use leasehold_producer::{AbortAnswer, AbortOrder, QueueName, TaskId};
use serde_json::json;

use super::Which;
use super::abort_where::{self, ManyArgs};
use crate::args::values;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::view::ago;

/// End a task, or all live ones that fit a filter: at once if they do not run, else they are `aborting` until their runs
/// have ended.
///
/// A run gets TERM (a handler: cancellation), then its grace, then KILL. The answer says until when. Aborting a
/// task that has ended, or a second time, changes nothing and says so.
///
/// With --owner, --lane, --name or --state instead of an ID: the live tasks of the queue that fit all of these and were
/// enqueued before the command began, in batches of 100. --dry-run lists them. More than one asks first, or takes --yes.
/// With --json: `found`, `ended`, `requested`, `already`, `not_found`, `corrupt` as numbers, and
/// `unreadable`: the ids of the corrupt ones, which cannot be read and are left as they are. With any the exit code is 1.
#[derive(Debug, Args)]
pub(crate) struct AbortArgs {
    /// The task: the id that `enqueue` or `exec` printed
    #[arg(value_name = "ID")]
    id: Option<TaskId>,
    /// The queue it is in, or they are in [default: default; of an ID else whichever queue has it]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueName>,
    #[command(flatten)]
    many: ManyArgs,
    /// Time between TERM and KILL, with its unit, such as 500ms or 30s [default: the task's own stop grace]
    #[arg(long, value_name = "DUR", value_parser = values::grace)]
    grace: Option<Duration>,
    /// Why, for people: at most 1024 bytes are kept
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Give up a run whose worker says that the system does not end its processes: the task ends as failed (abandoned), on
    /// record, and its lane goes on while they may be alive still. Of any other task a usual abort
    #[arg(long)]
    abandon: bool,
}

pub(super) async fn run(context: &Context, args: &AbortArgs) -> Result<Exit> {
    let filter = args.many.filter();
    let by = std::env::var("USER").map_or_else(|_| "cli".to_owned(), |user| format!("cli ({user})"));
    let order = AbortOrder { grace: args.grace, by, reason: args.reason.clone(), abandon: args.abandon };
    let Some(id) = &args.id else {
        if filter.is_empty() {
            let reason = "name a task by its ID, or which with --owner, --lane, --name or --state";
            return Err(Failure::usage("ID", reason));
        }
        return abort_where::run(context, args.queue.as_ref(), filter, &order, &args.many).await;
    };
    if !filter.is_empty() || args.many.dry_run {
        let reason = "an ID and --owner, --lane, --name, --state or --dry-run do not go together: name one task, or a filter";
        return Err(Failure::usage("ID", reason));
    }
    let producer = context.producer().await?;
    let which = Which { id: id.clone(), queue: args.queue.clone() };
    let task = which.find(&producer).await?;
    let answers = producer.abort_many(task.queue(), &[order.request(task.id())]).await?;
    let answer = answers.into_iter().next().unwrap_or(AbortAnswer::NotFound);
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
