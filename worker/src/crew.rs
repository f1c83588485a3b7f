//! What a running worker is made of, wired together.

use std::sync::Arc;
use std::time::Duration;

use leasehold_common::name::{Incarnation, QueueName};
use leasehold_common::store::{Store, WorkerInfo};
use leasehold_common::transport::ConnectOptions;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::commands::Commands;
use crate::config::{Config, host_name};
use crate::error::Error;
use crate::executor::Executor;
use crate::guard::Guard;
use crate::heartbeat::{Heart, Leases, Nudge, Probe};
use crate::listener::listen;
use crate::mark::own_mark;
use crate::names::Taker;
use crate::queue_loop::{Parts, QueueLoop};
use crate::recovery::recover;
use crate::redact::{self, Secrets};
use crate::registry::Registry;
use crate::runs::Runs;
use crate::slots::Slots;
use crate::telling::Teller;
use crate::troubled::Troubled;
use crate::voice::RedisVoice;
use crate::worker::Worker;

/// Everything that the loops of a worker share.
pub(crate) struct Crew {
    store: Store,
    incarnation: Incarnation,
    queues: Vec<QueueName>,
    leases: Arc<Leases>,
    guard: Option<Guard>,
    nudge: Nudge,
    teller: Teller,
    troubled: Troubled,
    secrets: Arc<Secrets>,
    pub(crate) runs: Arc<Runs>,
    pub(crate) registry: Registry,
    pub(crate) drain: CancellationToken,
}

/// A connection that hangs must be given up while the lease still has time for another.
const SHORTEST_RESPONSE: Duration = Duration::from_millis(500);

fn open(config: &Config, connect: ConnectOptions) -> Result<Store, Error> {
    let store = Store::open(&config.url, config.namespace.clone(), connect)?;
    Ok(store.with_settings(config.settings()))
}

/// Takes the worker's name and says that it lives. Answers the dead ones of that name, too.
async fn enlist(worker: &Worker, store: &Store) -> Result<(Registry, Vec<WorkerInfo>), Error> {
    let config = &worker.config;
    let (incarnation, mark) = (&worker.incarnation, own_mark());
    let started_ms = store.now_ms().await?;
    let taken = Taker { store, incarnation, mark: &mark }.take(config.name.as_ref()).await?;
    let registry = Registry::new(WorkerInfo {
        name: taken.name,
        incarnation: incarnation.clone(),
        host: host_name(),
        pid: std::process::id(),
        mark,
        started_ms,
        queues: config.queues.clone(),
        running: 0,
        status: String::new(),
    });
    registry.sign_of_life(store, 0, false).await;
    Ok((registry, taken.dead))
}

impl Crew {
    /// Takes the name, registers the queues, starts the guard, and recovers what dead workers of the name left behind.
    pub(crate) async fn assemble(worker: &Worker) -> Result<Self, Error> {
        let store = open(&worker.config, worker.config.connect.clone())?;
        let (registry, dead) = enlist(worker, &store).await?;
        let crew = match Self::equip(worker, store.clone(), registry.clone()).await {
            Ok(crew) => crew,
            Err(error) => {
                registry.forget(&store).await;
                return Err(error);
            }
        };
        if !dead.is_empty() {
            recover(&crew.store, &dead, &crew.queues).await;
            crew.registry.sign_of_life(&crew.store, 0, false).await;
        }
        Ok(crew)
    }

    async fn equip(worker: &Worker, store: Store, registry: Registry) -> Result<Self, Error> {
        let config = &worker.config;
        let leases = Arc::new(Leases::default());
        for queue in config.queues.keys() {
            let (lease, _) = store.register(queue).await?;
            if config.lease.is_some_and(|own| own != lease) {
                tracing::warn!(%queue, ?lease, own = ?config.lease,
                    "the queue has another lease than this worker was started with; following the queue");
            }
            leases.set(queue, lease);
        }
        let guard = if config.exec.is_on() {
            let starting = tokio::task::spawn_blocking(Guard::start);
            Some(starting.await.map_err(|e| Error::System(e.into()))??)
        } else {
            None
        };
        Ok(Self {
            registry,
            incarnation: worker.incarnation.clone(),
            queues: config.queues.keys().cloned().collect(),
            leases,
            guard,
            nudge: Nudge::default(),
            teller: Teller::default(),
            troubled: Troubled::default(),
            secrets: Arc::new(redact::of_environment(&config.redact)?),
            runs: Arc::default(),
            drain: CancellationToken::new(),
            store,
        })
    }

    /// The heartbeat thread, with a connection of its own.
    pub(crate) fn heart(&self, worker: &Worker) -> Result<Heart, Error> {
        let mut connect = worker.config.connect.clone();
        connect.response_timeout = connect.response_timeout.min(self.leases.beat().max(SHORTEST_RESPONSE));
        Ok(Heart {
            store: open(&worker.config, connect)?,
            incarnation: self.incarnation.clone(),
            runs: Arc::clone(&self.runs),
            leases: Arc::clone(&self.leases),
            guard: self.guard.clone(),
            nudge: self.nudge.clone(),
            registry: self.registry.clone(),
            probe: Probe::new(),
            troubled: self.troubled.clone(),
        })
    }

    /// The teller, and the listener for stops.
    pub(crate) fn start_helpers(&self) -> [JoinHandle<()>; 2] {
        let teller = self.teller.clone();
        let (store, runs) = (self.store.clone(), Arc::clone(&self.runs));
        [
            tokio::spawn(teller.run(store.clone(), self.incarnation.clone(), Arc::clone(&runs))),
            tokio::spawn(listen(store, self.queues.clone(), runs, self.nudge.clone())),
        ]
    }

    /// One loop per queue. One that ends before the drain cancels `broken`.
    pub(crate) fn start_loops(&self, worker: &Worker, broken: &CancellationToken) -> TaskTracker {
        let config = &worker.config;
        let commands = self.guard.clone().map(|guard| {
            let (policy, incarnation) = (Arc::new(config.exec.clone()), self.incarnation.clone());
            Commands { guard, policy, incarnation }
        });
        let executor = Arc::new(Executor {
            store: self.store.clone(),
            incarnation: self.incarnation.clone(),
            worker: self.registry.name().clone(),
            handlers: worker.handlers.clone(),
            commands,
            limits: config.limits,
            teller: self.teller.clone(),
            voice: Arc::new(RedisVoice { store: self.store.clone(), incarnation: self.incarnation.clone() }),
            nudge: self.nudge.clone(),
            leases: Arc::clone(&self.leases),
            secrets: Arc::clone(&self.secrets),
            cleanup_timeout: config.cleanup_timeout,
        });
        let total = Arc::new(Slots::new(config.total()));
        let loops = TaskTracker::new();
        for (queue, slots) in &config.queues {
            let parts = Parts {
                queue: queue.clone(),
                slots: *slots,
                executor: Arc::clone(&executor),
                runs: Arc::clone(&self.runs),
                leases: Arc::clone(&self.leases),
                total: Arc::clone(&total),
                drain: self.drain.clone(),
                ousted: self.registry.ousted.clone(),
                troubled: self.troubled.clone(),
                alone: config.queues.len() == 1,
            };
            let broken = broken.clone();
            loops.spawn(async move {
                let _ended = broken.drop_guard();
                QueueLoop::new(parts).run().await;
            });
        }
        loops.close();
        loops
    }

    /// Takes the worker out of the registry, and frees its name.
    pub(crate) async fn forget(&self) {
        self.registry.forget(&self.store).await;
    }
}
