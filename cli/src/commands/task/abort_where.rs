//! `leasehold task abort` of many tasks.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Args;
use leasehold_producer::{
    AbortOrder, AbortTally, DEFAULT_QUEUE, Lane, Owner, Producer, QueueName, TaskFilter, TaskName, TaskState,
};
use serde_json::{Value, json};

use crate::commands::queue::missing;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::output::{self, Rows};
use crate::view::{self, ago, or_dash};

/// Tasks that a dry run lists one by one.
const LISTED: usize = 1000;

/// Which of many.
#[derive(Debug, Args)]
pub(crate) struct ManyArgs {
    /// Live tasks of this owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<Owner>,
    /// Live tasks of this lane
    #[arg(long, value_name = "LANE")]
    lane: Option<Lane>,
    /// Live tasks of this name; every candidate is read
    #[arg(long, value_name = "NAME")]
    name: Option<TaskName>,
    /// Live tasks in this state: scheduled, waiting, queued, running, aborting [default: all but aborting]
    #[arg(long, value_name = "STATE")]
    state: Option<TaskState>,
    /// List what would be aborted, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Abort more than one task without asking
    #[arg(long)]
    yes: bool,
}

impl ManyArgs {
    pub(super) fn filter(&self) -> TaskFilter {
        let (owner, lane, name, state) =
            (self.owner.clone(), self.lane.clone(), self.name.clone(), self.state);
        TaskFilter { owner, lane, name, state, enqueued_until_ms: None }
    }
}

pub(super) async fn run(
    context: &Context,
    queue: Option<&QueueName>,
    filter: TaskFilter,
    order: &AbortOrder,
    args: &ManyArgs,
) -> Result<Exit> {
    filter.validate()?;
    let producer = context.producer().await?;
    let queue = queue.cloned().map_or_else(|| QueueName::new(DEFAULT_QUEUE), Ok)?;
    if !producer.queues().await?.contains(&queue) {
        return Err(missing(&queue));
    }
    // What is asked about is what is done: later tasks are none of it.
    let filter = TaskFilter { enqueued_until_ms: Some(producer.now_ms().await?), ..filter };
    if args.dry_run {
        return dry_run(context, &producer, &queue, &filter).await;
    }
    if !args.yes {
        confirm(count(&producer, &queue, &filter).await?, &queue)?;
    }
    let mut told = 0;
    let tally = producer
        .abort_where(&queue, &filter, order, |tally| {
            if tally.found > tally.answered() || told > 0 {
                context.output.note(&format!("{} of {} tasks", tally.answered(), tally.found));
                told += 1;
            }
        })
        .await?;
    let document = json!({
        "queue": queue, "dry_run": false, "found": tally.found, "ended": tally.ended, "requested": tally.requested,
        "already": tally.already, "not_found": tally.not_found, "corrupt": tally.corrupt,
        "unreadable": tally.unreadable,
    });
    context.output.either(&document, || sentence(&tally))?;
    if tally.corrupt > 0 {
        view::warn_unreadable(&tally.unreadable);
        return Ok(Exit::Failed);
    }
    Ok(Exit::Success)
}

fn sentence(tally: &AbortTally) -> String {
    let AbortTally { found, ended, requested, .. } = tally;
    let mut text = format!("{found} tasks: {ended} aborted at once, {requested} asked to end");
    for (n, what) in [
        (tally.already, "had ended already"),
        (tally.not_found, "removed meanwhile"),
        (tally.corrupt, "cannot be read"),
    ] {
        if n > 0 {
            text.extend([", ", &n.to_string(), " ", what]);
        }
    }
    text
}

async fn count(producer: &Producer, queue: &QueueName, filter: &TaskFilter) -> Result<u64> {
    let (mut matches, mut n) = (producer.matches(queue, filter)?, 0);
    while let Some(page) = matches.next_page().await? {
        n += page.tasks.len() as u64;
    }
    Ok(n)
}

/// One task is what an ID would name; of more a person has to be sure.
fn confirm(n: u64, queue: &QueueName) -> Result<()> {
    if n <= 1 {
        return Ok(());
    }
    let unsaid = || {
        Failure::new(Exit::Usage, format!("{n} tasks of queue {queue} would be aborted: nothing was done"))
            .hint("look at them with --dry-run, then add --yes")
    };
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(unsaid());
    }
    output::important(&format!("abort {n} tasks of queue {queue}? Type yes:"));
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::io("cannot read the answer from stdin", &error))?;
    if line.trim() == "yes" { Ok(()) } else { Err(unsaid()) }
}

async fn dry_run(
    context: &Context,
    producer: &Producer,
    queue: &QueueName,
    filter: &TaskFilter,
) -> Result<Exit> {
    let mut rows = Rows::new(&["id", "state", "name", "worker", "enqueued", "owner", "lane"]);
    let (mut matches, mut listed, mut found) = (producer.matches(queue, filter)?, Vec::<Value>::new(), 0_u64);
    let (now, mut unreadable) = (producer.now_ms().await?, Vec::new());
    while let Some(page) = matches.next_page().await? {
        found += page.tasks.len() as u64;
        unreadable.extend(page.unreadable);
        let shown = &page.tasks[..page.tasks.len().min(LISTED - listed.len())];
        let bodies = producer.bodies(queue, shown).await?;
        for (task, body) in shown.iter().zip(&bodies) {
            listed.push(view::task_document(queue, task, body.as_ref()).into());
            rows.add([
                task.id.to_string(),
                task.state.to_string(),
                or_dash(body.as_ref().map(|b| &b.name)),
                or_dash(task.worker.as_ref()),
                ago(task.enqueued_ms, now),
                or_dash(task.owner.as_ref()),
                or_dash(task.lane.as_ref()),
            ]);
        }
    }
    view::warn_unreadable(&unreadable);
    if context.output.is_json() {
        output::json(&json!({
            "queue": queue, "dry_run": true, "found": found, "tasks": listed, "corrupt": unreadable.len(),
            "unreadable": unreadable,
        }))?;
        return Ok(Exit::Success);
    }
    if !rows.is_empty() {
        output::rows(rows)?;
    }
    let more = found - listed.len() as u64;
    let rest = if more > 0 { format!(", {more} of them not listed") } else { String::new() };
    context.output.note(&format!("{found} tasks would be aborted{rest}; nothing was done"));
    Ok(Exit::Success)
}
