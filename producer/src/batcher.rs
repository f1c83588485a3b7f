//! Natural batching: enqueues that arrive while script calls are in flight go out together in the next one.
//!
//! Each queue has a buffer and at most two calls in flight, so that Redis works on one while callers take the answers
//! of the other and come back. The first enqueue of an idle queue goes out at once; what arrives meanwhile waits for
//! an answer. There is no timer. The calls run in tasks of their own, so that a caller who goes away takes nobody's
//! answer along.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::poll;
use leasehold_common::Error as RedisError;
use leasehold_common::limits::{BATCH_BYTES, BATCH_ITEMS};
use leasehold_common::store::{Enqueued, NewTask, Store};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout_at};

use crate::QueueName;
use crate::error::{Error, Result};
use crate::repeat::{Met, Pauses};

/// Calls in flight of one queue.
const CALLS: usize = 2;
/// How often a queue in use is announced again.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(60);

/// What the attempts of one enqueue met, seen from both sides.
type SharedMet = Arc<Mutex<Met>>;

/// Who waits for the answer of an item, and its place.
type Caller = (u64, oneshot::Sender<Result<Enqueued>>, SharedMet);

/// One enqueue on its way.
#[derive(Debug)]
struct Item {
    /// Its place among the tasks of its queue.
    place: u64,
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
    /// Items ever put in.
    places: u64,
    /// Tasks of ours that work this buffer off.
    turns: usize,
    /// Held from taking a batch until the connection has it, so that calls go out in the order of their batches.
    gate: Arc<tokio::sync::Mutex<()>>,
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
        let met = SharedMet::default();
        if let [task] = &tasks[..]
            && let Some(answer) = self.enqueue_alone(queue, task, &met, deadline, within).await
        {
            return vec![answer];
        }
        let mut open = Vec::with_capacity(tasks.len());
        let mut items = Vec::with_capacity(tasks.len());
        for (at, task) in tasks.into_iter().enumerate() {
            let (answer, answered) = oneshot::channel();
            let met = if at == 0 { Arc::clone(&met) } else { SharedMet::default() };
            open.push((answered, Arc::clone(&met)));
            items.push(Item { place: 0, task, answer, met });
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

    /// Where nothing is on its way and nothing waits, one task goes out from its caller's own future: nobody has to be
    /// woken for it. None where that is not so, or where the call failed and is to be repeated.
    async fn enqueue_alone(
        self: &Arc<Self>,
        queue: &QueueName,
        task: &NewTask,
        met: &SharedMet,
        deadline: Instant,
        within: Duration,
    ) -> Option<Result<Enqueued>> {
        let alone = self.alone_if_idle(queue)?;
        lock(met).begin();
        let call = self.store.enqueue(queue, std::slice::from_ref(task));
        let answered = timeout_at(deadline, call).await;
        drop(alone);
        match answered {
            Ok(Ok(mut answers)) => {
                self.announce(queue);
                answers.pop().map(Ok)
            }
            Ok(Err(error)) if error.is_retryable() => {
                tracing::debug!(%queue, %error, "enqueue failed, trying again");
                lock(met).failed(error);
                None
            }
            Ok(Err(error)) => Some(Err(error.into())),
            Err(_) => Some(Err(lock(met).deadline(within))),
        }
    }

    fn alone_if_idle(self: &Arc<Self>, queue: &QueueName) -> Option<Alone> {
        let mut buffers = lock(&self.buffers);
        let buffer = buffers.entry(queue.clone()).or_default();
        if buffer.turns > 0 || !buffer.waiting.is_empty() {
            return None;
        }
        buffer.turns += 1;
        Some(Alone { batcher: Arc::clone(self), queue: queue.clone() })
    }

    fn submit(self: &Arc<Self>, queue: &QueueName, items: Vec<Item>) {
        let turn = {
            let mut buffers = lock(&self.buffers);
            let buffer = buffers.entry(queue.clone()).or_default();
            for mut item in items {
                item.place = buffer.places;
                buffer.places += 1;
                buffer.waiting.push_back(item);
            }
            (buffer.turns < CALLS).then(|| self.turn(queue, buffer))
        };
        if let Some(turn) = turn {
            turn.start();
        }
    }

    fn turn(self: &Arc<Self>, queue: &QueueName, buffer: &mut Buffer) -> Turn {
        buffer.turns += 1;
        let (batcher, queue, gate) = (Arc::clone(self), queue.clone(), Arc::clone(&buffer.gate));
        Turn { batcher, queue, gate, held: true }
    }

    /// Adds the queue to the registry again once in a while, beside the calls: another slot may have lost it.
    fn announce(&self, queue: &QueueName) {
        {
            let mut buffers = lock(&self.buffers);
            let buffer = buffers.entry(queue.clone()).or_default();
            if buffer.announced.is_some_and(|at| at.elapsed() < ANNOUNCE_EVERY) {
                return;
            }
            buffer.announced = Some(Instant::now());
        }
        let (store, queue) = (self.store.clone(), queue.clone());
        tokio::spawn(async move {
            if let Err(error) = store.announce_queue(&queue).await {
                tracing::debug!(%queue, %error, "the queue is announced again in a minute");
            }
        });
    }
}

/// A call that a caller makes in its own future. What came up meanwhile is worked off by a turn once it ends, also when
/// the caller goes away.
struct Alone {
    batcher: Arc<Batcher>,
    queue: QueueName,
}

impl Drop for Alone {
    fn drop(&mut self) {
        let turn = {
            let mut buffers = lock(&self.batcher.buffers);
            let Some(buffer) = buffers.get_mut(&self.queue) else { return };
            buffer.turns -= 1;
            if buffer.turns > 0 || buffer.waiting.is_empty() {
                return;
            }
            self.batcher.turn(&self.queue, buffer)
        };
        if tokio::runtime::Handle::try_current().is_ok() {
            turn.start();
        }
        // Else the runtime ended in the middle: the turn is dropped, and whoever waits learns it from that.
    }
}

/// The right to work a buffer off, held until the buffer is empty or the runtime ends.
struct Turn {
    batcher: Arc<Batcher>,
    queue: QueueName,
    gate: Arc<tokio::sync::Mutex<()>>,
    held: bool,
}

impl Turn {
    /// Not while the buffers are locked: a runtime that ends drops the turn in this very call.
    fn start(mut self) {
        tokio::spawn(async move { self.work_off().await });
    }

    async fn work_off(&mut self) {
        let mut pauses = Pauses::new();
        while let Some(failed) = self.send_next().await {
            if failed.is_empty() {
                pauses = Pauses::new();
                self.batcher.announce(&self.queue);
                continue;
            }
            // With the gate closed, so that no younger task goes out before these.
            let gate = Arc::clone(&self.gate);
            let _closed = gate.lock().await;
            self.put_back(failed);
            sleep(pauses.next()).await;
        }
    }

    /// Sends the next batch and returns what of it may be tried again; none when nothing waits.
    async fn send_next(&mut self) -> Option<Vec<Item>> {
        let gate = Arc::clone(&self.gate);
        let held = gate.lock().await;
        // Whoever has just got an answer may come back at once: then it goes out with the others.
        yield_now().await;
        let batch = self.next_batch()?;
        let mut sending = pin!(self.send(batch));
        // The connection takes calls in the order of their first polls.
        let first = poll!(&mut sending);
        drop(held);
        Some(match first {
            Poll::Ready(failed) => failed,
            Poll::Pending => sending.await,
        })
    }

    /// The next batch; none gives the turn back in the same breath, so that no enqueue falls in between.
    fn next_batch(&mut self) -> Option<Vec<Item>> {
        let mut buffers = lock(&self.batcher.buffers);
        let buffer = buffers.entry(self.queue.clone()).or_default();
        let batch = buffer.next_batch();
        if batch.is_empty() {
            self.held = false;
            buffer.turns -= 1;
            return None;
        }
        Some(batch)
    }

    fn put_back(&self, failed: Vec<Item>) {
        let mut buffers = lock(&self.batcher.buffers);
        let buffer = buffers.entry(self.queue.clone()).or_default();
        // The other call may have failed, too, with older or younger ones.
        buffer.waiting.extend(failed);
        buffer.waiting.make_contiguous().sort_by_key(|item| item.place);
    }

    /// Sends one batch and hands the answers out; what may be tried again comes back.
    async fn send(&self, batch: Vec<Item>) -> Vec<Item> {
        let mut tasks = Vec::with_capacity(batch.len());
        let mut callers = Vec::with_capacity(batch.len());
        for Item { place, task, answer, met } in batch {
            // Until the answer is here nobody can say whether it happened.
            lock(&met).begin();
            tasks.push(task);
            callers.push((place, answer, met));
        }
        let error = match self.batcher.store.enqueue(&self.queue, &tasks).await {
            Ok(answers) => {
                for ((_, answer, _), enqueued) in callers.into_iter().zip(answers) {
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
        let again = |(task, (place, answer, met)): (NewTask, Caller)| {
            lock(&met).failed(error.clone());
            Item { place, task, answer, met }
        };
        tasks.into_iter().zip(callers).map(again).collect()
    }

    /// A whole batch was refused. If one odd task can be the reason, each goes alone, so that it fails alone.
    async fn refused(&self, tasks: Vec<NewTask>, callers: Vec<Caller>, error: RedisError) {
        let odd_one =
            matches!(error, RedisError::Invalid { .. } | RedisError::Protocol(_)) && tasks.len() > 1;
        for (task, (_, answer, _)) in tasks.into_iter().zip(callers) {
            let alone = if odd_one {
                let answers = self.batcher.store.enqueue(&self.queue, std::slice::from_ref(&task)).await;
                answers.and_then(|mut a| a.pop().ok_or_else(|| RedisError::Protocol("no answer".into())))
            } else {
                Err(error.clone())
            };
            answer.send(alone.map_err(Error::from)).ok();
        }
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
            buffer.turns -= 1;
            buffer.waiting.clear();
        }
    }
}
