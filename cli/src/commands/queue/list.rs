//! `leasehold queue list`.

use leasehold_producer::TaskState;
use serde_json::json;

use super::{document, since};
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::health;
use crate::output::{self, Rows};

pub(super) async fn run(context: &Context) -> Result<Exit> {
    let producer = context.producer().await?;
    let mut all = Vec::new();
    let mut odd = Vec::new();
    for queue in producer.queues().await? {
        match health::status(&producer, &queue).await {
            Ok(status) => all.extend(status),
            // One queue that holds what is not Leasehold's hides no other.
            Err(error) if error.exit() == Exit::Failed => {
                odd.push(format!("queue {queue}: {}", error.text()));
            }
            Err(error) => return Err(error),
        }
    }
    odd.iter().for_each(|warning| output::warn(warning));
    if context.output.is_json() {
        let queues: Vec<_> = all.iter().map(document).collect();
        output::json(&json!({ "queues": queues }))?;
        return Ok(Exit::Success);
    }
    if all.is_empty() {
        context.output.note("no queue yet: the first enqueue makes one");
        return Ok(Exit::Success);
    }
    let mut rows = Rows::new(&[
        "queue",
        "scheduled",
        "waiting",
        "queued",
        "running",
        "completed",
        "failed",
        "timed_out",
        "aborted",
        "workers",
        "oldest",
    ]);
    for status in &all {
        let count = |state| status.count(state);
        let running = count(TaskState::Running) + count(TaskState::Aborting);
        let numbers = [
            count(TaskState::Scheduled),
            count(TaskState::Waiting),
            count(TaskState::Queued),
            running,
            count(TaskState::Completed),
            count(TaskState::Failed),
            count(TaskState::TimedOut),
            count(TaskState::Aborted),
            status.workers.len() as u64,
        ];
        let mut cells = vec![status.queue.to_string()];
        cells.extend(numbers.map(|n| n.to_string()));
        cells.push(since(status.oldest_queued, "-"));
        rows.add(cells);
    }
    output::rows(rows)?;
    for warning in all.iter().flat_map(|status| &status.warnings) {
        output::warn(warning);
    }
    Ok(Exit::Success)
}
