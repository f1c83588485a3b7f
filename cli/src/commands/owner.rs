//! `leasehold owner`: what belongs to a session or a user.

use clap::{Args, Subcommand};
use leasehold_producer::{LOOKED_THROUGH, Owner, OwnerView, QueueName, TaskKind};
use serde_json::{Value, json};

use crate::args::task_flags::QueueArg;
use crate::args::values;
use crate::commands::lane::known;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::output::{self, Rows};
use crate::view::{self, Lines, ago, or_dash};

/// What to do with owners.
#[derive(Debug, Subcommand)]
pub(crate) enum OwnerCommand {
    Show(ShowArgs),
}

/// Show how an owner stands, and its tasks: what runs first, then the newest that live, then the last ends.
///
/// The status is that of its own tasks alone: running, aborting, failed (the last one failed or timed out), idle; unknown
/// where none of the kind is among the last 1000 that ended. Started, ended and runtime are those of the task that runs,
/// else of the one that ended last. With --json: `status`, `task`, `started_at`, `ended_at`, `runtime_ms`, `last_outcome`,
/// numbers `running`, `live`, `ended` of all kinds, `tasks`, `next`, and `unreadable`: ids whose records cannot be read (a
/// warning names them).
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    queue: QueueArg,
    /// The owner: at most 256 bytes of text
    #[arg(value_name = "OWNER")]
    owner: Owner,
    /// Only tasks of this kind [default: all]
    #[arg(long, value_name = "handler|exec", value_parser = values::kind)]
    kind: Option<TaskKind>,
    /// Tasks at most: 1 to 1000
    #[arg(long, value_name = "N", default_value = "20", value_parser = values::limit)]
    limit: usize,
    /// Where to go on: the cursor that the page before ended with
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, command: &OwnerCommand) -> Result<Exit> {
    let OwnerCommand::Show(args) = command;
    let bad = |_| Failure::usage("cursor", "is not of this list");
    let start = args.cursor.as_deref().map_or(Ok(0), |text| text.parse().map_err(bad))?;
    let producer = context.producer().await?;
    let (queue, owner) = (&args.queue.queue, &args.owner);
    known(&producer, queue).await?;
    let view = producer.owner_view(queue, owner, args.kind, start, args.limit).await?;
    if view.tally.live + view.tally.ended == 0 {
        return Err(Failure::not_found(format!("owner {owner} has no tasks in queue {queue}"))
            .hint("`--owner` of enqueue and exec names one; an owner is forgotten with its last task"));
    }
    view::warn_unreadable(&view.unreadable);
    view::note_unknown(context.output, &view.status, &format!("the last {LOOKED_THROUGH} that ended"));
    if context.output.is_json() {
        output::json(&document(queue, owner, &view))?;
        return Ok(Exit::Success);
    }
    let now = producer.now_ms().await?;
    let mut lines = Lines::new();
    lines.add("owner", owner.as_str());
    lines.add("queue", queue.as_str());
    view::status_lines(&mut lines, &view.status, now);
    let (running, live, ended) = (view.tally.running, view.tally.live, view.tally.ended);
    lines.add("tasks", &format!("{live} live, {running} of them running or aborting; {ended} ended"));
    output::line(&lines.text())?;
    table(&view, now)?;
    if let Some(next) = view.next {
        context.output.note(&format!("more: --cursor {next}"));
    }
    Ok(Exit::Success)
}

fn table(view: &OwnerView, now: u64) -> Result<()> {
    if view.tasks.is_empty() {
        return Ok(());
    }
    let mut rows = Rows::new(&["id", "state", "name", "lane", "worker", "started", "ended", "reason"]);
    for (task, body) in &view.tasks {
        rows.add([
            task.id.to_string(),
            task.state.to_string(),
            or_dash(body.as_ref().map(|b| &b.name)),
            or_dash(task.lane.as_ref()),
            or_dash(task.worker.as_ref()),
            or_dash(task.started_ms.map(|ms| ago(ms, now))),
            or_dash(task.ended_ms.map(|ms| ago(ms, now))),
            or_dash(task.failure_kind.map(|kind| kind.as_str())),
        ]);
    }
    output::line("")?;
    output::rows(rows)
}

fn document(queue: &QueueName, owner: &Owner, view: &OwnerView) -> Value {
    let mut map = view::status_fields(&view.status);
    let row = |(task, body): &(_, Option<_>)| Value::Object(view::task_document(queue, task, body.as_ref()));
    let fields = [
        ("queue", json!(queue)),
        ("owner", json!(owner)),
        ("running", json!(view.tally.running)),
        ("live", json!(view.tally.live)),
        ("ended", json!(view.tally.ended)),
        ("unreadable", json!(view.unreadable)),
        ("tasks", view.tasks.iter().map(row).collect()),
        ("next", json!(view.next.map(|next| next.to_string()))),
    ];
    map.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Value::Object(map)
}
