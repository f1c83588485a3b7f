//! Our side: producer and worker by their public API, on one queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_common::keys::QueueKeys;
use leasehold_common::store::{QueueSettings, Store};
use leasehold_producer::{Producer, QueueName, TaskState};
use leasehold_reaper::{Config, Reaper};
use leasehold_worker::{Context, TaskError, Worker};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Lap};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::lab::Lab;
use crate::raw::BATCH;

/// How long work may take: so long at least, and a millisecond more for each task.
const PATIENCE: Duration = Duration::from_secs(60);

/// One queue of Leasehold.
#[derive(Debug)]
pub(crate) struct Ours<'a> {
    lab: &'a Lab<'a>,
    queue: QueueName,
    settings: QueueSettings,
    pub(crate) producer: Producer,
}

/// Counts the calls of a handler.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    calls: AtomicUsize,
    wanted: AtomicUsize,
    reached: Notify,
}

impl Counter {
    /// A counter that tells when `wanted` is reached.
    pub(crate) fn of(wanted: usize) -> Arc<Self> {
        Arc::new(Self { wanted: AtomicUsize::new(wanted), ..Self::default() })
    }

    /// One more.
    pub(crate) fn count(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.wanted.load(Ordering::Relaxed) {
            self.reached.notify_one();
        }
    }

    /// Comes when the wanted call was.
    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }

    /// How many there were.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// A worker or reaper at work; it ends with the value.
#[derive(Debug)]
pub(crate) struct Working {
    stop: CancellationToken,
    task: JoinHandle<Result<()>>,
}

impl Working {
    /// Ends it in order.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        (&mut self.task).await.map_err(|e| Error::odd("a worker", e.to_string()))?
    }

    /// Waits for `what`, as long as it works.
    pub(crate) async fn until<T>(
        &mut self,
        what: &'static str,
        limit: Duration,
        wait: impl Future<Output = T>,
    ) -> Result<T> {
        // cancel-safe: whichever comes first ends the wait for good.
        tokio::select! {
            waited = tokio::time::timeout(limit, wait) => waited.map_err(|_| Error::Late { what, limit }),
            ended = &mut self.task => match ended {
                Ok(Ok(())) => Err(Error::odd(what, "the worker ended")),
                Ok(Err(error)) => Err(error),
                Err(panic) => Err(Error::odd(what, panic.to_string())),
            },
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl<'a> Ours<'a> {
    pub(crate) async fn open(lab: &'a Lab<'a>, queue: &'static str, settings: QueueSettings) -> Result<Self> {
        Self::over(lab, queue, settings, lab.store()?).await
    }

    /// The same over another way to the same Redis.
    pub(crate) async fn over(
        lab: &'a Lab<'a>,
        queue: &'static str,
        settings: QueueSettings,
        store: Store,
    ) -> Result<Self> {
        let producer = Producer::over(store).queue_settings(settings).connect().await?;
        let queue = QueueName::new(queue)?;
        producer.store().register(&queue).await?;
        Ok(Self { lab, queue, settings, producer })
    }

    /// Enqueues tasks in bulk of a hundred.
    pub(crate) async fn fill(&self, tasks: usize) -> Result<()> {
        let mut left = tasks;
        while left > 0 {
            let batch = left.min(BATCH);
            let enqueues = (0..batch).map(|_| self.producer.enqueue(Job::new(0)).queue(self.queue.as_str()));
            for answer in self.producer.enqueue_all(enqueues).await {
                answer?;
            }
            left -= batch;
        }
        Ok(())
    }

    /// [`fill`](Self::fill), measured.
    pub(crate) async fn measured_fill(&self, tasks: usize) -> Result<Lap> {
        let clock = Clock::start_load(self.lab, "bulk enqueue").await?;
        self.fill(tasks).await?;
        clock.stop(tasks).await
    }

    /// Enqueues tasks due at these times, ms since 1970 by Redis's clock; each carries its own.
    pub(crate) async fn fill_delayed(&self, due: &[u64]) -> Result<()> {
        for batch in due.chunks(BATCH) {
            let enqueues = batch
                .iter()
                .map(|ms| self.producer.enqueue(Job::new(*ms)).queue(self.queue.as_str()).at(*ms));
            for answer in self.producer.enqueue_all(enqueues).await {
                answer?;
            }
        }
        Ok(())
    }

    /// Enqueues one task that carries `mark`, and waits for the answer.
    pub(crate) async fn enqueue(&self, mark: u64) -> Result<()> {
        self.producer.enqueue(Job::new(mark)).queue(self.queue.as_str()).await?;
        Ok(())
    }

    /// So many callers that enqueue one task after the other.
    pub(crate) async fn callers(&self, callers: usize, each: usize) -> Result<Lap> {
        let clock = Clock::start_load(self.lab, "single enqueues").await?;
        // Ended with the value, should the benchmark be interrupted.
        let mut calling = JoinSet::new();
        for _ in 0..callers {
            let (producer, queue) = (self.producer.clone(), self.queue.clone());
            calling.spawn(async move {
                for _ in 0..each {
                    producer.enqueue(Job::new(0)).queue(queue.as_str()).await?;
                }
                Ok::<(), leasehold_producer::Error>(())
            });
        }
        while let Some(called) = calling.join_next().await {
            called.map_err(|e| Error::odd("a caller", e.to_string()))??;
        }
        clock.stop(callers * each).await
    }

    /// A connected worker with a handler of this kind.
    pub(crate) async fn worker<F, Fut>(&self, slots: usize, each: F) -> Result<Worker>
    where
        F: Fn(Job) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.worker_at(&self.lab.server.url, slots, each).await
    }

    /// The same by another way to the same Redis.
    async fn worker_at<F, Fut>(&self, url: &str, slots: usize, each: F) -> Result<Worker>
    where
        F: Fn(Job) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (namespace, settings) = (self.lab.namespace.clone(), self.settings);
        Ok(Worker::connect(url)
            .await?
            .queue(self.queue.as_str(), slots)
            .name("bench")
            .configure(move |config| {
                config.namespace = namespace;
                config.queue_settings = settings;
            })
            .handle(move |_: Context, job: Job| {
                let done = each(job);
                async move {
                    done.await;
                    Ok::<u32, TaskError>(1)
                }
            }))
    }

    /// A worker whose handler does nothing but count.
    async fn counting(&self, counter: &Arc<Counter>) -> Result<Worker> {
        self.counting_at(&self.lab.server.url, counter).await
    }

    /// The same by another way to the same Redis.
    pub(crate) async fn counting_at(&self, url: &str, counter: &Arc<Counter>) -> Result<Worker> {
        let counter = Arc::clone(counter);
        self.worker_at(url, self.lab.plan.slots, move |_| {
            counter.count();
            std::future::ready(())
        })
        .await
    }

    /// Sets a worker to work.
    pub(crate) fn start(&self, worker: Worker) -> Working {
        let stop = self.lab.stop.child_token();
        let (told, interrupted, at_once) = (stop.clone(), self.lab.stop.clone(), worker.at_once());
        let task = self.lab.tracker.spawn(async move {
            let hurry = async {
                interrupted.cancelled().await;
                at_once.cancel();
                std::future::pending::<()>().await;
            };
            // cancel-safe: the second arm never ends.
            tokio::select! {
                ended = worker.run_until(told.cancelled_owned()) => Ok(ended?),
                () = hurry => Ok(()),
            }
        });
        Working { stop, task }
    }

    /// A reaper, at work.
    pub(crate) fn reaper(&self) -> Result<Working> {
        let reaper = Reaper::new(self.lab.store()?, Config::default())?;
        let stop = self.lab.stop.child_token();
        let told = stop.clone();
        let task = self.lab.tracker.spawn(async move {
            reaper.run(told).await;
            Ok(())
        });
        Ok(Working { stop, task })
    }

    /// Sweeps all queues until no event log gets shorter: as a reaper leaves them, at their cap.
    pub(crate) async fn sweep_to_cap(&self) -> Result<()> {
        let reaper = Reaper::new(self.lab.store()?, Config::default())?;
        let events = QueueKeys::new(&self.lab.namespace, &self.queue).events();
        let mut before = u64::MAX;
        loop {
            if reaper.run_once().await.errors > 0 {
                return Err(Error::odd("a sweep", "was not answered"));
            }
            let left: u64 = self.lab.server.ask(&["XLEN", &events]).await?;
            if left == before {
                return Ok(());
            }
            before = left;
        }
    }

    /// Waits until the counter has reached what it wants, and no task lives any more.
    pub(crate) async fn drained(&self, working: &mut Working, counter: &Counter) -> Result<()> {
        let wanted = counter.wanted.load(Ordering::Relaxed);
        working.until("the drain", patience(wanted), counter.reached()).await?;
        working.until("the last finish", PATIENCE, self.empty()).await?
    }

    /// Waits until so many running tasks have finished.
    pub(crate) async fn empty_within(&self, working: &mut Working, tasks: usize) -> Result<()> {
        working.until("the last finish", patience(tasks), self.empty()).await?
    }

    /// Comes when no task is queued or runs.
    async fn empty(&self) -> Result<()> {
        loop {
            match self.producer.queue_status(&self.queue).await? {
                Some(status) if status.count(TaskState::Queued) + status.count(TaskState::Running) > 0 => {}
                _ => return Ok(()),
            }
        }
    }

    /// Drains the queue of so many tasks, measured from the start of the worker to the last finish.
    pub(crate) async fn drain(&self, tasks: usize) -> Result<Lap> {
        let counter = Counter::of(tasks);
        let worker = self.counting(&counter).await?;
        let clock = Clock::start_load(self.lab, "drain").await?;
        let mut working = self.start(worker);
        self.drained(&mut working, &counter).await?;
        let lap = clock.stop(tasks).await?;
        working.stop().await?;
        Ok(lap)
    }

    /// Runs so many tasks of a queue that has more. What runs beyond them until the worker has ended counts too.
    pub(crate) async fn drain_part(&self, tasks: usize) -> Result<Lap> {
        let counter = Counter::of(tasks);
        let worker = self.counting(&counter).await?;
        let clock = Clock::start_load(self.lab, "drain").await?;
        let mut working = self.start(worker);
        working.until("the drain", patience(tasks), counter.reached()).await?;
        let wall = clock.wall();
        working.stop().await?;
        let all = counter.calls();
        clock.stop_after(all, wall * all as f64 / tasks as f64).await
    }

    /// Enqueues and drains so many tasks by this way to Redis, with no call but those of producer and worker.
    pub(crate) async fn run_through(&self, url: &str, tasks: usize) -> Result<()> {
        self.fill(tasks).await?;
        let counter = Counter::of(tasks);
        let mut working = self.start(self.counting_at(url, &counter).await?);
        working.until("the drain", patience(tasks), counter.reached()).await?;
        working.stop().await
    }

    /// Producer and worker at once, with a worker that waits already.
    pub(crate) async fn flow(&self, tasks: usize) -> Result<Lap> {
        let counter = Counter::of(tasks);
        let mut working = self.start(self.counting(&counter).await?);
        self.settle_in().await?;
        let clock = Clock::start_load(self.lab, "end to end").await?;
        let (filled, drained) = tokio::join!(self.fill(tasks), self.drained(&mut working, &counter));
        filled.and(drained)?;
        let lap = clock.stop(tasks).await?;
        working.stop().await?;
        Ok(lap)
    }

    /// Waits until the worker is known and has found nothing to do.
    pub(crate) async fn settle_in(&self) -> Result<()> {
        let known = async {
            while self.producer.workers().await?.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok::<(), Error>(())
        };
        tokio::time::timeout(PATIENCE, known)
            .await
            .map_err(|_| Error::Late { what: "the start of a worker", limit: PATIENCE })??;
        // It claims right after; how soon it waits for a wake-up, nobody can tell from outside.
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(())
    }
}

/// How long so many tasks may take.
pub(crate) fn patience(tasks: usize) -> Duration {
    PATIENCE + Duration::from_millis(tasks as u64)
}
