//! The bounds of one run as its worker watches them. Redis keeps the same ones and ends what no worker ends; the worker is
//! only the first to know.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_common::body::Body;
use leasehold_common::record::StopCause;
use tokio::sync::Notify;

use crate::guard::BootInstant;

/// Between two looks at the clock: timers stand still while a machine sleeps, bounds do not.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// What bounds one run.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    now: Mutex<Now>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Now {
    run_ends: Option<BootInstant>,
    deadline: Option<BootInstant>,
    phase_ends: Option<BootInstant>,
    stall: Option<Duration>,
    life: Option<BootInstant>,
}

impl Now {
    /// The bound that passes first, and when.
    fn first(&self) -> Option<(BootInstant, StopCause)> {
        let stalled = self.life.zip(self.stall).map(|(life, most)| life.plus(most));
        [
            (self.run_ends, StopCause::RunTimeout),
            (self.phase_ends, StopCause::PhaseTimeout),
            (stalled, StopCause::Stalled),
            (self.deadline, StopCause::Deadline),
        ]
        .into_iter()
        .filter_map(|(at, cause)| Some((at?, cause)))
        .min_by_key(|(at, _)| *at)
    }
}

impl Bounds {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run begins. Its task ends in `deadline_in`, wherever it is then.
    pub(crate) fn begin(&self, body: &Body, deadline_in: Option<Duration>) {
        let begun = BootInstant::now();
        let mut now = self.now();
        now.run_ends = body.policy.run_timeout.map(|most| begun.plus(most));
        now.deadline = deadline_in.map(|left| begun.plus(left));
        now.stall = body.bounds.stall_timeout;
        now.life = Some(begun);
        drop(now);
        self.changed.notify_one();
    }

    /// The run enters a phase that may last so long.
    pub(crate) fn enter_phase(&self, timeout: Option<Duration>) {
        let begun = BootInstant::now();
        let mut now = self.now();
        now.phase_ends = timeout.map(|most| begun.plus(most));
        now.life = Some(begun);
        drop(now);
        self.changed.notify_one();
    }

    /// The run gave a sign of life.
    pub(crate) fn note_life(&self) {
        let mut now = self.now();
        if now.stall.is_some() {
            now.life = Some(BootInstant::now());
        }
    }

    /// Waits until a bound has passed, and says which.
    pub(crate) async fn passed(&self) -> StopCause {
        loop {
            let first = self.now().first();
            let left = first.map(|(at, _)| at.since(BootInstant::now()));
            match (first, left) {
                (Some((_, cause)), Some(Duration::ZERO)) => return cause,
                (_, Some(left)) => {
                    tokio::select! {
                        // cancel-safe: both only wait.
                        () = tokio::time::sleep(left.min(LONGEST_SLEEP)) => {}
                        () = self.changed.notified() => {}
                    }
                }
                (_, None) => self.changed.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(run: u64, phase: Option<u64>, stall: Option<u64>, deadline: Option<u64>) -> Now {
        let begun = BootInstant::now();
        let after = |secs| begun.plus(Duration::from_secs(secs));
        Now {
            run_ends: Some(after(run)),
            deadline: deadline.map(after),
            phase_ends: phase.map(after),
            stall: stall.map(Duration::from_secs),
            life: Some(begun),
        }
    }

    #[test]
    fn the_bound_that_passes_first_decides() {
        let cause = |now: Now| now.first().map(|(_, cause)| cause);
        assert_eq!(cause(now(9, None, None, None)), Some(StopCause::RunTimeout));
        assert_eq!(cause(now(9, Some(8), None, None)), Some(StopCause::PhaseTimeout));
        assert_eq!(cause(now(9, Some(8), Some(7), None)), Some(StopCause::Stalled));
        assert_eq!(cause(now(9, Some(8), Some(7), Some(6))), Some(StopCause::Deadline));
        assert_eq!(cause(Now::default()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_bound_nothing_ever_passes() {
        let bounds = Bounds::default();
        bounds.enter_phase(None);
        let day = Duration::from_secs(24 * 3600);
        assert!(tokio::time::timeout(day, bounds.passed()).await.is_err());
    }
}
