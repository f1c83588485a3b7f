//! An idle queue's wait for its wake marker. A wait lives on until it ends, whoever stops listening meanwhile: one that
//! is cancelled could take a marker in vain.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use leasehold_common::name::QueueName;
use leasehold_common::store::{ClaimAnswer, ClaimRequest, Store};
use leasehold_common::transport::Doorbell;
use leasehold_common::{Error, Result};

use crate::guard::BootInstant;

/// The longest wait: a lost wake costs so much at worst.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// After a wait that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The end of a wait.
#[derive(Debug)]
pub(crate) enum Ring {
    /// Claim now; true when it took the marker.
    Wake(bool),
    /// The claim was answered, or failed; and when it was sent.
    Claimed(BootInstant, Result<ClaimAnswer>),
}

/// A wait: gives the connection back, if it is still good.
type Wait = BoxFuture<'static, (Option<Doorbell>, Ring)>;

/// One queue's bell.
pub(crate) struct Bell {
    store: Store,
    queue: QueueName,
    connection: Option<Doorbell>,
    wait: Option<Wait>,
}

impl Bell {
    /// A bell that waits when told to.
    pub(crate) fn new(store: Store, queue: QueueName) -> Self {
        Self { store, queue, connection: None, wait: None }
    }

    /// Is it waiting?
    pub(crate) fn is_armed(&self) -> bool {
        self.wait.is_some()
    }

    /// Begins to wait for the marker, unless it waits already.
    pub(crate) fn arm(&mut self) {
        if self.wait.is_none() {
            let (store, queue, connection) = self.parts();
            self.wait = Some(wait_for_marker(store, queue, connection).boxed());
        }
    }

    /// Begins to wait for the marker or the end of the longest wait, with a claim behind it that Redis holds back until
    /// then: nothing travels between the wake and the claim. Not while it waits.
    pub(crate) fn arm_claim(&mut self, request: ClaimRequest) {
        let (store, queue, connection) = self.parts();
        self.wait = Some(wait_and_claim(store, queue, connection, request).boxed());
    }

    fn parts(&mut self) -> (Store, QueueName, Option<Doorbell>) {
        (self.store.clone(), self.queue.clone(), self.connection.take())
    }

    /// The end of a wait. Cancel-safe: the wait stays; never, when not armed.
    pub(crate) async fn rung(&mut self) -> Ring {
        let Some(wait) = &mut self.wait else { return std::future::pending().await };
        let (connection, ring) = wait.await;
        (self.connection, self.wait) = (connection, None);
        ring
    }
}

async fn bell_of(store: &Store, connection: Option<Doorbell>) -> Result<Doorbell> {
    match connection {
        Some(bell) => Ok(bell),
        None => store.doorbell().await,
    }
}

async fn wait_for_marker(
    store: Store,
    queue: QueueName,
    connection: Option<Doorbell>,
) -> (Option<Doorbell>, Ring) {
    let waited = async {
        let mut bell = bell_of(&store, connection).await?;
        let woken = bell.wait(&[store.keys(&queue)], LONGEST_WAIT).await?.is_some();
        Ok::<_, Error>((bell, woken))
    };
    match waited.await {
        Ok((bell, woken)) => (Some(bell), Ring::Wake(woken)),
        Err(error) => {
            tracing::debug!(%error, "the wake connection broke; claiming instead");
            tokio::time::sleep(RETRY_PAUSE).await;
            (None, Ring::Wake(false))
        }
    }
}

async fn wait_and_claim(
    store: Store,
    queue: QueueName,
    connection: Option<Doorbell>,
    request: ClaimRequest,
) -> (Option<Doorbell>, Ring) {
    let sent = BootInstant::now();
    let claimed = async {
        let mut bell = bell_of(&store, connection).await?;
        let answer = store.claim_when_woken(&mut bell, &queue, &request, LONGEST_WAIT).await?;
        Ok((bell, answer))
    };
    match claimed.await {
        Ok((bell, answer)) => (Some(bell), Ring::Claimed(sent, Ok(answer))),
        Err(error) => {
            // As above; but a script that was flushed is loaded at once.
            if !matches!(&error, Error::RetryLater { .. }) {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            (None, Ring::Claimed(sent, Err(error)))
        }
    }
}
