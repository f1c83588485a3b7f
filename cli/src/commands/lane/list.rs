//! `leasehold lane list`.

use clap::Args;
use leasehold_common::time::display_time;
use leasehold_producer::{LaneRow, Producer, QueueName, Records, TaskId, TaskRecord, TaskState};
use serde_json::{Value, json};

use crate::args::task_flags::QueueArg;
use crate::args::values;
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{self, Rows};
use crate::view::{self, ago, or_dash};

/// List the lanes of a queue that have tasks, or a limit that somebody set, by name: how many may run at a time, how many
/// have a place, what runs, and the task that has waited longest.
///
/// With --json: `queue` and `lanes`, each with `lane`, `limit`, `members`, `running` (ids), `oldest_waiting`,
/// `waiting_since`, `unreadable` (ids at its head whose records cannot be read; a warning names them).
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    queue: QueueArg,
    /// Lanes at most: 1 to 1000
    #[arg(long, value_name = "N", default_value = "50", value_parser = values::limit)]
    limit: usize,
}

/// Members read of each lane at least.
const HEAD: usize = 16;

/// A lane with what is at its head.
struct Head {
    row: LaneRow,
    running: Vec<TaskRecord>,
    waiting: Option<TaskRecord>,
    unreadable: Vec<TaskId>,
}

pub(super) async fn run(context: &Context, args: &ListArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let queue = &args.queue.queue;
    super::known(&producer, queue).await?;
    let mut heads = Vec::new();
    for row in producer.lanes(queue, args.limit).await? {
        heads.push(head(&producer, queue, row).await?);
    }
    let unreadable: Vec<TaskId> = heads.iter().flat_map(|head| head.unreadable.iter().cloned()).collect();
    view::warn_unreadable(&unreadable);
    let now = producer.now_ms().await?;
    if context.output.is_json() {
        let lanes: Vec<Value> = heads.iter().map(document).collect();
        output::json(&json!({ "queue": queue, "lanes": lanes }))?;
        return Ok(Exit::Success);
    }
    if heads.is_empty() {
        context
            .output
            .note(&format!("no lane of queue {queue} has tasks; `--lane` of enqueue and exec names one"));
        return Ok(Exit::Success);
    }
    let mut rows = Rows::new(&["lane", "limit", "members", "running", "oldest waiting", "since"]);
    for Head { row, running, waiting, unreadable: _ } in &heads {
        let ids: Vec<&str> = running.iter().map(|task| task.id.as_str()).collect();
        rows.add([
            row.lane.to_string(),
            row.limit.to_string(),
            row.members.to_string(),
            or_dash(Some(ids.join(" ")).filter(|ids| !ids.is_empty())),
            or_dash(waiting.as_ref().map(|task| &task.id)),
            or_dash(waiting.as_ref().and_then(|task| task.waiting_ms).map(|since| ago(since, now))),
        ]);
    }
    output::rows(rows)?;
    Ok(Exit::Success)
}

/// Members up to the first that waits: those let go are at most as many as the limit, but for some who were let go before
/// it fell.
async fn head(producer: &Producer, queue: &QueueName, row: LaneRow) -> Result<Head> {
    let most = (row.limit as usize + 1).max(HEAD);
    let Records { tasks: members, unreadable } =
        producer.lane_page(queue, &row.lane, 0, most).await?.unwrap_or_default();
    let waiting = members.iter().find(|task| task.state == TaskState::Waiting).cloned();
    let running = members.into_iter().filter(|task| task.state.has_run()).collect();
    Ok(Head { row, running, waiting, unreadable })
}

fn document(head: &Head) -> Value {
    let running: Vec<_> = head.running.iter().map(|task| &task.id).collect();
    json!({
        "lane": head.row.lane,
        "limit": head.row.limit,
        "members": head.row.members,
        "running": running,
        "oldest_waiting": head.waiting.as_ref().map(|task| &task.id),
        "unreadable": head.unreadable,
        "waiting_since": head.waiting.as_ref().and_then(|task| task.waiting_ms).map(display_time),
    })
}
