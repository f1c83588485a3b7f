//! Is anybody there? A queue needs living workers, and a reaper that sweeps.

use std::time::Duration;

use leasehold_producer::{Producer, QueueName, QueueStatus};

use crate::error::Result;

/// A reaper sweeps every second; one that has not for so long is away.
const AWAY: Duration = Duration::from_secs(10);

/// A reaper comes to a new queue within a second, even one that has just been started.
const SOON: Duration = Duration::from_secs(2);

/// Queues asked at most for the sign of a reaper, when the one in question is too new to have met it.
const ASKED: usize = 32;

/// How a queue stands, with a warning too when no reaper has ever come; none for a queue that is not registered.
pub(crate) async fn status(producer: &Producer, queue: &QueueName) -> Result<Option<QueueStatus>> {
    let Some(mut status) = producer.queue_status(queue).await? else { return Ok(None) };
    let told = status.warnings.iter().any(|warning| warning.starts_with("no reaper"));
    // Registering a queue begins its pulse; its watch clock goes once a reaper came.
    let look = producer.store().inspect(queue, &[]).await?;
    let never = look.is_some_and(|look| look.facts.number("pulse.watch") == 0);
    let since = status.last_sweep;
    if never {
        status.last_sweep = None;
    }
    let within = |limit: Duration| since.is_some_and(|ago| ago < limit);
    let fine = if never { within(SOON) } else { within(AWAY) };
    if !told && !fine && !any_swept(producer).await? {
        status.warnings.push(format!(
            "no reaper sweeps queue {queue}: lost workers go unnoticed; start `leasehold reaper` or a worker \
             with --with-reaper"
        ));
    }
    Ok(Some(status))
}

/// What is missing in a queue, one line each with what to do.
pub(crate) async fn warnings(producer: &Producer, queue: &QueueName) -> Result<Vec<String>> {
    Ok(status(producer, queue).await?.map(|status| status.warnings).unwrap_or_default())
}

/// Whether a reaper has swept a queue of late.
async fn swept(producer: &Producer, queue: &QueueName) -> Result<bool> {
    let Some(look) = producer.store().inspect(queue, &[]).await? else { return Ok(false) };
    let last = u64::try_from(look.facts.number("pulse.last")).unwrap_or_default();
    let ago = Duration::from_millis(look.now_ms.saturating_sub(last));
    Ok(look.facts.number("pulse.watch") > 0 && ago < AWAY)
}

/// Whether a reaper sweeps any queue here: it will come to a new one, too.
async fn any_swept(producer: &Producer) -> Result<bool> {
    for queue in producer.queues().await?.iter().take(ASKED) {
        if swept(producer, queue).await? {
            return Ok(true);
        }
    }
    Ok(false)
}
