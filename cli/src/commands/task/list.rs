//! `leasehold task list`.

use clap::Args;
use leasehold_producer::{Body, Cursor, DEFAULT_QUEUE, QueueName, TaskRecord, TaskState};
use serde_json::{Value, json};

use crate::args::values;
use crate::commands::queue::missing;
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{self, Rows};
use crate::view::{self, ago};

/// List the tasks of a queue by state: ended ones newest first, others in the order they come up.
///
/// Without --state, the first tasks of each state. A page that is full ends with a cursor for the next.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The queue [default: default]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Only tasks in this state: scheduled, waiting, queued, running, aborting, completed, failed, timed_out,
    /// aborted [default: all]
    #[arg(long, value_name = "STATE")]
    state: Option<TaskState>,
    /// Tasks at most, of each state: 1 to 1000
    #[arg(long, value_name = "N", default_value = "50", value_parser = values::limit)]
    limit: usize,
    /// Where to go on: the cursor that the page before ended with
    #[arg(long, value_name = "CURSOR", requires = "state")]
    cursor: Option<String>,
}

pub(super) async fn run(context: &Context, args: &ListArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let queue = args.queue.clone().map_or_else(|| QueueName::new(DEFAULT_QUEUE), Ok)?;
    let cursor = args.cursor.as_deref().map(Cursor::from_text);
    let states = args.state.map_or_else(|| TaskState::ALL.to_vec(), |state| vec![state]);
    if args.queue.is_some() && !producer.queues().await?.contains(&queue) {
        return Err(missing(&queue));
    }
    let mut tasks: Vec<TaskRecord> = Vec::new();
    let mut next = None;
    for state in states {
        let page = producer.list(&queue, state, cursor.as_ref(), args.limit).await?;
        tasks.extend(page.tasks);
        next = page.next.filter(|_| args.state.is_some());
    }
    let now = producer.now_ms().await?;
    let bodies = producer.bodies(&queue, &tasks).await?;
    if context.output.is_json() {
        let of = |(record, body): (&TaskRecord, &Option<Body>)| {
            let mut map = view::record(&queue, record);
            map.insert("name".into(), json!(body.as_ref().map(|b| &b.name)));
            map.insert("kind".into(), json!(body.as_ref().map(|b| b.kind)));
            map.insert("owner".into(), json!(body.as_ref().and_then(|b| b.owner.as_ref())));
            Value::Object(map)
        };
        let list: Vec<Value> = tasks.iter().zip(&bodies).map(of).collect();
        let next = next.as_ref().map(Cursor::as_str);
        output::json(&json!({ "queue": queue, "tasks": list, "next": next }))?;
        return Ok(Exit::Success);
    }
    let mut rows = Rows::new(&["id", "state", "name", "attempt", "worker", "enqueued", "owner"]);
    for (record, body) in tasks.iter().zip(&bodies) {
        let (n, most) = record.attempts_shown();
        rows.add([
            record.id.to_string(),
            record.state.to_string(),
            body.as_ref().map_or_else(|| "-".to_owned(), |b| b.name.to_string()),
            format!("{n}/{most}"),
            record.worker.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            ago(record.enqueued_ms, now),
            body.as_ref().and_then(|b| b.owner.as_ref()).map_or_else(|| "-".to_owned(), ToString::to_string),
        ]);
    }
    if rows.is_empty() {
        context.output.note(&format!("no such tasks in queue {queue}"));
    } else {
        output::rows(rows)?;
    }
    if let Some(next) = next {
        context.output.note(&format!("more: --cursor {}", next.as_str()));
    }
    Ok(Exit::Success)
}
