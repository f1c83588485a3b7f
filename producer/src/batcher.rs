//! Natural batching: enqueues that arrive while a script call is in flight go out together in the next one.
//!
//! Each queue has a buffer and at most one call in flight. The first enqueue of an idle queue goes out at once;
//! what arrives meanwhile waits for its answer. There is no timer. The calls run in a task of their own, so
//! that a caller who goes away takes nobody's answer along.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_common::Error as RedisError;
use leasehold_common::limits::{BATCH_BYTES, BATCH_ITEMS};
use leasehold_common::store::{Enqueued, NewTask, Store};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use crate::QueueName;
use crate::error::{Error, Result};
use crate::repeat::{Met, Pauses};

/// How often a queue in use is announced again.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(60);

/// What the attempts of one enqueue met, seen from both sides.
type SharedMet = Arc<Mutex<Met>>;

/// One enqueue on its way.
#[derive(Debug)]
struct Item {
    task: NewTask,
    answer: oneshot::Sender<Result<Enqueued>>,
    met: SharedMet,
}

impl Item {
    /// About what the store counts it as.
    fn size(&self) -> usize {
        let headers: usize = self.task.body.headers.iter().map(|(k, v)| k.len() + v.len() + 8).sum();
        self.task.body.payload.len() + headers + 600
    }
}

#[derive(Debug, Default)]
struct Buffer {
    waiting: VecDeque<Item>,
    /// A task of ours works this buffer off.
    busy: bool,
    announced: Option<Instant>,
}

impl Buffer {
    /// What goes out next: the oldest whose callers are still there, within the limits of one call.
    fn next_batch(&mut self) -> Vec<Item> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(item) = self.waiting.pop_front() {
            if item.answer.is_closed() {
                continue;
            }
            let size = item.size();
            if !batch.is_empty() && (batch.len() == BATCH_ITEMS || bytes + size > BATCH_BYTES) {
                self.waiting.push_front(item);
                break;
            }
            bytes += size;
            batch.push(item);
        }
        batch
    }
}

/// The buffers of all queues of a producer.
#[derive(Debug)]
pub(crate) struct Batcher {
    store: Store,
    buffers: Mutex<HashMap<QueueName, Buffer>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Batcher {
    pub(crate) fn new(store: Store) -> Arc<Self> {
        Arc::new(Self { store, buffers: Mutex::default() })
    }

    /// Enqueues tasks of one queue, in order, and answers for each. Nothing is sent before the first poll.
    pub(crate) async fn enqueue(
        self: &Arc<Self>,
        queue: &QueueName,
        tasks: Vec<NewTask>,
        within: Duration,
    ) -> Vec<Result<Enqueued>> {
        let deadline = Instant::now() + within;
        let mut open = Vec::with_capacity(tasks.len());
        let mut items = Vec::with_capacity(tasks.len());
        for task in tasks {
            let (answer, answered) = oneshot::channel();
            let met = SharedMet::default();
            open.push((answered, Arc::clone(&met)));
            items.push(Item { task, answer, met });
        }
        self.submit(queue, items);
        let mut answers = Vec::with_capacity(open.len());
        for (answered, met) in open {
            answers.push(match timeout_at(deadline, answered).await {
                Ok(answer) => answer.unwrap_or(Err(Error::Closed)),
                Err(_) => Err(lock(&met).deadline(within)),
            });
        }
        answers
    }

    fn submit(self: &Arc<Self>, queue: &QueueName, items: Vec<Item>) {
        let mut buffers = lock(&self.buffers);
        let buffer = buffers.entry(queue.clone()).or_default();
        buffer.waiting.extend(items);
        if !mem::replace(&mut buffer.busy, true) {
            let mut turn = Turn { batcher: Arc::clone(self), queue: queue.clone(), held: true };
            tokio::spawn(async move { turn.work_off().await });
        }
    }
}

/// The right to work a buffer off, held until the buffer is empty or the runtime ends.
struct Turn {
    batcher: Arc<Batcher>,
    queue: QueueName,
    held: bool,
}

impl Turn {
    async fn work_off(&mut self) {
        let mut pauses = Pauses::new();
        while let Some(batch) = self.next_batch() {
            let failed = self.send(batch).await;
            if failed.is_empty() {
                pauses = Pauses::new();
                self.announce();
                continue;
            }
            self.put_back(failed);
            sleep(pauses.next()).await;
        }
    }

    /// The next batch; none gives the turn back in the same breath, so that no enqueue falls in between.
    fn next_batch(&mut self) -> Option<Vec<Item>> {
        let mut buffers = lock(&self.batcher.buffers);
        let buffer = buffers.entry(self.queue.clone()).or_default();
        let batch = buffer.next_batch();
        self.held = !batch.is_empty();
        buffer.busy = self.held;
        self.held.then_some(batch)
    }

    fn put_back(&self, failed: Vec<Item>) {
        let mut buffers = lock(&self.batcher.buffers);
        let buffer = buffers.entry(self.queue.clone()).or_default();
        for item in failed.into_iter().rev() {
            buffer.waiting.push_front(item);
        }
    }

    /// Sends one batch and hands the answers out; what may be tried again comes back.
    async fn send(&self, batch: Vec<Item>) -> Vec<Item> {
        let mut tasks = Vec::with_capacity(batch.len());
        let mut callers = Vec::with_capacity(batch.len());
        for Item { task, answer, met } in batch {
            // Until the answer is here nobody can say whether it happened.
            lock(&met).begin();
            tasks.push(task);
            callers.push((answer, met));
        }
        let error = match self.batcher.store.enqueue(&self.queue, &tasks).await {
            Ok(answers) => {
                for ((answer, _), enqueued) in callers.into_iter().zip(answers) {
                    // A caller who went away does not want to know.
                    answer.send(Ok(enqueued)).ok();
                }
                return Vec::new();
            }
            Err(error) => error,
        };
        if !error.is_retryable() {
            self.refused(tasks, callers, error).await;
            return Vec::new();
        }
        tracing::debug!(queue = %self.queue, %error, tasks = tasks.len(), "enqueue failed, trying again");
        let again = |(task, (answer, met)): (NewTask, (_, SharedMet))| {
            lock(&met).failed(error.clone());
            Item { task, answer, met }
        };
        tasks.into_iter().zip(callers).map(again).collect()
    }

    /// A whole batch was refused. If one odd task can be the reason, each goes alone, so that it fails alone.
    async fn refused(
        &self,
        tasks: Vec<NewTask>,
        callers: Vec<(oneshot::Sender<Result<Enqueued>>, SharedMet)>,
        error: RedisError,
    ) {
        let odd_one =
            matches!(error, RedisError::Invalid { .. } | RedisError::Protocol(_)) && tasks.len() > 1;
        for (task, (answer, _)) in tasks.into_iter().zip(callers) {
            let alone = if odd_one {
                let answers = self.batcher.store.enqueue(&self.queue, std::slice::from_ref(&task)).await;
                answers.and_then(|mut a| a.pop().ok_or_else(|| RedisError::Protocol("no answer".into())))
            } else {
                Err(error.clone())
            };
            answer.send(alone.map_err(Error::from)).ok();
        }
    }

    /// Adds the queue to the registry again once in a while, beside the calls: another slot may have lost it.
    fn announce(&self) {
        {
            let mut buffers = lock(&self.batcher.buffers);
            let buffer = buffers.entry(self.queue.clone()).or_default();
            if buffer.announced.is_some_and(|at| at.elapsed() < ANNOUNCE_EVERY) {
                return;
            }
            buffer.announced = Some(Instant::now());
        }
        let (store, queue) = (self.batcher.store.clone(), self.queue.clone());
        tokio::spawn(async move {
            if let Err(error) = store.announce_queue(&queue).await {
                tracing::debug!(%queue, %error, "the queue is announced again in a minute");
            }
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        let mut buffers = lock(&self.batcher.buffers);
        if let Some(buffer) = buffers.get_mut(&self.queue) {
            // The runtime ended in the middle: whoever waits learns that from the dropped sender.
            buffer.busy = false;
            buffer.waiting.clear();
        }
    }
}
