//! One run in hand: what the heartbeat thread orders, and what the run's executor obeys.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use leasehold_common::body::Body;
use leasehold_common::name::{QueueName, RunId, TaskId};
use leasehold_common::record::StopCause;
use leasehold_common::store::ClaimedTask;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::bounds::Bounds;
use crate::cleanup::Cleanups;
use crate::exec::RunControl;
use crate::guard::BootInstant;
use crate::spending::Spending;
use crate::telling::Telling;

/// Which run: answers are matched by run, never by task id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RunKey {
    pub(crate) queue: QueueName,
    pub(crate) id: TaskId,
    pub(crate) run: RunId,
}

/// A stop as this process carries it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StopOrder {
    pub(crate) cause: StopCause,
    /// When what is left is killed.
    pub(crate) kill_at: BootInstant,
}

/// How a run ends without having ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Another run owns the task, or none: leave no effect, say nothing.
    Lost,
    /// Nobody could be asked for too long: kill it and hand it back.
    HandBack,
}

/// What a run is ordered to do; its executor watches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Orders {
    /// The lease ran out unanswered, or the guard is down for too long: stand still.
    pub(crate) frozen: bool,
    /// End within the grace.
    pub(crate) stop: Option<StopOrder>,
    /// End at once.
    pub(crate) verdict: Option<Verdict>,
}

/// What changes while the run is in hand.
#[derive(Debug)]
struct Held {
    lease_until: BootInstant,
    /// Since when the lease is unanswered.
    lapsed: Option<BootInstant>,
    /// That was said.
    lapse_told: bool,
    guard_down: bool,
    control: Option<RunControl>,
    /// Its finish is on its way: nothing runs any more.
    ending: bool,
    /// It was said that its handler keeps its thread.
    overstay_told: bool,
}

/// Numbers of what the run says and is answered, one at a time of each kind.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) phases: tokio::sync::Mutex<u64>,
    pub(crate) checkpoints: tokio::sync::Mutex<u64>,
    pub(crate) spending: Spending,
}

/// One run in hand.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) key: RunKey,
    pub(crate) claimed: ClaimedTask,
    pub(crate) telling: Telling,
    pub(crate) bounds: Bounds,
    pub(crate) said: Said,
    /// What its handler left to be done at its end.
    pub(crate) cleanups: Cleanups,
    /// Cancelled by a stop, for handlers.
    pub(crate) stopped: CancellationToken,
    held: Mutex<Held>,
    orders: watch::Sender<Orders>,
}

impl Run {
    /// A run that was claimed by a call sent so long before `lease_until` as the lease is.
    pub(crate) fn new(queue: &QueueName, claimed: ClaimedTask, lease_until: BootInstant) -> Arc<Self> {
        let key = RunKey { queue: queue.clone(), id: claimed.id.clone(), run: claimed.run.clone() };
        let held = Held {
            lease_until,
            lapsed: None,
            lapse_told: false,
            guard_down: false,
            control: None,
            ending: false,
            overstay_told: false,
        };
        let run = Self {
            key,
            claimed,
            telling: Telling::default(),
            bounds: Bounds::default(),
            said: Said::default(),
            cleanups: Cleanups::default(),
            stopped: CancellationToken::new(),
            held: Mutex::new(held),
            orders: watch::Sender::new(Orders::default()),
        };
        // An answer that came too late starts nothing before a heartbeat says ok.
        run.freeze_if_lapsed(BootInstant::now());
        Arc::new(run)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The orders, now and as they change.
    pub(crate) fn orders(&self) -> watch::Receiver<Orders> {
        self.orders.subscribe()
    }

    /// Has it been judged lost, or given up?
    pub(crate) fn is_judged(&self) -> bool {
        self.orders.borrow().verdict.is_some()
    }

    /// Is it ordered to stop?
    pub(crate) fn is_stopping(&self) -> bool {
        self.orders.borrow().stop.is_some()
    }

    /// The body, decoded by the executor.
    pub(crate) fn body(&self) -> leasehold_common::Result<Body> {
        Body::decode(&self.claimed.body)
    }

    /// When the lease runs out; none while it has, or when nothing runs any more.
    pub(crate) fn lapses_at(&self) -> Option<BootInstant> {
        let held = self.held();
        (held.lapsed.is_none() && !held.ending).then_some(held.lease_until)
    }

    /// The lease as the process may rely on it.
    pub(crate) fn lease_until(&self) -> BootInstant {
        self.held().lease_until
    }

    /// Freezes the run if its lease has run out unanswered: nobody can tell a partition from an outage.
    /// Returns its processes, to be stopped.
    pub(crate) fn freeze_if_lapsed(&self, now: BootInstant) -> Option<RunControl> {
        let mut held = self.held();
        if held.lapsed.is_some() || held.ending || now < held.lease_until {
            return None;
        }
        held.lapsed = Some(now);
        self.apply_freeze(&held);
        held.control.clone()
    }

    /// Is it frozen by a lapse that was not told of? True once a lapse, whoever saw it first.
    pub(crate) fn lapse_is_news(&self) -> bool {
        let mut held = self.held();
        held.lapsed.is_some() && !std::mem::replace(&mut held.lapse_told, true)
    }

    /// Gives up on a run that has been frozen for longer than `most`.
    pub(crate) fn give_up_after(&self, now: BootInstant, most: Duration) {
        let long = self.held().lapsed.is_some_and(|since| now.since(since) >= most);
        if long {
            self.judge(Verdict::HandBack);
        }
    }

    /// The lease was renewed until `until` by a call sent at a time that makes it so.
    pub(crate) fn renew(&self, until: BootInstant, now: BootInstant) -> Option<RunControl> {
        let mut held = self.held();
        held.lease_until = held.lease_until.max(until);
        if until <= now {
            // An older answer only prompts the next beat.
            return None;
        }
        let thawed = held.lapsed.take().is_some();
        held.lapse_told = false;
        self.apply_freeze(&held);
        (thawed && !held.guard_down).then(|| held.control.clone()).flatten()
    }

    /// The guard of its processes is down for too long, or is up again.
    pub(crate) fn guard_down(&self, down: bool) -> Option<RunControl> {
        let mut held = self.held();
        if held.guard_down == down || held.control.is_none() {
            return None;
        }
        held.guard_down = down;
        self.apply_freeze(&held);
        (down || held.lapsed.is_none()).then(|| held.control.clone()).flatten()
    }

    /// Has its stop grace been over for `most`, and its handler has not even let itself be dropped? True once.
    pub(crate) fn overstays(&self, now: BootInstant, most: Duration) -> bool {
        let over = self.orders.borrow().stop.is_some_and(|stop| now.since(stop.kill_at) >= most);
        let mut held = self.held();
        let cleans_up = self.cleanups.are_running();
        let news = over && !held.ending && !cleans_up && held.control.is_none() && !held.overstay_told;
        held.overstay_told |= news;
        news
    }

    fn apply_freeze(&self, held: &Held) {
        let frozen = held.lapsed.is_some() || held.guard_down;
        self.orders.send_if_modified(|orders| std::mem::replace(&mut orders.frozen, frozen) != frozen);
    }

    /// Orders a stop: the first cause stays, but an abort outranks all; a later one only shortens the grace.
    pub(crate) fn stop(&self, cause: StopCause, kill_at: BootInstant) {
        self.orders.send_if_modified(|orders| {
            let before = orders.stop;
            orders.stop = Some(match before {
                None => StopOrder { cause, kill_at },
                Some(was) => StopOrder {
                    cause: if cause == StopCause::Abort { cause } else { was.cause },
                    kill_at: was.kill_at.min(kill_at),
                },
            });
            orders.stop != before
        });
        self.stopped.cancel();
    }

    /// Ends it at once. The first verdict stays.
    pub(crate) fn judge(&self, verdict: Verdict) {
        let news = self.orders.send_if_modified(|orders| {
            let news = orders.verdict.is_none();
            orders.verdict.get_or_insert(verdict);
            news
        });
        if !news {
            return;
        }
        self.stopped.cancel();
        let control = self.held().control.clone();
        if let Some(control) = control {
            control.kill(Duration::ZERO);
        }
    }

    /// Its processes, from their start on.
    pub(crate) fn set_control(&self, control: &RunControl) {
        let mut held = self.held();
        let frozen = held.lapsed.is_some() || held.guard_down;
        held.control = Some(control.clone());
        drop(held);
        if frozen {
            control.freeze();
            // Taken up again meanwhile: its thaw may have come before the freeze.
            let held = self.held();
            if held.lapsed.is_none() && !held.guard_down {
                control.thaw();
            }
        }
        if self.orders.borrow().verdict.is_some() {
            control.kill(Duration::ZERO);
        }
    }

    /// Its processes.
    pub(crate) fn control(&self) -> Option<RunControl> {
        self.held().control.clone()
    }

    /// Nothing of it runs any more; only its finish is open.
    pub(crate) fn set_ending(&self) {
        let mut held = self.held();
        held.ending = true;
        held.control = None;
    }

    /// Is only its finish open?
    pub(crate) fn is_ending(&self) -> bool {
        self.held().ending
    }
}

/// Polls `future` while the run is not frozen. A frozen future is kept, and not polled.
///
/// Each poll looks at the clock itself: in a process that stood still for longer than the lease this thread may go on
/// before the heartbeat's, while another worker runs the task.
pub(crate) async fn gated<F: Future>(run: &Run, future: F) -> F::Output {
    let mut orders = run.orders();
    let mut future = std::pin::pin!(future);
    loop {
        thawed(&mut orders).await;
        let polled = std::future::poll_fn(|context| {
            // Its processes stay as they are: what is gated is a handler, and has none.
            run.freeze_if_lapsed(BootInstant::now());
            if run.orders.borrow().frozen { Poll::Pending } else { future.as_mut().poll(context) }
        });
        tokio::select! {
            biased;
            // cancel-safe: a missed change is seen by the next `wait_for`.
            () = frozen(&mut orders) => {}
            output = polled => return output,
        }
    }
}

/// Waits until the run may go on.
pub(crate) async fn thawed(orders: &mut watch::Receiver<Orders>) {
    if orders.wait_for(|o| !o.frozen).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn frozen(orders: &mut watch::Receiver<Orders>) {
    if orders.wait_for(|o| o.frozen).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits for a stop.
pub(crate) async fn stop_ordered(orders: &mut watch::Receiver<Orders>) -> StopOrder {
    match orders.wait_for(|o| o.stop.is_some()).await.ok().and_then(|o| o.stop) {
        Some(stop) => stop,
        None => std::future::pending().await,
    }
}

/// Waits for a verdict.
pub(crate) async fn judged(orders: &mut watch::Receiver<Orders>) -> Verdict {
    match orders.wait_for(|o| o.verdict.is_some()).await.ok().and_then(|o| o.verdict) {
        Some(verdict) => verdict,
        None => std::future::pending().await,
    }
}

/// Waits until the grace of the stop is over, also when a later stop shortens it.
pub(crate) async fn grace_over(orders: &mut watch::Receiver<Orders>) {
    stop_ordered(orders).await;
    loop {
        let Some(stop) = orders.borrow_and_update().stop else { continue };
        let left = stop.kill_at.since(BootInstant::now());
        if left.is_zero() {
            return;
        }
        tokio::select! {
            // cancel-safe: both are started anew.
            () = tokio::time::sleep(left) => {}
            changed = orders.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run(lease: Duration) -> Arc<Run> {
        let claimed = ClaimedTask {
            id: TaskId::new("t").unwrap(),
            run: RunId::new("normal:1-0").unwrap(),
            attempt: 1,
            failures: 0,
            reclaims: 0,
            token: 1,
            begun_ms: 1,
            stop: None,
            deadline_in: None,
            body: Vec::new(),
        };
        Run::new(&QueueName::new("q").unwrap(), claimed, BootInstant::now().plus(lease))
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_claim_answered_too_late_begins_frozen_and_an_answer_in_time_thaws_it() {
        let run = run(Duration::ZERO);
        assert!(run.orders.borrow().frozen);
        let now = BootInstant::now();
        run.renew(now, now);
        assert!(run.orders.borrow().frozen, "an older answer only prompts the next beat");
        run.renew(now.plus(HOUR), now);
        assert!(!run.orders.borrow().frozen);
    }

    #[test]
    fn the_first_cause_stays_but_an_abort_outranks_and_nothing_extends_the_grace() {
        let run = run(HOUR);
        let now = BootInstant::now();
        run.stop(StopCause::RunTimeout, now.plus(Duration::from_secs(5)));
        run.stop(StopCause::Drain, now.plus(HOUR));
        assert_eq!(run.orders.borrow().stop.unwrap().cause, StopCause::RunTimeout);
        run.stop(StopCause::Abort, now.plus(HOUR));
        let stop = run.orders.borrow().stop.unwrap();
        assert_eq!(stop, StopOrder { cause: StopCause::Abort, kill_at: now.plus(Duration::from_secs(5)) });
        assert!(run.stopped.is_cancelled());
    }

    #[test]
    fn the_first_verdict_stays() {
        let run = run(HOUR);
        run.judge(Verdict::Lost);
        run.judge(Verdict::HandBack);
        assert_eq!(run.orders.borrow().verdict, Some(Verdict::Lost));
    }

    #[tokio::test]
    async fn a_frozen_future_is_not_polled() {
        let run = run(HOUR);
        let polls = std::cell::Cell::new(0);
        let counting = futures::future::poll_fn(|_| {
            polls.set(polls.get() + 1);
            Poll::<()>::Pending
        });
        let mut gated = Box::pin(gated(&run, counting));
        for (frozen, expected) in [(false, 1), (true, 1), (true, 1), (false, 2)] {
            run.orders.send_modify(|o| o.frozen = frozen);
            assert!(futures::poll!(gated.as_mut()).is_pending());
            assert_eq!(polls.get(), expected, "frozen: {frozen}");
        }
    }

    #[tokio::test]
    async fn r05_a_future_whose_lease_ran_out_while_nobody_looked_is_not_polled() {
        let run = run(Duration::from_millis(1));
        let polls = std::cell::Cell::new(0);
        let counting = futures::future::poll_fn(|_| {
            polls.set(polls.get() + 1);
            Poll::<()>::Pending
        });
        let mut gated = Box::pin(gated(&run, counting));
        // The whole process stood still: no heartbeat has frozen the run.
        tokio::time::sleep(Duration::from_millis(3)).await;
        assert!(futures::poll!(gated.as_mut()).is_pending());
        assert_eq!(polls.get(), 0);
        assert!(run.lapse_is_news() && !run.lapse_is_news(), "it is told once");
        run.renew(BootInstant::now().plus(HOUR), BootInstant::now());
        assert!(futures::poll!(gated.as_mut()).is_pending());
        assert_eq!(polls.get(), 1, "a beat that is answered lets it go on");
    }

    #[tokio::test]
    async fn a_later_stop_shortens_the_grace() {
        let run = run(HOUR);
        let mut orders = run.orders();
        run.stop(StopCause::Abort, BootInstant::now().plus(HOUR));
        let waiting = tokio::spawn(async move { grace_over(&mut orders).await });
        run.stop(StopCause::Abort, BootInstant::now());
        waiting.await.unwrap();
    }
}
