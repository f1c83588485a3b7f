//! `leasehold queue list`.

use serde_json::json;

use super::{counts, document, since};
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::health;
use crate::output::{self, Rows};

pub(super) async fn run(context: &Context) -> Result<Exit> {
    let producer = context.producer().await?;
    let mut all = Vec::new();
    for queue in producer.queues().await? {
        all.extend(health::status(&producer, &queue).await?);
    }
    if context.output.is_json() {
        let queues: Vec<_> = all.iter().map(document).collect();
        output::json(&json!({ "queues": queues }))?;
        return Ok(Exit::Success);
    }
    if all.is_empty() {
        context.output.note("no queue yet: the first enqueue makes one");
        return Ok(Exit::Success);
    }
    let mut header = vec!["queue"];
    header.extend(counts(&all[0]).map(|(state, _)| state));
    header.extend(["workers", "slots", "oldest", "swept"]);
    let mut rows = Rows::new(&header);
    for status in &all {
        let mut cells = vec![status.queue.to_string()];
        cells.extend(counts(status).map(|(_, count)| count.to_string()));
        cells.extend([status.workers.len().to_string(), status.slots().to_string()]);
        cells.extend([since(status.oldest_queued, "-"), since(status.last_sweep, "never")]);
        rows.add(cells);
    }
    output::rows(rows)?;
    for warning in all.iter().flat_map(|status| &status.warnings) {
        output::warn(warning);
    }
    Ok(Exit::Success)
}
