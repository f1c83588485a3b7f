//! `leasehold task list`.

use clap::Args;
use leasehold_producer::{
    Body, Cursor, DEFAULT_QUEUE, Lane, Owner, PhaseName, Producer, QueueName, Records, TaskRecord, TaskState,
};
use serde_json::{Value, json};

use crate::args::values;
use crate::commands::queue::missing;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::output::{self, Rows};
use crate::view::{self, ago, or_dash};

/// List the tasks of a queue by state: ended ones newest first, others in the order they come up.
///
/// Without --state, the first tasks of each state. With --owner: its tasks, what runs first, then the newest that live,
/// then the last ends. With --lane: those that have a place in it, in order, then its last ends. A page that is full ends
/// with a cursor for the next; one of filtered tasks may be short, even empty, and still have a next one.
///
/// With --json: `queue`, `tasks`, `next`, and `unreadable`: ids of the list whose records cannot be read, whatever the
/// filter. A warning names them; the others are listed.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The queue [default: default]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Only tasks in this state: scheduled, waiting, queued, running, aborting, completed, failed, timed_out,
    /// aborted [default: all]
    #[arg(long, value_name = "STATE")]
    state: Option<TaskState>,
    /// Only tasks of this owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<Owner>,
    /// Only tasks of this lane
    #[arg(long, value_name = "LANE")]
    lane: Option<Lane>,
    /// Only tasks that are in this phase now
    #[arg(long, value_name = "PHASE")]
    phase: Option<PhaseName>,
    /// Tasks looked at, at most, of each state: 1 to 1000
    #[arg(long, value_name = "N", default_value = "50", value_parser = values::limit)]
    limit: usize,
    /// Where to go on: the cursor that the page before ended with; with the same --state, --owner or --lane
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl ListArgs {
    /// The states looked through where neither an owner nor a lane says which tasks: only what runs is in a phase.
    fn states(&self) -> Vec<TaskState> {
        match (self.state, &self.phase) {
            (Some(state), _) => vec![state],
            (None, Some(_)) => vec![TaskState::Running, TaskState::Aborting],
            (None, None) => TaskState::ALL.to_vec(),
        }
    }

    fn fits(&self, task: &TaskRecord) -> bool {
        let phase = |wanted: &PhaseName| {
            let now = task.phase.as_ref().filter(|phase| phase.ended_ms.is_none());
            now.is_some_and(|phase| phase.name == *wanted)
        };
        self.state.is_none_or(|state| task.state == state)
            && self.owner.as_ref().is_none_or(|owner| task.owner.as_ref() == Some(owner))
            && self.lane.as_ref().is_none_or(|lane| task.lane.as_ref() == Some(lane))
            && self.phase.as_ref().is_none_or(phase)
    }

    /// The place that the cursor names, in an owner's or a lane's tasks.
    fn place(&self) -> Result<usize> {
        let text = self.cursor.as_deref().unwrap_or("0");
        text.parse().map_err(|_| Failure::usage("cursor", "is not of this list"))
    }
}

/// A page, and the cursor of the next.
async fn page(producer: &Producer, queue: &QueueName, args: &ListArgs) -> Result<(Records, Option<String>)> {
    if let Some(owner) = &args.owner {
        let place = args.place()?;
        let found = producer.owned(queue, owner, place, args.limit).await?;
        let next = place + args.limit;
        let more = (next as u64) < found.total;
        let mut tasks = found.live;
        tasks.append(found.ended);
        return Ok((tasks, more.then(|| next.to_string())));
    }
    if let Some(lane) = &args.lane {
        let place = args.place()?;
        let members = producer.lane_page(queue, lane, place, args.limit).await?;
        let next = producer.lane_page(queue, lane, place + args.limit, 1).await?;
        let mut tasks = members.unwrap_or_default();
        if next.is_none() {
            tasks.append(producer.lane(queue, lane, args.limit).await?.ended);
        }
        return Ok((tasks, next.map(|_| (place + args.limit).to_string())));
    }
    let cursor = args.cursor.as_deref().map(Cursor::from_text);
    let (mut found, mut next) = (Records::default(), None);
    for state in args.states() {
        let page = producer.list(queue, state, cursor.as_ref(), args.limit).await?;
        found.tasks.extend(page.tasks);
        found.unreadable.extend(page.unreadable);
        next = page.next.filter(|_| args.state.is_some()).map(|next| next.as_str().to_owned());
    }
    // Running and aborting ones are in one index.
    found.unreadable.sort();
    found.unreadable.dedup();
    Ok((found, next))
}

pub(super) async fn run(context: &Context, args: &ListArgs) -> Result<Exit> {
    if args.cursor.is_some() && args.state.is_none() && args.owner.is_none() && args.lane.is_none() {
        return Err(Failure::usage("cursor", "is that of one list: name it with --state, --owner or --lane"));
    }
    let producer = context.producer().await?;
    let queue = args.queue.clone().map_or_else(|| QueueName::new(DEFAULT_QUEUE), Ok)?;
    if args.queue.is_some() && !producer.queues().await?.contains(&queue) {
        return Err(missing(&queue));
    }
    let (Records { mut tasks, unreadable }, next) = page(&producer, &queue, args).await?;
    view::warn_unreadable(&unreadable);
    tasks.retain(|task| args.fits(task));
    let now = producer.now_ms().await?;
    let bodies = producer.bodies(&queue, &tasks).await?;
    if context.output.is_json() {
        let of = |(task, body): (&TaskRecord, &Option<Body>)| {
            Value::Object(view::task_document(&queue, task, body.as_ref()))
        };
        let list: Vec<Value> = tasks.iter().zip(&bodies).map(of).collect();
        output::json(&json!({ "queue": queue, "tasks": list, "unreadable": unreadable, "next": next }))?;
        return Ok(Exit::Success);
    }
    let mut rows =
        Rows::new(&["id", "state", "name", "attempt", "worker", "enqueued", "owner", "lane", "phase"]);
    for (record, body) in tasks.iter().zip(&bodies) {
        let (n, most) = record.attempts_shown();
        rows.add([
            record.id.to_string(),
            record.state.to_string(),
            or_dash(body.as_ref().map(|b| &b.name)),
            format!("{n}/{most}"),
            or_dash(record.worker.as_ref()),
            ago(record.enqueued_ms, now),
            or_dash(record.owner.as_ref()),
            or_dash(record.lane.as_ref()),
            or_dash(record.phase.as_ref().filter(|phase| phase.ended_ms.is_none()).map(|phase| &phase.name)),
        ]);
    }
    if rows.is_empty() {
        context.output.note(&format!("no such tasks in queue {queue}"));
    } else {
        output::rows(rows)?;
    }
    if let Some(next) = next {
        context.output.note(&format!("more: --cursor {next}"));
    }
    Ok(Exit::Success)
}
