//! `leasehold queue show`.

use leasehold_common::time::display_duration;
use leasehold_producer::QueueName;
use serde_json::Value;

use super::{counts, document, since};
use crate::commands::workers;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::health;
use crate::output;
use crate::view::Lines;

pub(super) async fn run(context: &Context, queue: &QueueName) -> Result<Exit> {
    let producer = context.producer().await?;
    let Some(status) = health::status(&producer, queue).await? else { return Err(missing(queue)) };
    if context.output.is_json() {
        let mut document = document(&status);
        document["served_by"] = status.workers.iter().map(|(w, _)| workers::document(w)).collect::<Value>();
        output::json(&document)?;
        return Ok(Exit::Success);
    }
    let mut lines = Lines::new();
    lines.add("queue", queue.as_str());
    for (state, count) in counts(&status) {
        lines.add(state, &count.to_string());
    }
    lines.add("oldest queued", &since(status.oldest_queued, "-"));
    lines.add("lease", &display_duration(status.lease));
    lines.add("swept", &since(status.last_sweep, "never"));
    for (worker, slots) in &status.workers {
        let (name, host) = (&worker.name, &worker.host);
        lines.add("worker", &format!("{name} on {host}, {slots} slots, {}", worker.status));
    }
    output::line(&lines.text())?;
    for warning in &status.warnings {
        output::warn(warning);
    }
    Ok(Exit::Success)
}

/// There is no such queue.
pub(crate) fn missing(queue: &QueueName) -> Failure {
    Failure::not_found(format!("there is no queue {queue}"))
        .hint("`leasehold queue list` lists those there are; the first enqueue makes one")
}
