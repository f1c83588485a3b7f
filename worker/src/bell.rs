//! An idle queue's wait for its wake marker, in a task of its own: a wait that is cancelled could take a
//! marker in vain.

use std::time::Duration;

use leasehold_common::Result;
use leasehold_common::name::QueueName;
use leasehold_common::store::{ClaimAnswer, ClaimRequest, Store};
use leasehold_common::transport::Doorbell;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::guard::BootInstant;

/// The longest wait: a lost wake costs so much at worst.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// After a wait that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// What to wait for.
#[derive(Debug)]
enum Order {
    /// The marker.
    Wake,
    /// The marker or the end of the longest wait, and then this claim, which Redis holds back until then: nothing
    /// travels between the wake and the claim.
    Claim(Box<ClaimRequest>),
}

/// The end of a wait.
#[derive(Debug)]
pub(crate) enum Ring {
    /// Claim now; true when it took the marker.
    Wake(bool),
    /// The claim was answered, or failed; and when it was sent.
    Claimed(BootInstant, Result<ClaimAnswer>),
}

/// One queue's bell.
#[derive(Debug)]
pub(crate) struct Bell {
    orders: mpsc::Sender<Order>,
    rings: mpsc::Receiver<Ring>,
    task: JoinHandle<()>,
    armed: bool,
}

impl Bell {
    /// A bell that waits when told to.
    pub(crate) fn new(store: Store, queue: QueueName) -> Self {
        let (orders, taken) = mpsc::channel(1);
        let (answers, rings) = mpsc::channel(1);
        let task = tokio::spawn(answer_waits(store, queue, taken, answers));
        Self { orders, rings, task, armed: false }
    }

    /// Is it waiting?
    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Begins to wait, unless it does already.
    pub(crate) fn arm(&mut self) {
        self.order(Order::Wake);
    }

    /// Begins to wait with a claim behind the wait. Not while it waits.
    pub(crate) fn arm_claim(&mut self, request: ClaimRequest) {
        self.order(Order::Claim(Box::new(request)));
    }

    fn order(&mut self, order: Order) {
        if !self.armed {
            self.armed = self.orders.try_send(order).is_ok();
        }
    }

    /// The end of a wait. Cancel-safe; never, when not armed.
    pub(crate) async fn rung(&mut self) -> Ring {
        if self.armed
            && let Some(ring) = self.rings.recv().await
        {
            self.armed = false;
            return ring;
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
    queue: QueueName,
    mut orders: mpsc::Receiver<Order>,
    answers: mpsc::Sender<Ring>,
) {
    let mut connection: Option<Doorbell> = None;
    while let Some(order) = orders.recv().await {
        let ring = match order {
            Order::Wake => Ring::Wake(match wait_once(&store, &mut connection, &queue).await {
                Ok(woken) => woken,
                Err(error) => {
                    tracing::debug!(%error, "the wake connection broke; claiming instead");
                    connection = None;
                    tokio::time::sleep(RETRY_PAUSE).await;
                    false
                }
            }),
            Order::Claim(request) => {
                let sent = BootInstant::now();
                let answer = claim_once(&store, &mut connection, &queue, &request).await;
                if answer.is_err() {
                    connection = None;
                }
                Ring::Claimed(sent, answer)
            }
        };
        if answers.send(ring).await.is_err() {
            return;
        }
    }
}

async fn bell_of<'a>(store: &Store, connection: &'a mut Option<Doorbell>) -> Result<&'a mut Doorbell> {
    Ok(match connection {
        Some(bell) => bell,
        None => connection.insert(store.doorbell().await?),
    })
}

async fn wait_once(store: &Store, connection: &mut Option<Doorbell>, queue: &QueueName) -> Result<bool> {
    let bell = bell_of(store, connection).await?;
    Ok(bell.wait(&[store.keys(queue)], LONGEST_WAIT).await?.is_some())
}

async fn claim_once(
    store: &Store,
    connection: &mut Option<Doorbell>,
    queue: &QueueName,
    request: &ClaimRequest,
) -> Result<ClaimAnswer> {
    let bell = bell_of(store, connection).await?;
    store.claim_when_woken(bell, queue, request, LONGEST_WAIT).await
}
