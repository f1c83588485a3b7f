//! `leasehold lane show`.

use clap::Args;
use leasehold_common::time::{display_duration, display_time};
use leasehold_producer::{Body, Gathering, LANE_ENDS, TaskId, TaskKind, TaskRecord, TaskState};
use serde_json::{Value, json};

use super::WhichLane;
use crate::args::values;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::output::{self, Rows};
use crate::view::{self, Lines, ago, or_dash};

/// Show a lane: how it stands, what runs, what waits and why, in order, and how its last tasks ended.
///
/// The status is that of its own tasks alone: running, aborting, failed (the last one failed or timed out), idle; unknown
/// where none of the kind is among the 25 ends that a lane remembers. With --json: `status`, `task`, `started_at`,
/// `ended_at`, `runtime_ms`, `last_outcome`, `limit`, `members`, `tasks` (each with its `place` and `why`), `ended`, and
/// `unreadable`: ids whose records cannot be read (a warning names them).
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    which: WhichLane,
    /// Only tasks of this kind [default: all]
    #[arg(long, value_name = "handler|exec", value_parser = values::kind)]
    kind: Option<TaskKind>,
    /// Tasks at most, of those that live and of those that ended: 1 to 1000
    #[arg(long, value_name = "N", default_value = "20", value_parser = values::limit)]
    limit: usize,
}

/// A task with its body and its place in the lane, from 1; of one that ended 0.
type Member = (TaskRecord, Option<Body>, usize);

pub(super) async fn run(context: &Context, args: &ShowArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let (queue, lane) = (&args.which.queue.queue, &args.which.lane);
    super::known(&producer, queue).await?;
    let limit = producer.lane_limit(queue, lane).await?;
    let found = producer.lane(queue, lane, args.limit).await?;
    if found.total == 0 && found.ended.is_empty() && limit == 1 {
        return Err(Failure::not_found(format!("lane {lane} of queue {queue} has no tasks"))
            .hint(format!("`leasehold lane list {queue}` lists those that have some")));
    }
    let now = producer.now_ms().await?;
    let fits = |body: &Option<Body>| args.kind.is_none_or(|k| body.as_ref().is_some_and(|b| b.kind == k));
    let Gathering { live, places, ended, total } = found;
    let unreadable: Vec<TaskId> = live.unreadable.into_iter().chain(ended.unreadable).collect();
    view::warn_unreadable(&unreadable);
    let mut members: Vec<Vec<Member>> = Vec::new();
    for (tasks, places) in [(live.tasks, places), (ended.tasks, Vec::new())] {
        let bodies = producer.bodies(queue, &tasks).await?;
        let places = places.into_iter().map(|place| place + 1).chain(std::iter::repeat(0));
        let placed =
            tasks.into_iter().zip(bodies).zip(places).map(|((task, body), place)| (task, body, place));
        members.push(placed.filter(|(_, body, _)| fits(body)).collect());
    }
    let (ended, live) = (members.pop().unwrap_or_default(), members.pop().unwrap_or_default());
    let status = producer.lane_status(queue, lane, args.kind).await?;
    view::note_unknown(
        context.output,
        &status,
        &format!("the last {LANE_ENDS} ends, which is what a lane remembers"),
    );
    if context.output.is_json() {
        let mut map = view::status_fields(&status);
        map.insert("queue".into(), json!(queue));
        map.insert("lane".into(), json!(lane));
        map.insert("limit".into(), json!(limit));
        map.insert("members".into(), json!(total));
        map.insert("unreadable".into(), json!(unreadable));
        let row = |(task, body, place): &Member| {
            let mut map = view::task_document(queue, task, body.as_ref());
            map.insert("place".into(), json!(place));
            map.insert("why".into(), json!(why(task, *place, limit, now)));
            Value::Object(map)
        };
        map.insert("tasks".into(), live.iter().map(row).collect());
        let row = |(task, body, _): &Member| Value::Object(view::task_document(queue, task, body.as_ref()));
        map.insert("ended".into(), ended.iter().map(row).collect());
        output::json(&Value::Object(map))?;
        return Ok(Exit::Success);
    }
    let mut lines = Lines::new();
    lines.add("lane", lane.as_str());
    lines.add("queue", queue.as_str());
    view::status_lines(&mut lines, &status, now);
    lines.add("limit", &format!("{limit} at a time"));
    lines.add("members", &total.to_string());
    output::line(&lines.text())?;
    tables(&live, &ended, limit, now)
}

fn tables(live: &[Member], ended: &[Member], limit: u32, now: u64) -> Result<Exit> {
    let name = |body: &Option<Body>| or_dash(body.as_ref().map(|b| &b.name));
    if !live.is_empty() {
        let mut rows = Rows::new(&["place", "id", "state", "name", "why"]);
        for (task, body, place) in live {
            let cells =
                [task.id.to_string(), task.state.to_string(), name(body), why(task, *place, limit, now)];
            rows.add([place.to_string()].into_iter().chain(cells));
        }
        output::line("")?;
        output::rows(rows)?;
    }
    if !ended.is_empty() {
        let mut rows = Rows::new(&["id", "outcome", "name", "ended", "reason"]);
        for (task, body, _) in ended {
            rows.add([
                task.id.to_string(),
                task.state.to_string(),
                name(body),
                or_dash(task.ended_ms.map(|ms| ago(ms, now))),
                or_dash(task.failure_kind.map(|kind| kind.as_str())),
            ]);
        }
        output::line("")?;
        output::rows(rows)?;
    }
    Ok(Exit::Success)
}

/// Why a member is where it is.
fn why(task: &TaskRecord, place: usize, limit: u32, now: u64) -> String {
    match task.state {
        TaskState::Waiting => {
            let since = or_dash(task.waiting_ms.map(|ms| ago(ms, now)));
            format!("waits since {since}: {} ahead, {limit} at a time", place - 1)
        }
        TaskState::Scheduled => {
            format!("keeps its turn until its next attempt {}", or_dash(task.due_ms.map(|ms| ago(ms, now))))
        }
        TaskState::Running | TaskState::Aborting => {
            let worker = or_dash(task.worker.as_ref());
            let since = or_dash(task.started_ms.map(|ms| ago(ms, now)));
            let bound = match (&task.stop, task.policy.run_timeout) {
                (Some(stop), _) => format!("ended {} at the latest", display_time(stop.hard_end_ms)),
                (None, Some(timeout)) => format!("run timeout {}", display_duration(timeout)),
                (None, None) => "no run timeout".to_owned(),
            };
            format!("on {worker}, started {since}, {bound}")
        }
        _ => "has its turn: a worker claims it".to_owned(),
    }
}
