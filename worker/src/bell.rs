//! An idle queue's wait for its wake marker, in a task of its own: a wait that is cancelled could take a
//! marker in vain.

use std::time::Duration;

use leasehold_common::Result;
use leasehold_common::keys::QueueKeys;
use leasehold_common::store::Store;
use leasehold_common::transport::Doorbell;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The longest wait: a lost wake costs so much at worst.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// After a wait that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// One queue's bell.
#[derive(Debug)]
pub(crate) struct Bell {
    waits: mpsc::Sender<Duration>,
    rings: mpsc::Receiver<bool>,
    task: JoinHandle<()>,
    armed: bool,
}

impl Bell {
    /// A bell that waits when told to.
    pub(crate) fn new(store: Store, queue: QueueKeys) -> Self {
        let (waits, orders) = mpsc::channel(1);
        let (answers, rings) = mpsc::channel(1);
        let task = tokio::spawn(answer_waits(store, queue, orders, answers));
        Self { waits, rings, task, armed: false }
    }

    /// Begins to wait, unless it does already.
    pub(crate) fn arm(&mut self, wait: Duration) {
        if !self.armed {
            self.armed = self.waits.try_send(wait.min(LONGEST_WAIT)).is_ok();
        }
    }

    /// The end of a wait: true when it took the marker. Cancel-safe; never, when not armed.
    pub(crate) async fn rung(&mut self) -> bool {
        if self.armed
            && let Some(woken) = self.rings.recv().await
        {
            self.armed = false;
            return woken;
        }
        std::future::pending().await
    }

    /// Ends the wait and its connection, so that it takes no marker any more.
    pub(crate) async fn silence(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

async fn answer_waits(
    store: Store,
    queue: QueueKeys,
    mut orders: mpsc::Receiver<Duration>,
    answers: mpsc::Sender<bool>,
) {
    let queues = [queue];
    let mut connection: Option<Doorbell> = None;
    while let Some(wait) = orders.recv().await {
        let woken = match wait_once(&store, &mut connection, &queues, wait).await {
            Ok(woken) => woken,
            Err(error) => {
                tracing::debug!(%error, "the wake connection broke; claiming instead");
                connection = None;
                tokio::time::sleep(RETRY_PAUSE).await;
                false
            }
        };
        if answers.send(woken).await.is_err() {
            return;
        }
    }
}

async fn wait_once(
    store: &Store,
    connection: &mut Option<Doorbell>,
    queues: &[QueueKeys],
    wait: Duration,
) -> Result<bool> {
    let bell = match connection {
        Some(bell) => bell,
        None => connection.insert(store.doorbell().await?),
    };
    Ok(bell.wait(queues, wait).await?.is_some())
}
