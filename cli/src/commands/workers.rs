//! `leasehold workers`: who lives.

use clap::Args;
use leasehold_common::store::WorkerInfo;
use leasehold_common::time::display_time;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{self, Rows};
use crate::view::ago;

/// List the workers that live, with their queues and what they have in hand.
#[derive(Debug, Args)]
pub(crate) struct WorkersArgs {}

/// Runs it.
pub(crate) async fn run(context: &Context, _args: &WorkersArgs) -> Result<Exit> {
    let store = context.store()?;
    let (workers, now) = (store.workers().await?, store.now_ms().await?);
    if context.output.is_json() {
        let workers: Vec<Value> = workers.iter().map(document).collect();
        output::json(&json!({ "workers": workers }))?;
        return Ok(Exit::Success);
    }
    if workers.is_empty() {
        context.output.note("no worker lives; start one: leasehold worker --queue default=8 --allow-exec");
        return Ok(Exit::Success);
    }
    let mut rows = Rows::new(&["worker", "status", "running", "queues", "host", "pid", "started"]);
    for worker in &workers {
        rows.add([
            worker.name.to_string(),
            worker.status.clone(),
            worker.running.to_string(),
            queues(worker),
            worker.host.clone(),
            worker.pid.to_string(),
            ago(worker.started_ms, now),
        ]);
    }
    output::rows(rows)?;
    Ok(Exit::Success)
}

fn queues(worker: &WorkerInfo) -> String {
    worker.queues.iter().map(|(queue, slots)| format!("{queue}={slots}")).collect::<Vec<_>>().join(",")
}

/// A worker as JSON.
pub(crate) fn document(worker: &WorkerInfo) -> Value {
    let queues: serde_json::Map<String, Value> =
        worker.queues.iter().map(|(queue, slots)| (queue.to_string(), json!(slots))).collect();
    json!({
        "name": worker.name,
        "incarnation": worker.incarnation,
        "status": worker.status,
        "running": worker.running,
        "queues": queues,
        "host": worker.host,
        "pid": worker.pid,
        "started_at": display_time(worker.started_ms),
    })
}
