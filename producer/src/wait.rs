//! Waiting for ends: one task and one connection for all waiters of a producer.
//!
//! A waiter is noted in Redis before its task is looked at, so that an end in between is published; what is
//! published only makes the answer come sooner: the tasks waited for are looked at every two seconds anyway,
//! and after every reconnect. Without waiters the connection is closed after a while.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, OptionFuture};
use leasehold_common::record::TaskDetail;
use leasehold_common::state::TaskState;
use leasehold_common::store::Store;
use leasehold_common::transport::{Listener, Push};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::error::{Error, Result};
use crate::{QueueName, TaskId};

/// Every task that is waited for is looked at so often, published or not.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long Redis remembers that somebody waits: longer than several looks, each of which says it again.
const WAITER_TTL_MS: u64 = 30_000;
/// Tasks of one look in one round trip.
const LOOK_CHUNK: usize = 256;
/// The connection outlives its last waiter by this.
const IDLE: Duration = Duration::from_secs(10);
/// A task that is gone may have been published a moment ago: how long its state may take to arrive.
const PUBLISHED_GRACE: Duration = Duration::from_millis(200);

/// How a task ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// It is kept, with its output or its failures.
    Kept(Box<TaskDetail>),
    /// It was removed at its end, as its queue's retention says. None: it ended before anybody waited.
    Discarded(Option<TaskState>),
}

type Answer = oneshot::Sender<Result<Ended>>;
type Waiting = HashMap<QueueName, HashMap<TaskId, Vec<Answer>>>;

#[derive(Debug, Default)]
struct State {
    waiting: Waiting,
    /// Waiters that nobody has looked for yet.
    fresh: HashSet<(QueueName, TaskId)>,
    running: bool,
}

/// All waiters of a producer.
#[derive(Debug)]
pub(crate) struct Waiters {
    store: Store,
    state: Mutex<State>,
    news: Notify,
}

impl Waiters {
    pub(crate) fn new(store: Store) -> Arc<Self> {
        Arc::new(Self { store, state: Mutex::default(), news: Notify::new() })
    }

    /// Waits until the task has ended.
    pub(crate) async fn wait(self: &Arc<Self>, queue: &QueueName, id: &TaskId) -> Result<Ended> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.state();
            state.waiting.entry(queue.clone()).or_default().entry(id.clone()).or_default().push(answer);
            state.fresh.insert((queue.clone(), id.clone()));
            if !std::mem::replace(&mut state.running, true) {
                let hub = Hub::new(Arc::clone(self));
                tokio::spawn(hub.run());
            }
        }
        self.news.notify_one();
        answered.await.unwrap_or(Err(Error::Closed))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_fresh(&self) -> HashMap<QueueName, Vec<TaskId>> {
        let mut fresh: HashMap<QueueName, Vec<TaskId>> = HashMap::new();
        for (queue, id) in self.state().fresh.drain() {
            fresh.entry(queue).or_default().push(id);
        }
        fresh
    }

    /// All that somebody still waits for; whoever went away is forgotten on the way.
    fn take_stock(&self) -> HashMap<QueueName, Vec<TaskId>> {
        let mut state = self.state();
        state.waiting.retain(|_, ids| {
            ids.retain(|_, answers| {
                answers.retain(|answer| !answer.is_closed());
                !answers.is_empty()
            });
            !ids.is_empty()
        });
        let ids = |tasks: &HashMap<TaskId, Vec<Answer>>| tasks.keys().cloned().collect();
        state.waiting.iter().map(|(queue, tasks)| (queue.clone(), ids(tasks))).collect()
    }

    fn is_waited_for(&self, queue: &QueueName, id: &TaskId) -> bool {
        self.state().waiting.get(queue).is_some_and(|ids| ids.contains_key(id))
    }

    fn answer(&self, queue: &QueueName, id: &TaskId, ended: &Result<Ended>) {
        let taken = self.state().waiting.get_mut(queue).and_then(|ids| ids.remove(id));
        for answer in taken.into_iter().flatten() {
            // A waiter who went away does not want to know.
            answer.send(ended.clone()).ok();
        }
    }

    /// The task has ended, says a look or a message: fetches how, and answers.
    async fn conclude(&self, queue: &QueueName, id: &TaskId, published: Option<TaskState>) {
        match self.store.detail(queue, id).await {
            Ok(Some(detail)) if detail.record.state.is_terminal() => {
                self.answer(queue, id, &Ok(Ended::Kept(Box::new(detail))));
            }
            // Somebody runs it again: its next end counts.
            Ok(Some(_)) => {}
            Ok(None) if published.is_some() => self.answer(queue, id, &Ok(Ended::Discarded(published))),
            Ok(None) => self.conclude_missing(queue, id).await,
            Err(error) if error.is_retryable() => {}
            Err(error) => self.answer(queue, id, &Err(error.into())),
        }
    }

    async fn conclude_missing(&self, queue: &QueueName, id: &TaskId) {
        sleep(PUBLISHED_GRACE).await;
        if !self.is_waited_for(queue, id) {
            return;
        }
        let ended = match self.store.inspect(queue, std::slice::from_ref(id)).await {
            Ok(seen) => match seen.and_then(|seen| seen.tasks.into_iter().next()) {
                Some(task) if task.gone => Ok(Ended::Discarded(None)),
                // Enqueued in this very moment: the next look finds it.
                Some(task) if task.record.is_some() => return,
                _ => Err(Error::NotFound { queue: queue.clone(), id: id.clone() }),
            },
            Err(error) if error.is_retryable() => return,
            Err(error) => Err(error.into()),
        };
        self.answer(queue, id, &ended);
    }

    /// Says that somebody waits, then looks. False when Redis is away.
    async fn look(self: &Arc<Self>, queue: &QueueName, ids: &[TaskId]) -> bool {
        for chunk in ids.chunks(LOOK_CHUNK) {
            let looked = async {
                self.store.await_end(queue, chunk, WAITER_TTL_MS).await?;
                self.store.records(queue, chunk).await
            };
            match looked.await {
                Ok(records) => {
                    for (id, record) in chunk.iter().zip(records) {
                        // One that cannot be read is nobody else's trouble: its own look says so.
                        if record.is_none_or(|record| record.map_or(true, |r| r.state.is_terminal())) {
                            self.spawn_conclude(queue.clone(), id.clone(), None);
                        }
                    }
                }
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%queue, %error, "looking for ends again in 2 s");
                    return false;
                }
                // Each is asked for alone, and told alone.
                Err(_) => {
                    for id in chunk {
                        self.spawn_conclude(queue.clone(), id.clone(), None);
                    }
                }
            }
        }
        true
    }

    fn spawn_conclude(self: &Arc<Self>, queue: QueueName, id: TaskId, published: Option<TaskState>) {
        let waiters = Arc::clone(self);
        tokio::spawn(async move { waiters.conclude(&queue, &id, published).await });
    }
}

/// The one task that serves all waiters.
struct Hub {
    waiters: Arc<Waiters>,
    /// Channels that the listener listens to, and whose they are.
    channels: HashMap<String, QueueName>,
    listener: Option<Listener>,
    connecting: Option<BoxFuture<'static, leasehold_common::Result<Listener>>>,
    next_connect: Instant,
    next_look: Instant,
    busy_at: Instant,
    over: bool,
}

enum News {
    Fresh,
    Connected(leasehold_common::Result<Listener>),
    Published(Option<Push>),
    Time,
}

impl Hub {
    fn new(waiters: Arc<Waiters>) -> Self {
        let now = Instant::now();
        Self {
            waiters,
            channels: HashMap::new(),
            listener: None,
            connecting: None,
            next_connect: now,
            next_look: now + LOOK_EVERY,
            busy_at: now,
            over: false,
        }
    }

    async fn run(mut self) {
        while self.goes_on() {
            if self.listener.is_none() && self.connecting.is_none() && Instant::now() >= self.next_connect {
                let store = self.waiters.store.clone();
                self.connecting = Some(async move { store.listener().await }.boxed());
            }
            match self.news().await {
                News::Fresh => self.look_at(self.waiters.take_fresh()).await,
                News::Connected(Ok(listener)) => {
                    (self.connecting, self.listener) = (None, Some(listener));
                    self.next_connect = Instant::now() + LOOK_EVERY;
                    self.look_at(self.waiters.take_stock()).await;
                }
                News::Connected(Err(error)) => {
                    tracing::debug!(%error, "nothing published is heard; looking every 2 s");
                    self.next_connect = Instant::now() + LOOK_EVERY;
                    self.disconnected();
                }
                News::Published(Some(push)) => self.published(push),
                News::Published(None) => self.disconnected(),
                News::Time => {
                    self.next_look = Instant::now() + LOOK_EVERY;
                    self.look_at(self.waiters.take_stock()).await;
                }
            }
        }
    }

    /// Without a waiter for a while the hub ends; the next waiter starts another, in the same breath if need be.
    fn goes_on(&mut self) -> bool {
        let mut state = self.waiters.state();
        if !state.waiting.is_empty() || !state.fresh.is_empty() {
            self.busy_at = Instant::now();
        }
        self.over = self.busy_at.elapsed() >= IDLE;
        state.running = !self.over;
        state.running
    }

    async fn news(&mut self) -> News {
        let connected = OptionFuture::from(self.connecting.as_mut());
        let push = OptionFuture::from(self.listener.as_mut().map(Listener::next));
        tokio::select! {
            // cancel-safe: a notification that is not taken stays.
            () = self.waiters.news.notified() => News::Fresh,
            // cancel-safe: the future is kept and polled on.
            Some(connected) = connected => News::Connected(connected),
            // cancel-safe: `Listener::next` is.
            Some(push) = push => News::Published(push),
            // cancel-safe: only time passes.
            () = sleep_until(self.next_look) => News::Time,
        }
    }

    /// The next connection is made at once if this one had lasted, else later.
    fn disconnected(&mut self) {
        (self.listener, self.connecting) = (None, None);
        self.channels.clear();
    }

    /// Listens before it looks.
    async fn look_at(&mut self, tasks: HashMap<QueueName, Vec<TaskId>>) {
        for (queue, ids) in tasks {
            self.listen_to(&queue).await;
            if !self.waiters.look(&queue, &ids).await {
                return;
            }
        }
    }

    async fn listen_to(&mut self, queue: &QueueName) {
        let keys = self.waiters.store.keys(queue);
        let channel = keys.ended_channel();
        if self.channels.contains_key(&channel) {
            return;
        }
        let Some(listener) = &mut self.listener else { return };
        match listener.ends_of(&keys).await {
            Ok(()) => {
                self.channels.insert(channel, queue.clone());
            }
            Err(error) => {
                tracing::debug!(%queue, %error, "nothing published is heard; looking every 2 s");
                self.disconnected();
            }
        }
    }

    fn published(&self, push: Push) {
        let (Some(queue), Ok(id)) = (self.channels.get(&push.channel), TaskId::new(push.id)) else { return };
        if self.waiters.is_waited_for(queue, &id) {
            self.waiters.spawn_conclude(queue.clone(), id, push.what.parse().ok());
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // The runtime ended in the middle: whoever waits learns that from the dropped sender.
        let mut state = self.waiters.state();
        state.running = false;
        state.waiting.clear();
        state.fresh.clear();
    }
}
