//! Heartbeats, from an OS thread and a connection of its own, so that handlers which block the runtime lose
//! nothing. It freezes what nobody can answer for, and passes on what Redis says of each run.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use leasehold_common::limits::BATCH_ITEMS;
use leasehold_common::name::{Incarnation, QueueName};
use leasehold_common::store::{Beat, BeatAnswer, Beats, Store};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::exec::{RunControl, freeze_all};
use crate::guard::{BootInstant, Guard, GuardStatus};
use crate::registry::Registry;
use crate::run::{Run, Verdict};
use crate::runs::Runs;
use crate::troubled::Troubled;

/// A frozen run is killed and handed back after so long.
pub(crate) const GIVE_UP_AFTER: Duration = Duration::from_secs(600);
/// Between two signs of life in the registry, whose entries live for 30 s: no matter of leases, long or short.
const SIGN_EVERY: Duration = Duration::from_secs(5);
/// A handler that is not dropped so long after its grace blocks its thread.
const OVERSTAY: Duration = Duration::from_secs(1);
/// Bounds may lie closer than a beat: how often lapses are looked for at least.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);
/// After a failed beat.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The leases of the queues, as answers tell them.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<QueueName, Duration>>);

impl Leases {
    /// Notes the lease T of a queue.
    pub(crate) fn set(&self, queue: &QueueName, lease: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(queue.clone(), lease);
    }

    /// The lease T of a queue.
    pub(crate) fn of(&self, queue: &QueueName) -> Duration {
        let leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        leases.get(queue).copied().unwrap_or(Duration::from_secs(15))
    }

    /// The shortest beat B of all queues.
    pub(crate) fn beat(&self) -> Duration {
        let leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        leases.values().min().map_or(Duration::from_secs(5), |lease| *lease / 3)
    }
}

/// Asks the heartbeat thread to beat at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nudge(Arc<Notify>);

impl Nudge {
    /// Beat at once.
    pub(crate) fn beat(&self) {
        self.0.notify_one();
    }
}

/// What the thread needs.
pub(crate) struct Heart {
    pub(crate) store: Store,
    pub(crate) incarnation: Incarnation,
    pub(crate) runs: Arc<Runs>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) guard: Option<Guard>,
    pub(crate) nudge: Nudge,
    pub(crate) registry: Registry,
    pub(crate) probe: Probe,
    pub(crate) troubled: Troubled,
}

type Answered = (QueueName, BootInstant, Vec<Arc<Run>>, leasehold_common::Result<Beats>);

impl Heart {
    /// Starts the thread; it ends with `done`. If it ends before, it cancels `broken`.
    pub(crate) fn start(
        self,
        done: CancellationToken,
        broken: CancellationToken,
    ) -> std::io::Result<std::thread::JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("leasehold-heart".to_owned()).spawn(move || {
            let _ended = broken.drop_guard();
            runtime.block_on(self.beat_until(done));
        })
    }

    async fn beat_until(self, done: CancellationToken) {
        let mut calls: FuturesUnordered<BoxFuture<'_, Answered>> = FuturesUnordered::new();
        // Beside the beats: a sign of life that hangs must not keep lapses from being seen.
        let mut signs: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        let mut in_flight: HashSet<QueueName> = HashSet::new();
        let mut next_beat = BootInstant::now();
        let mut next_sign = BootInstant::now();
        loop {
            let now = BootInstant::now();
            self.freeze_what_lapsed(now);
            self.watch_guard(now);
            if now >= next_beat {
                next_beat = now.plus(self.leases.beat());
                self.call(&calls, &mut in_flight);
            }
            if now >= next_sign && signs.is_empty() {
                next_sign = now.plus(SIGN_EVERY);
                self.probe.look();
                signs.push(Box::pin(self.registry.sign_of_life(
                    &self.store,
                    self.runs.len(),
                    self.probe.is_wedged(),
                )));
            }
            let wake_at =
                self.runs.next_lapse().map_or(next_beat, |lapse| lapse.min(next_beat)).min(next_sign);
            let sleep = wake_at.since(now).min(LONGEST_SLEEP);
            tokio::select! {
                // cancel-safe: all arms only wait.
                () = done.cancelled() => return,
                () = tokio::time::sleep(sleep) => {}
                () = self.nudge.0.notified() => next_beat = BootInstant::now(),
                Some(()) = signs.next() => {}
                Some((queue, sent, runs, answer)) = calls.next() => {
                    in_flight.remove(&queue);
                    match answer {
                        Ok(beats) => {
                            self.troubled.over(&queue);
                            self.apply(&queue, sent, &runs, beats);
                        }
                        Err(error) => {
                            self.troubled.say(&queue, &error);
                            next_beat = next_beat.min(BootInstant::now().plus(RETRY_PAUSE));
                        }
                    }
                }
            }
        }
    }

    /// One call per queue that has runs, and none while one is in flight.
    fn call<'a>(
        &'a self,
        calls: &FuturesUnordered<BoxFuture<'a, Answered>>,
        in_flight: &mut HashSet<QueueName>,
    ) {
        let mut by_queue: HashMap<QueueName, Vec<Arc<Run>>> = HashMap::new();
        for run in self.runs.all() {
            by_queue.entry(run.key.queue.clone()).or_default().push(run);
        }
        for (queue, runs) in by_queue {
            if in_flight.insert(queue.clone()) {
                calls.push(Box::pin(self.beat(queue, runs)));
            }
        }
    }

    async fn beat(&self, queue: QueueName, runs: Vec<Arc<Run>>) -> Answered {
        // A worker counts each lease from before the call that renewed it was sent.
        let sent = BootInstant::now();
        let mut all: Option<Beats> = None;
        for batch in runs.chunks(BATCH_ITEMS) {
            let beats: Vec<Beat> = batch.iter().map(|run| beat_of(run)).collect();
            match self.store.heartbeat(&queue, &self.incarnation, &beats).await {
                Ok(answer) => match &mut all {
                    Some(all) => all.answers.extend(answer.answers),
                    None => all = Some(answer),
                },
                Err(error) => return (queue, sent, runs, Err(error)),
            }
        }
        let none = leasehold_common::Error::Protocol("a beat for no run".into());
        (queue, sent, runs, all.ok_or(none))
    }

    fn apply(&self, queue: &QueueName, sent: BootInstant, runs: &[Arc<Run>], beats: Beats) {
        self.leases.set(queue, beats.lease);
        let now = BootInstant::now();
        let until = sent.plus(beats.lease);
        let mut renewed = Vec::new();
        let mut thawed: Vec<RunControl> = Vec::new();
        for (run, answer) in runs.iter().zip(beats.answers) {
            match answer {
                BeatAnswer::Ok => {}
                BeatAnswer::Stop { cause, hard_end_ms, .. } => {
                    let kill_in = kill_in(hard_end_ms, beats.now_ms, beats.lease);
                    run.stop(cause, now.plus(kill_in));
                }
                BeatAnswer::Ended(_) | BeatAnswer::Gone | BeatAnswer::Lost => {
                    // One whose finish is open is told by the answer to that.
                    if !run.is_ending() {
                        tracing::warn!(task = %run.key.id, run = %run.key.run, ?answer,
                            "lease lost: the task belongs to another run or has ended; this run is killed");
                        run.judge(Verdict::Lost);
                    }
                    continue;
                }
                BeatAnswer::Corrupt => {
                    tracing::error!(task = %run.key.id, "the record cannot be read: run `leasehold doctor`");
                    continue;
                }
            }
            if let Some(control) = run.control() {
                renewed.push((control.key(), until));
            }
            thawed.extend(run.renew(until, now));
        }
        self.renew_guard(&renewed, until, now);
        if !thawed.is_empty() {
            tracing::info!(runs = thawed.len(), "leases taken up again: their processes go on");
        }
        for control in thawed {
            control.thaw();
        }
        if until <= now {
            self.nudge.beat();
        }
    }

    fn renew_guard(
        &self,
        renewed: &[(crate::guard::RunKey, BootInstant)],
        until: BootInstant,
        now: BootInstant,
    ) {
        if until > now
            && let Some(guard) = &self.guard
        {
            guard.renew(renewed);
        }
    }

    fn freeze_what_lapsed(&self, now: BootInstant) {
        let mut controls = Vec::new();
        let mut frozen = 0;
        for run in self.runs.all() {
            controls.extend(run.freeze_if_lapsed(now));
            frozen += usize::from(run.lapse_is_news());
            run.give_up_after(now, GIVE_UP_AFTER);
            if run.overstays(now, OVERSTAY) {
                tracing::warn!(task = %run.key.id, run = %run.key.run,
                    "its handler was told to stop, its grace is over, and it blocks its thread: its slot is taken \
                     until it returns, and what it returns then changes nothing");
            }
        }
        if frozen > 0 {
            tracing::warn!(
                runs = frozen,
                "no beat was answered within the lease (Redis is away, or this process stood still): runs are frozen until one is"
            );
        }
        if !controls.is_empty() {
            freeze_all(&controls);
        }
    }

    /// While the guard is down no command starts; after T the commands stand still.
    fn watch_guard(&self, now: BootInstant) {
        let Some(guard) = &self.guard else { return };
        let status = *guard.status().borrow();
        for run in self.runs.all() {
            let down = match status {
                GuardStatus::Up { .. } => false,
                GuardStatus::Down { since } => now.since(since) >= self.leases.of(&run.key.queue),
            };
            if let Some(control) = run.guard_down(down) {
                if down {
                    control.freeze();
                } else {
                    control.thaw();
                }
            }
        }
    }
}

fn beat_of(run: &Run) -> Beat {
    Beat { id: run.key.id.clone(), run: run.key.run.clone(), stopping: run.is_stopping() }
}

/// From the hard end back to the kill: `hard_end = stop + grace + T + B`.
pub(crate) fn kill_in(hard_end_ms: u64, now_ms: u64, lease: Duration) -> Duration {
    Duration::from_millis(hard_end_ms.saturating_sub(now_ms)).saturating_sub(lease + lease / 3)
}

/// Finds out whether the runtime of the handlers still answers.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    runtime: tokio::runtime::Handle,
    answered: Arc<AtomicU64>,
}

/// A runtime that has not answered for so long is wedged.
const WEDGED_AFTER: Duration = Duration::from_secs(60);

impl Probe {
    /// Probes the runtime that it is made on.
    pub(crate) fn new() -> Self {
        let now = BootInstant::now().as_nanos();
        Self { runtime: tokio::runtime::Handle::current(), answered: Arc::new(AtomicU64::new(now)) }
    }

    fn look(&self) {
        let answered = Arc::clone(&self.answered);
        self.runtime.spawn(async move {
            answered.store(BootInstant::now().as_nanos(), Ordering::Relaxed);
        });
    }

    fn is_wedged(&self) -> bool {
        let answered = BootInstant::from_nanos(self.answered.load(Ordering::Relaxed));
        BootInstant::now().since(answered) > WEDGED_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::kill_in;
    use std::time::Duration;

    #[test]
    fn the_kill_comes_a_lease_and_a_beat_before_the_hard_end() {
        let lease = Duration::from_secs(15);
        assert_eq!(kill_in(150_000, 100_000, lease), Duration::from_secs(30));
        assert_eq!(kill_in(100_000, 100_000, lease), Duration::ZERO);
    }
}
