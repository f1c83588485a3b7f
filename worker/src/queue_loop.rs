//! One queue of a worker: it claims as many tasks as there are free slots, starts them, and says how they
//! ended. Finishes that gather while a call is in flight go out together with the next claim.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use leasehold_common::limits::BATCH_ITEMS;
use leasehold_common::name::{QueueName, RunId, TaskId};
use leasehold_common::record::FailureKind;
use leasehold_common::store::{
    ClaimAnswer, ClaimRequest, Claimed, Finish, FinishAnswer, Outcome, RetryAdvice, one_call,
};
use leasehold_common::{Error, Result};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::bell::{Bell, Ring};
use crate::executor::Executor;
use crate::guard::BootInstant;
use crate::heartbeat::{Leases, kill_in};
use crate::run::{Run, RunKey};
use crate::runs::Runs;
use crate::slots::Slots;
use crate::troubled::Troubled;

/// Between tries while Redis does not answer: doubling from the first to the last.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// With a shorter lease no claim waits at the bell: its wait is taken off the lease.
const SHORTEST_LEASE_AT_BELL: Duration = Duration::from_secs(6);
/// How long a closing claim is tried.
const CLOSING_WITHIN: Duration = Duration::from_secs(5);

/// What the loop is made with.
pub(crate) struct Parts {
    pub(crate) queue: QueueName,
    pub(crate) slots: usize,
    pub(crate) executor: Arc<Executor>,
    pub(crate) runs: Arc<Runs>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) total: Arc<Slots>,
    pub(crate) drain: CancellationToken,
    /// Cancelled when this incarnation must not go on.
    pub(crate) ousted: CancellationToken,
    pub(crate) troubled: Troubled,
    /// The worker serves no other queue.
    pub(crate) alone: bool,
}

/// A finish that is not answered yet.
struct Open {
    finish: Finish,
    /// It was sent before, so that `gone` means that it had been accepted.
    sent_before: bool,
}

/// One queue of a worker.
pub(crate) struct QueueLoop {
    parts: Parts,
    /// Executors at work.
    busy: usize,
    open: Vec<Open>,
    /// The number of the next claim.
    number: u64,
    /// The claim that is not answered yet, with the slots reserved for it.
    claim: Option<ClaimRequest>,
    /// That claim waits behind the bell for the wake marker.
    at_bell: bool,
    /// Slots taken from the total and not used yet.
    held: usize,
    /// Claim as soon as a slot is free.
    hungry: bool,
    /// The wake marker was taken and not used yet.
    woken: bool,
    /// When the next task is due, if this worker watches: by a timer, for Redis ends blocking reads up to a tenth of a
    /// second late.
    due_at: Option<Instant>,
    pause: Duration,
    ended_tx: mpsc::UnboundedSender<(RunKey, Option<Finish>)>,
    ended: mpsc::UnboundedReceiver<(RunKey, Option<Finish>)>,
}

impl QueueLoop {
    pub(crate) fn new(parts: Parts) -> Self {
        let (ended_tx, ended) = mpsc::unbounded_channel();
        Self {
            parts,
            busy: 0,
            open: Vec::new(),
            number: 1,
            claim: None,
            at_bell: false,
            held: 0,
            hungry: true,
            woken: false,
            due_at: None,
            pause: RETRY_PAUSES.0,
            ended_tx,
            ended,
        }
    }

    /// Claims and finishes until the drain, then closes, and ends when the last finish is answered.
    pub(crate) async fn run(mut self) {
        let store = &self.parts.executor.store;
        let mut bell = Bell::new(store.clone(), self.parts.queue.clone());
        while !self.parts.drain.is_cancelled() {
            self.collect_ended();
            self.plan_claim();
            if self.claim_to_send().is_some() || !self.open.is_empty() {
                self.call().await;
                // What has just been started may end at once: then it goes out with the next call.
                tokio::task::yield_now().await;
            } else {
                self.wait(&mut bell).await;
            }
        }
        // Its connection goes with it, so that it takes no marker any more.
        drop(bell);
        self.at_bell = false;
        self.close().await;
        self.finish_what_runs().await;
    }

    /// Takes what ended while a call was in flight.
    fn collect_ended(&mut self) {
        while let Ok(ended) = self.ended.try_recv() {
            self.note_ended(ended);
        }
    }

    fn note_ended(&mut self, (key, finish): (RunKey, Option<Finish>)) {
        let was_full = self.busy >= self.parts.slots;
        self.busy -= 1;
        self.parts.total.release(1);
        self.hungry |= was_full;
        match finish {
            Some(finish) => self.open.push(Open { finish, sent_before: false }),
            None => self.parts.runs.remove(&key),
        }
    }

    /// Reserves free slots for the next claim, or gives a marker back that was taken in vain.
    fn plan_claim(&mut self) {
        if self.claim.is_some() || !(self.hungry || self.woken) {
            return;
        }
        let free = self.parts.slots.saturating_sub(self.busy).min(BATCH_ITEMS);
        let want = self.held + self.parts.total.reserve(free.saturating_sub(self.held));
        self.held = 0;
        if want > 0 || self.woken {
            self.claim = Some(self.request(self.number, want, self.woken, false));
            self.woken = false;
        }
    }

    /// The claim that the next call carries.
    fn claim_to_send(&self) -> Option<&ClaimRequest> {
        self.claim.as_ref().filter(|_| !self.at_bell)
    }

    /// A free slot: waits at the bell, with a claim behind it where that is sound.
    fn arm(&mut self, bell: &mut Bell) {
        if bell.is_armed() {
            return;
        }
        // A claim at the bell would keep the timer of a due time from claiming, its slots would be kept from other
        // queues, and what it waits is taken off the lease.
        let lease = self.parts.leases.of(&self.parts.queue);
        if self.due_at.is_some() || !self.parts.alone || lease < SHORTEST_LEASE_AT_BELL {
            return bell.arm();
        }
        let free = self.parts.slots.saturating_sub(self.busy).min(BATCH_ITEMS);
        let want = self.held + self.parts.total.reserve(free.saturating_sub(self.held));
        self.held = 0;
        let request = ClaimRequest { at_bell: true, ..self.request(self.number, want, false, false) };
        self.claim = Some(request.clone());
        self.at_bell = true;
        bell.arm_claim(request);
    }

    async fn note_ring(&mut self, ring: Ring) {
        match ring {
            Ring::Wake(woken) => {
                self.hungry = true;
                self.woken |= woken;
            }
            Ring::Claimed(sent, answer) => {
                self.at_bell = false;
                if matches!(&answer, Err(Error::RetryLater { reason }) if reason.starts_with("NOSCRIPT")) {
                    // The next call loads the script, and repeats the claim.
                    return;
                }
                if !self.take_claimed(sent, answer).await {
                    // The next call repeats it, under the same number.
                    self.pause_after_failure().await;
                }
            }
        }
    }

    fn request(&self, number: u64, want: usize, woken: bool, closing: bool) -> ClaimRequest {
        let executor = &self.parts.executor;
        let (incarnation, worker) = (executor.incarnation.clone(), executor.worker.clone());
        ClaimRequest { incarnation, worker, number, want, woken, at_bell: false, closing }
    }

    /// Nothing to say: waits for what comes first.
    async fn wait(&mut self, bell: &mut Bell) {
        let has_free_slot = self.busy < self.parts.slots;
        // With a slot of its own but none of the total, a marker could only be taken in vain, again and again.
        let starved = has_free_slot && !self.at_bell && self.parts.total.is_full();
        if has_free_slot && !starved {
            self.arm(bell);
        }
        tokio::select! {
            // cancel-safe: all arms only wait for messages.
            () = self.parts.drain.cancelled() => {}
            Some(ended) = self.ended.recv() => self.note_ended(ended),
            ring = bell.rung() => self.note_ring(ring).await,
            () = sleep_until(self.due_at.unwrap_or_else(Instant::now)), if self.due_at.is_some() => {
                self.due_at = None;
                self.hungry = true;
            }
            () = self.parts.total.take_one(), if starved => {
                self.held = 1;
                self.hungry = true;
            }
        }
    }

    /// One round trip: finishes that are open, and the claim.
    async fn call(&mut self) {
        let finishes: Vec<Finish> = self.open.iter().map(|o| o.finish.clone()).collect();
        let batch = one_call(&finishes);
        let finishes = &finishes[..batch];
        let Parts { queue, executor, .. } = &self.parts;
        let sent = BootInstant::now();
        let (finished, claimed) = match (self.claim_to_send(), batch) {
            (Some(request), 0) => (None, Some(executor.store.claim(queue, request).await)),
            (Some(request), _) => {
                let store = &executor.store;
                let (f, c) = store.finish_and_claim(queue, &executor.incarnation, finishes, request).await;
                (Some(f), Some(c))
            }
            (None, _) => (Some(executor.store.finish(queue, &executor.incarnation, finishes).await), None),
        };
        let mut failed = false;
        if let Some(finished) = finished {
            failed |= !self.take_finished(batch, finished);
        }
        if let Some(claimed) = claimed {
            failed |= !self.take_claimed(sent, claimed).await;
        }
        if failed {
            self.pause_after_failure().await;
        } else {
            self.pause = RETRY_PAUSES.0;
            self.parts.troubled.over(&self.parts.queue);
        }
    }

    async fn pause_after_failure(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(RETRY_PAUSES.1);
    }

    /// False when the finishes must be sent again.
    fn take_finished(&mut self, batch: usize, finished: Result<Vec<FinishAnswer>>) -> bool {
        match finished {
            Ok(answers) => {
                for (open, answer) in self.open.drain(..batch).zip(answers) {
                    told(&open, answer);
                    self.parts.runs.remove(&RunKey {
                        queue: self.parts.queue.clone(),
                        id: open.finish.id,
                        run: open.finish.run,
                    });
                }
                true
            }
            Err(error) => {
                let unknown = error.outcome_unknown();
                for open in self.open.iter_mut().take(batch) {
                    open.sent_before |= unknown;
                }
                self.parts.troubled.say(&self.parts.queue, &error);
                false
            }
        }
    }

    /// False when the claim must be repeated, under the same number.
    async fn take_claimed(&mut self, sent: BootInstant, claimed: Result<ClaimAnswer>) -> bool {
        let answer = match claimed {
            Ok(answer) => answer,
            Err(Error::RetryLater { reason }) if reason.contains("not registered") => {
                return self.parts.executor.store.register(&self.parts.queue).await.is_ok();
            }
            Err(error) => {
                self.parts.troubled.say(&self.parts.queue, &error);
                return false;
            }
        };
        let want = self.claim.take().map_or(0, |request| request.want);
        self.number += 1;
        match answer {
            ClaimAnswer::Claimed(claimed) => {
                let got = claimed.tasks.len();
                self.hungry = claimed.more || (got > 0 && got >= want);
                self.due_at = claimed.next_due.map(|due| Instant::now() + due);
                for error in &claimed.unreadable {
                    tracing::error!(queue = %self.parts.queue, %error, "a claimed task cannot be read; its lease lapses");
                }
                let started = self.start_all(sent, claimed);
                self.parts.total.release(want.saturating_sub(started));
            }
            ClaimAnswer::Dead => {
                tracing::error!(queue = %self.parts.queue,
                    "a later worker of this one's name has declared it dead: it stops");
                self.parts.total.release(want);
                self.hungry = false;
                self.parts.ousted.cancel();
            }
            ClaimAnswer::Stale | ClaimAnswer::Closed => {
                // Only after Redis lost or gained writes: the next number is as good.
                tracing::warn!(queue = %self.parts.queue, ?answer, "a claim was refused; claiming under a new number");
                self.parts.total.release(want);
                self.hungry = true;
                return matches!(answer, ClaimAnswer::Stale);
            }
        }
        true
    }

    /// Starts the runs of an answer, but those in hand already (Redis lost writes and gave them again).
    fn start_all(&mut self, sent: BootInstant, claimed: Claimed) -> usize {
        self.parts.leases.set(&self.parts.queue, claimed.lease);
        let mut started = 0;
        for task in claimed.tasks {
            let run = Run::new(&self.parts.queue, task, sent.plus(claimed.lease));
            if self.parts.runs.contains(&run.key) {
                continue;
            }
            if self.parts.drain.is_cancelled() {
                // The claim was under way when the drain began: nothing new is started.
                self.open.push(handed_back(run.claimed.id.clone(), run.claimed.run.clone()));
                continue;
            }
            if let Some((cause, hard_end_ms)) = run.claimed.stop {
                let kill_in = kill_in(hard_end_ms, claimed.now_ms, claimed.lease);
                run.stop(cause, BootInstant::now().plus(kill_in));
            }
            self.start(&run);
            started += 1;
        }
        started
    }

    fn start(&mut self, run: &Arc<Run>) {
        if self.parts.runs.insert(run) {
            self.parts.executor.nudge.beat();
        }
        self.busy += 1;
        let (run, executor, ended) =
            (Arc::clone(run), Arc::clone(&self.parts.executor), self.ended_tx.clone());
        tokio::spawn(async move {
            let finish = AssertUnwindSafe(executor.run(&run)).catch_unwind().await;
            let finish = finish.unwrap_or_else(|_| Some(broken(&run)));
            // The loop outlives its runs.
            let _ = ended.send((run.key.clone(), finish));
        });
    }

    /// The closing claim: later ones are refused, and what an unanswered one handed out goes back.
    async fn close(&mut self) {
        let (number, reserved) = match self.claim.take() {
            Some(request) => (request.number, request.want),
            None => (self.number.saturating_sub(1), 0),
        };
        self.parts.total.release(reserved + std::mem::take(&mut self.held));
        // It sets the wake marker, for one that this worker may have taken.
        let request = self.request(number, 0, true, true);
        let Parts { queue, executor, runs, .. } = &self.parts;
        let claiming = async {
            loop {
                match executor.store.claim(queue, &request).await {
                    Ok(ClaimAnswer::Claimed(claimed)) => return claimed.tasks,
                    Err(error) if error.is_retryable() => tokio::time::sleep(RETRY_PAUSES.0).await,
                    Ok(ClaimAnswer::Stale | ClaimAnswer::Closed | ClaimAnswer::Dead) | Err(_) => {
                        return Vec::new();
                    }
                }
            }
        };
        let tasks = tokio::time::timeout(CLOSING_WITHIN, claiming).await.unwrap_or_default();
        for task in tasks {
            let key = RunKey { queue: queue.clone(), id: task.id.clone(), run: task.run.clone() };
            if !runs.contains(&key) {
                self.open.push(handed_back(task.id, task.run));
            }
        }
    }

    /// After the closing claim: waits for what runs, and says how it ended.
    async fn finish_what_runs(&mut self) {
        while self.busy > 0 || !self.open.is_empty() {
            self.collect_ended();
            if !self.open.is_empty() {
                self.call().await;
            } else if self.busy > 0
                && let Some(ended) = self.ended.recv().await
            {
                self.note_ended(ended);
            }
        }
    }
}

/// The end of a run that was never started here: it costs the task nothing.
fn handed_back(id: TaskId, run: RunId) -> Open {
    Open { finish: Finish { id, run, outcome: Outcome::Released, before_stop: false }, sent_before: false }
}

/// Logs what Redis made of a run's end; never the outcome itself, which may hold what nobody else should see.
fn told(open: &Open, answer: FinishAnswer) {
    let Finish { id, run, .. } = &open.finish;
    match answer {
        FinishAnswer::Accepted(state) | FinishAnswer::Repeated(state) => {
            tracing::debug!(task = %id, %run, %state, "run ended");
        }
        FinishAnswer::Gone if open.sent_before => {
            tracing::debug!(task = %id, %run, "run ended, task removed");
        }
        FinishAnswer::Gone | FinishAnswer::Lost => {
            tracing::warn!(task = %id, %run, "lease lost: the task belongs to another run or has ended; \
                what this run says of it changes nothing");
        }
        FinishAnswer::Corrupt => {
            tracing::error!(task = %id, %run, "the record cannot be read: run `leasehold doctor`");
        }
    }
}

/// The end of a run whose executor panicked: a defect of this crate, told as a failure of the task.
fn broken(run: &Run) -> Finish {
    let message = "the worker failed to run it (a defect of leasehold-worker)".to_owned();
    let kind = FailureKind::Error;
    let outcome = Outcome::Failed { kind, message, retry: RetryAdvice::Policy, detail: Default::default() };
    Finish { id: run.key.id.clone(), run: run.key.run.clone(), outcome, before_stop: false }
}
