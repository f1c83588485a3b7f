//! What is enqueued: drawn from a seed, each task with the ends that it may come to.

use std::time::Duration;

use leasehold_common::policy::{Backoff, OnLeaseExpired, Policy, Priority};
use leasehold_common::record::FailureKind;
use leasehold_producer::{Bounds, Deadline};
use leasehold_tests::trail::{BUDGET, Deed};

/// Numbers from a seed: splitmix64.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn of(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `least` to `most`, both included.
    pub(super) fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// Below `count`.
    pub(super) fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).expect("below a usize")
    }

    pub(super) fn ms(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.within(least, most))
    }

    /// True once in so many times.
    pub(super) fn once_in(&mut self, many: u64) -> bool {
        self.next().is_multiple_of(many)
    }

    pub(super) fn of_these<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.index(these.len())]
    }
}

/// Its queue: commands alone, or handlers among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Queue {
    Shell,
    Mixed,
}

impl Queue {
    pub(super) const ALL: [Self; 2] = [Self::Shell, Self::Mixed];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Mixed => "mixed",
        }
    }

    /// Its lanes that take one task at a time; beside them it has [`THREE`].
    const fn lanes(self) -> usize {
        match self {
            Self::Shell => 12,
            Self::Mixed => 7,
        }
    }
}

/// The lane of each queue that takes three tasks at a time.
pub(super) const THREE: &str = "three";

/// What may become of a task by itself. `aborted` needs an abort, `lease_expired` a lost lease: the verdict knows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ends {
    pub(super) completed: bool,
    pub(super) kinds: Vec<FailureKind>,
}

/// A task to be enqueued.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) id: String,
    /// For people: what it is for.
    pub(super) sort: &'static str,
    pub(super) queue: Queue,
    pub(super) handler: bool,
    pub(super) lane: Option<String>,
    pub(super) deeds: Vec<Deed>,
    pub(super) policy: Policy,
    pub(super) bounds: Bounds,
    pub(super) priority: Priority,
    pub(super) delay: Option<Duration>,
    pub(super) ends: Ends,
}

impl Planned {
    /// How many of its lane may run at a time.
    pub(super) fn limit(&self) -> usize {
        if self.lane.as_deref() == Some(THREE) { 3 } else { 1 }
    }

    pub(super) const fn once(&self) -> bool {
        matches!(self.policy.on_lease_expired, OnLeaseExpired::Fail)
    }
}

/// The tasks of a seed, without end.
pub(super) struct Plan {
    dice: Dice,
    lease_ms: u64,
    count: usize,
}

impl Plan {
    pub(super) fn new(seed: u64, lease: Duration) -> Self {
        let lease_ms = u64::try_from(lease.as_millis()).expect("a short lease");
        Self { dice: Dice::of(seed), lease_ms, count: 0 }
    }

    pub(super) fn next(&mut self) -> Planned {
        let dice = &mut self.dice;
        let queue = if dice.once_in(2) { Queue::Shell } else { Queue::Mixed };
        let handler = queue == Queue::Mixed && !dice.once_in(3);
        let backoff =
            Backoff { base: Duration::from_millis(20), cap: Duration::from_millis(200), factor: 2.0 };
        let policy = Policy { max_attempts: 4, backoff, stop_grace: dice.ms(200, 600), ..Policy::default() };
        let mut task = Planned {
            id: format!("t{:05}", self.count),
            sort: "plain",
            queue,
            handler,
            lane: lane(dice, queue),
            deeds: Vec::new(),
            policy,
            bounds: Bounds::default(),
            priority: dice.of_these(&Priority::ALL),
            delay: dice.once_in(8).then(|| dice.ms(100, 2000)),
            ends: Ends { completed: true, kinds: Vec::new() },
        };
        self.count += 1;
        if dice.once_in(7) {
            // Of a handler the future is dropped after its grace, of a command all processes are killed.
            task.deeds.push(Deed::Deaf);
        }
        if !handler && dice.once_in(6) {
            task.deeds.push(Deed::Child);
        }
        fill(&mut task, dice, self.lease_ms);
        task
    }
}

/// The first lanes of a queue are the fullest: there tasks wait for each other.
fn lane(dice: &mut Dice, queue: Queue) -> Option<String> {
    match dice.within(0, 9) {
        0..=2 => None,
        3 => Some(THREE.to_owned()),
        _ => {
            let number = dice.index(queue.lanes()).min(dice.index(queue.lanes()));
            Some(format!("lane/{number}"))
        }
    }
}

/// Longer than any bound, and than the drain at the end.
const FOR_EVER: Deed = Deed::Work(3_600_000);

fn fill(task: &mut Planned, dice: &mut Dice, lease_ms: u64) {
    let short = Deed::Work(dice.within(20, 400));
    let failed = if task.handler { FailureKind::Error } else { FailureKind::ExitCode };
    let only = |kind| Ends { completed: false, kinds: vec![kind] };
    match dice.within(0, if task.handler { 13 } else { 10 }) {
        0..=2 => task.deeds.push(short),
        3 => {
            task.sort = "long";
            task.deeds.push(Deed::Work(dice.within(lease_ms / 2, 2 * lease_ms)));
        }
        4 => {
            task.sort = "fails";
            task.deeds.extend([short, Deed::Fail]);
            task.policy.max_attempts = u32::try_from(dice.within(1, 3)).expect("a small number");
            task.ends = only(failed);
        }
        5 => {
            task.sort = "flaky";
            task.deeds.extend([short, Deed::FailFirst(dice.within(1, 3)), Deed::Work(30)]);
        }
        6 => {
            task.sort = "overruns";
            task.deeds.push(FOR_EVER);
            task.policy.run_timeout = Some(dice.ms(200, 900));
            task.policy.max_attempts = u32::try_from(dice.within(1, 2)).expect("a small number");
            task.ends = only(FailureKind::RunTimeout);
        }
        7 => {
            task.sort = "late";
            task.deeds.push(if dice.once_in(2) { FOR_EVER } else { short });
            task.bounds.deadline = Some(Deadline::After(dice.ms(300, 3000)));
            task.ends.kinds = vec![FailureKind::Deadline];
        }
        8..=10 => {
            task.sort = "once";
            task.deeds.push(Deed::Work(dice.within(50, lease_ms)));
            task.policy.on_lease_expired = OnLeaseExpired::Fail;
        }
        11 => {
            task.sort = "phases";
            task.deeds.extend([Deed::Phase("quick".to_owned(), 60_000), short]);
            task.deeds.extend([Deed::Phase("slow".to_owned(), dice.within(100, 500)), FOR_EVER]);
            task.policy.max_attempts = u32::try_from(dice.within(1, 2)).expect("a small number");
            task.ends = only(FailureKind::PhaseTimeout);
        }
        12 => {
            task.sort = "overspends";
            task.deeds.extend([Deed::Spend(3), short, Deed::Spend(3), Deed::Spend(1)]);
            task.bounds.budgets.insert(BUDGET.parse().expect("a budget's name"), 5);
            task.ends = only(FailureKind::BudgetExceeded);
        }
        _ => {
            // Enough for three attempts: with more, of lost leases say, it may well exceed.
            task.sort = "spends";
            task.deeds.extend([Deed::Spend(1), short, Deed::Spend(2), Deed::FailFirst(dice.within(0, 2))]);
            task.bounds.budgets.insert(BUDGET.parse().expect("a budget's name"), 9);
            task.ends.kinds = vec![FailureKind::BudgetExceeded];
        }
    }
}
