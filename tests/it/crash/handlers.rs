//! Workers with a handler, in this process: for many small tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_common::policy::{Backoff, Policy};
use leasehold_producer::{Payload, RawTask, Spec, TaskKind, TaskName, When};
use leasehold_tests::let_time_pass_async;
use leasehold_worker::{Context, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::kit::{LEASE, Rig, task_id};

/// Runs for a while and fails so many times first.
#[derive(Serialize, Deserialize)]
struct Nap {
    ms: u64,
    failures: u64,
}

impl Task for Nap {
    const NAME: &'static str = "nap";
    type Output = u64;
}

/// How often each task was started.
#[derive(Clone, Default)]
pub(crate) struct Starts(Arc<Mutex<BTreeMap<String, u64>>>);

impl Starts {
    fn note(&self, id: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(id.to_owned()).or_default() += 1;
    }

    pub(crate) fn of(&self, id: &str) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).copied().unwrap_or_default()
    }
}

/// Workers of this process; stopped by [`Crew::stop`].
pub(crate) struct Crew {
    stop: CancellationToken,
    workers: Vec<JoinHandle<()>>,
    pub(crate) starts: Starts,
}

impl Crew {
    /// So many workers with so many slots each.
    pub(crate) fn start(rig: &Rig, workers: usize, slots: usize) -> Self {
        let (stop, starts) = (CancellationToken::new(), Starts::default());
        let spawn = |number: usize| {
            let (url, until, starts) = (rig.redis.url(), stop.clone(), starts.clone());
            rig.runtime().spawn(async move {
                let worker = Worker::connect(url).await.expect("a worker");
                let worker = worker.queue("q", slots).lease(LEASE).name(format!("inside-{number}"));
                let worker =
                    worker.handle(move |context: Context, nap: Nap| nap_once(context, nap, starts.clone()));
                worker.run_until(until.cancelled_owned()).await.expect("a worker that stops in order");
            })
        };
        let workers = (0..workers).map(spawn).collect();
        Self { stop, workers, starts }
    }

    /// Drains them.
    pub(crate) fn stop(self, rig: &Rig) {
        self.stop.cancel();
        for worker in self.workers {
            rig.block(worker).expect("a worker that did not panic");
        }
    }
}

async fn nap_once(context: Context, nap: Nap, starts: Starts) -> Result<u64, TaskError> {
    starts.note(context.id().as_str());
    tokio::select! {
        // cancel-safe: waiting only.
        () = let_time_pass_async("the handler's work", Duration::from_millis(nap.ms)) => {}
        () = context.stopped().cancelled() => return Err(TaskError::retry("stopped")),
    }
    if context.failures() < nap.failures { Err(TaskError::retry("not yet")) } else { Ok(nap.ms) }
}

/// Such a task, with short backoffs.
pub(crate) fn nap(rig: &Rig, id: &str, ms: u64, failures: u64) -> RawTask {
    let backoff = Backoff { base: Duration::from_millis(5), cap: Duration::from_millis(20), factor: 2.0 };
    let policy = Policy { backoff, stop_grace: Duration::from_millis(500), ..Policy::default() };
    RawTask {
        queue: rig.queue.clone(),
        name: TaskName::new(Nap::NAME).expect("a task name"),
        kind: TaskKind::Handler,
        payload: Payload::PlainJson(json!({ "ms": ms, "failures": failures })),
        id: Some(task_id(id)),
        when: When::Now,
        spec: Spec { policy, ..Spec::default() },
        owner: None,
        lane: None,
        headers: BTreeMap::new(),
    }
}

/// Enqueues them.
pub(crate) fn enqueue(rig: &Rig, tasks: Vec<RawTask>) {
    for answer in rig.block(rig.producer.enqueue_raw_all(tasks)) {
        answer.expect("enqueue");
    }
}
