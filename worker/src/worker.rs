//! The worker: it wires the loops together, and takes them down in order.

use std::time::Duration;

use leasehold_common::name::{Incarnation, QueueName, WorkerName};
use leasehold_common::record::StopCause;
use leasehold_common::store::Store;
use leasehold_common::task::Task;
use leasehold_common::transport::ConnectOptions;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::context::Context;
use crate::crew::Crew;
use crate::error::{Error, TaskError};
use crate::exec::ExecPolicy;
use crate::guard::BootInstant;
use crate::handler::Handlers;
use crate::runs::Runs;

/// Between cancellation (TERM) and KILL when the drain grace is over; a task's own grace may be shorter.
const STOP_IN_DRAIN: Duration = Duration::from_secs(3);
/// How long the last finishes are tried; after that the reaper ends what they would have ended.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// The same when it has to end at once.
const LAST_WORDS_AT_ONCE: Duration = Duration::from_secs(2);
/// How long the registry is told that the worker ends.
const FAREWELL: Duration = Duration::from_millis(500);

/// Claims tasks of its queues and runs them.
///
/// ```no_run
/// use leasehold_worker::{Context, Task, TaskError, Worker};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Greet { name: String }
/// impl Task for Greet {
///     const NAME: &'static str = "greet";
///     type Output = String;
/// }
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// Worker::connect("redis://127.0.0.1:6379")
///     .await?
///     .queue("default", 16)
///     .handle(|_context: Context, task: Greet| async move {
///         Ok::<_, TaskError>(format!("hello {}", task.name))
///     })
///     .run_until(async { let _ = tokio::signal::ctrl_c().await; })
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Worker {
    pub(crate) config: Config,
    pub(crate) incarnation: Incarnation,
    pub(crate) handlers: Handlers,
    at_once: CancellationToken,
    problem: Option<leasehold_common::Error>,
}

impl Worker {
    /// Reaches Redis at `url` and checks that work may be trusted to it.
    ///
    /// # Errors
    /// When Redis cannot be reached, or is one that Leasehold does not work on.
    pub async fn connect(url: impl Into<String>) -> Result<Self, Error> {
        Self::connect_with(url, ConnectOptions::default()).await
    }

    /// As [`connect`](Self::connect), with other timeouts.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(url: impl Into<String>, options: ConnectOptions) -> Result<Self, Error> {
        let config = Config { connect: options, ..Config::new(url.into()) };
        let store = Store::open(&config.url, config.namespace.clone(), config.connect.clone())?;
        for warning in store.check_server().await? {
            tracing::warn!("{}", warning.message);
        }
        Ok(Self {
            config,
            incarnation: Incarnation::fresh(),
            handlers: Handlers::default(),
            at_once: CancellationToken::new(),
            problem: None,
        })
    }

    /// Keeps the first problem of the settings: `run_until` tells it before anything starts.
    fn keep<T>(&mut self, value: leasehold_common::Result<T>) -> Option<T> {
        value.map_err(|error| self.problem.get_or_insert(error)).ok()
    }

    /// Works on `queue` with so many slots.
    #[must_use]
    pub fn queue(mut self, queue: impl AsRef<str>, slots: usize) -> Self {
        if let Some(queue) = self.keep(QueueName::new(queue.as_ref())) {
            self.config.queues.insert(queue, slots);
        }
        self
    }

    /// Sets the stable name, which no two workers that live may share. Defaults to the host's name, or the first of
    /// `host-2`, `host-3` .. that is free. One that starts under the name of a dead one reclaims its runs at once.
    #[must_use]
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        if let Some(name) = self.keep(WorkerName::new(name.as_ref())) {
            self.config.name = Some(name);
        }
        self
    }

    /// Sets the lease of queues that are not registered yet: 1 s to 10 min. Defaults to 15 s.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = Some(lease);
        self
    }

    /// Sets how long a stopping worker lets its runs finish. Defaults to 25 s.
    #[must_use]
    pub fn drain_grace(mut self, grace: Duration) -> Self {
        self.config.drain_grace = grace;
        self
    }

    /// Says which commands may run. Defaults to none. The binary must call
    /// [`guard::init`](crate::guard::init) first in `main`.
    #[must_use]
    pub fn allow_exec(mut self, policy: ExecPolicy) -> Self {
        self.config.exec = policy;
        self
    }

    /// Changes any other setting.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Adds the handler of a kind of task; which kind, the closure's second parameter says.
    #[must_use]
    pub fn handle<T, F, Fut, E>(mut self, function: F) -> Self
    where
        T: Task,
        F: Fn(Context, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T::Output, E>> + Send + 'static,
        E: Into<TaskError> + Send + 'static,
    {
        let added = self.handlers.add(function);
        self.keep(added);
        self
    }

    /// This start's incarnation.
    #[must_use]
    pub fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }

    /// Cancel it to end at once: runs are killed and handed back without waiting for the drain grace.
    #[must_use]
    pub fn at_once(&self) -> CancellationToken {
        self.at_once.clone()
    }

    /// Runs until `shutdown` is ready; then stops claiming, lets runs finish within the drain grace, and hands
    /// the others back at the front of their queues, at no cost.
    ///
    /// # Errors
    /// When a setting is out of its range, Redis cannot be used, a living worker has the name, or the system refuses a
    /// thread or the guard.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        if let Some(problem) = self.problem.take() {
            return Err(problem.into());
        }
        self.config.validate()?;
        let (stop, at_once) = (CancellationToken::new(), self.at_once.clone());
        // Who drops this future, be it in the middle of the start, does not leave a worker behind that nobody can stop,
        // nor an entry of one that is not there: it drains.
        let _dropped = stop.clone().drop_guard();
        let mut work = tokio::spawn(self.work(stop.clone()));
        tokio::select! {
            // cancel-safe: waiting only.
            () = shutdown => {}
            () = at_once.cancelled() => {}
            ended = &mut work => return ended.unwrap_or_else(|panic| Err(Error::System(panic.into()))),
        }
        stop.cancel();
        work.await.unwrap_or_else(|panic| Err(Error::System(panic.into())))
    }

    /// Starts, works until `stop`, then drains. A part that breaks (a defect) stops the whole at once: leases lapse, and
    /// the tasks go to workers that are whole.
    async fn work(self, stop: CancellationToken) -> Result<(), Error> {
        let crew = Crew::assemble(&self).await?;
        let (done, broken) = (CancellationToken::new(), CancellationToken::new());
        let thread = crew.heart(&self)?.start(done.clone(), broken.clone()).map_err(Error::System)?;
        let helpers = crew.start_helpers();
        let loops = crew.start_loops(&self, &broken);
        let name = crew.registry.name().clone();
        tracing::info!(worker = %name, incarnation = %self.incarnation, queues = ?self.config.queues,
            "worker started");

        let ended = tokio::select! {
            // cancel-safe: waiting only.
            () = stop.cancelled() => Ok(()),
            () = crew.registry.ousted.cancelled() => Err(Error::Ousted { name: name.clone() }),
            () = broken.cancelled() => {
                tracing::error!("a part of the worker broke (a defect of leasehold-worker): it ends at once");
                self.at_once.cancel();
                Err(Error::Broken)
            }
        };
        crew.registry.set_draining();
        crew.drain.cancel();
        self.drain(&loops, &crew.runs).await;

        done.cancel();
        helpers.iter().for_each(JoinHandle::abort);
        let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        // A dead Redis is not waited for: the entry lapses by itself.
        let _ = tokio::time::timeout(FAREWELL, crew.forget()).await;
        tracing::info!(worker = %name, "worker stopped");
        ended
    }

    /// Lets runs finish; stops those that do not; waits for the last answers.
    async fn drain(&self, loops: &TaskTracker, runs: &Runs) {
        let in_hand = runs.len();
        if in_hand > 0 {
            tracing::info!(runs = in_hand, grace = ?self.config.drain_grace, "stopping: waiting for runs to finish");
        }
        let finished = tokio::select! {
            // cancel-safe: waiting only.
            () = loops.wait() => true,
            () = tokio::time::sleep(self.config.drain_grace) => false,
            () = self.at_once.cancelled() => false,
        };
        if finished {
            return;
        }
        if !self.at_once.is_cancelled() {
            stop_all(runs, STOP_IN_DRAIN);
            tokio::select! {
                // cancel-safe: waiting only.
                () = loops.wait() => return,
                () = tokio::time::sleep(STOP_IN_DRAIN + LAST_WORDS) => {}
                () = self.at_once.cancelled() => {}
            }
        }
        stop_all(runs, Duration::ZERO);
        if tokio::time::timeout(LAST_WORDS_AT_ONCE, loops.wait()).await.is_ok() {
            return;
        }
        tracing::warn!(
            runs = runs.len(),
            "Redis did not take the end of these runs; the reaper will reclaim them"
        );
    }
}

fn stop_all(runs: &Runs, grace: Duration) {
    for run in runs.all() {
        if !run.is_ending() {
            let own = run.body().map_or(grace, |body| body.policy.stop_grace);
            run.stop(StopCause::Drain, BootInstant::now().plus(grace.min(own)));
        }
    }
}
