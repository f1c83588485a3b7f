//! Published stops only make a stop arrive sooner: the next beat would bring it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_common::Result;
use leasehold_common::keys::QueueKeys;
use leasehold_common::name::{QueueName, RunId, TaskId};
use leasehold_common::store::Store;
use leasehold_common::transport::Push;

use crate::heartbeat::Nudge;
use crate::run::RunKey;
use crate::runs::Runs;

/// After the connection broke.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Listens to the stops of the queues, until it is aborted.
pub(crate) async fn listen(store: Store, queues: Vec<QueueName>, runs: Arc<Runs>, nudge: Nudge) {
    let channels: Vec<(QueueName, QueueKeys)> =
        queues.into_iter().map(|q| (q.clone(), store.keys(&q))).collect();
    loop {
        if let Err(error) = listen_once(&store, &channels, &runs, &nudge).await {
            tracing::debug!(%error, "the connection for stops broke; beats still bring them");
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn listen_once(
    store: &Store,
    channels: &[(QueueName, QueueKeys)],
    runs: &Runs,
    nudge: &Nudge,
) -> Result<()> {
    let mut listener = store.listener().await?;
    for (_, keys) in channels {
        listener.stops_of(keys).await?;
    }
    // What was published while nobody listened.
    nudge.beat();
    while let Some(push) = listener.next().await {
        if let Some(key) = run_of(channels, push)
            && runs.note_stop(key)
        {
            nudge.beat();
        }
    }
    Ok(())
}

fn run_of(channels: &[(QueueName, QueueKeys)], push: Push) -> Option<RunKey> {
    let (queue, _) = channels.iter().find(|(_, keys)| keys.stops_channel() == push.channel)?;
    Some(RunKey { queue: queue.clone(), id: TaskId::new(push.id).ok()?, run: RunId::new(push.what).ok()? })
}
