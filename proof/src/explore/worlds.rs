//! The worlds that are explored: two workers, a reaper, a client, one or two tasks, a lease of three beats of a second.

use std::time::Duration;

use leasehold_common::bounds::Deadline;
use leasehold_common::policy::{Backoff, OnLeaseExpired, Policy};
use leasehold_common::record::{FailureDetail, FailureKind, StopCause};
use leasehold_common::store::{NewTask, Outcome, QueueSettings, RetryAdvice};
use leasehold_tests::queue::{budgets, in_lane_with, task_with};

use super::plan::Plan;
use super::step::Step;
use crate::words::{Call, World};

/// A second, the step of time: a beat.
const SECOND: Duration = Duration::from_secs(1);

/// Two attempts without a delay between them, one reclaim, a grace of a second.
fn policy() -> Policy {
    Policy {
        max_attempts: 2,
        backoff: Backoff { base: Duration::ZERO, ..Backoff::default() },
        max_reclaims: 1,
        stop_grace: SECOND,
        ..Policy::default()
    }
}

fn small(name: &str, change: impl FnOnce(&mut NewTask)) -> NewTask {
    task_with(name, |task| {
        task.body.policy = policy();
        change(task);
    })
}

fn small_in_lane(name: &str) -> NewTask {
    in_lane_with(name, |task| task.body.policy = policy())
}

fn done() -> Outcome {
    Outcome::Completed(b"done".to_vec())
}

fn failed(retry: RetryAdvice) -> Outcome {
    let (kind, detail) = (FailureKind::Error, FailureDetail::default());
    Outcome::Failed { kind, message: "it broke".to_owned(), retry, detail }
}

fn stopped(cause: StopCause) -> Outcome {
    Outcome::Stopped { cause, message: "stopped".to_owned(), detail: FailureDetail::default() }
}

fn settings() -> QueueSettings {
    QueueSettings { lease: 3 * SECOND, ..QueueSettings::default() }
}

/// A plan in which little happens: enqueues, claims of one, beats, results, lost replies, late duplicates, time.
fn plan(name: &'static str, about: &'static str, tasks: Vec<NewTask>) -> Plan {
    let batches = (0..tasks.len()).map(|no| vec![no]).collect();
    Plan {
        world: World { name, settings: settings(), tasks, workers: 3 },
        about,
        restarts: false,
        begins: Vec::new(),
        depth: 8,
        batches,
        other: false,
        wants: vec![1],
        closing: false,
        outcomes: vec![done()],
        aborts: 0,
        grace: None,
        abandon: false,
        retries: 0,
        deletes: 0,
        phase: None,
        charge: None,
        checkpoint: false,
        unkillable: false,
        limits: (Vec::new(), 0),
        leaps: vec![3000],
        cleanup: false,
        declares: false,
        faults: 1,
        failovers: 0,
        window: 0,
    }
}

/// A path that begins with all tasks enqueued in one call.
fn enqueued(tasks: usize) -> Vec<Step> {
    vec![Step::Heard(Call::Enqueue((0..tasks).collect()))]
}

/// One that begins with a task that the first worker runs.
fn running() -> Vec<Step> {
    let claim = Call::Claim { worker: 0, number: 1, want: 1, closing: false };
    [enqueued(1), vec![Step::Heard(claim)]].concat()
}

/// All worlds, in the order in which they are explored.
pub fn all() -> Vec<Plan> {
    vec![
        one(),
        frozen(),
        lane(),
        budget(),
        once(),
        abort(),
        bounds(),
        again(),
        pair(),
        limit(),
        fail_over(),
        restart(),
    ]
}

/// The world of this name.
pub fn named(name: &str) -> Option<Plan> {
    all().into_iter().find(|plan| plan.world.name == name)
}

fn one() -> Plan {
    Plan {
        depth: 12,
        outcomes: vec![done(), failed(RetryAdvice::Policy), Outcome::Released],
        leaps: vec![1000, 3000],
        faults: 2,
        ..plan(
            "one",
            "a task, two attempts, one reclaim: results, failures, releases",
            vec![small("t0", |_| {})],
        )
    }
}

fn frozen() -> Plan {
    Plan {
        begins: [running(), vec![Step::Tick; 3]].concat(),
        depth: 10,
        outcomes: vec![done(), failed(RetryAdvice::Policy)],
        declares: true,
        ..plan("frozen", "a worker that was frozen until its run is suspected", vec![small("t0", |_| {})])
    }
}

fn lane() -> Plan {
    Plan {
        depth: 11,
        batches: vec![vec![0], vec![1], vec![0, 1]],
        outcomes: vec![done(), failed(RetryAdvice::After(SECOND))],
        aborts: 1,
        ..plan("lane", "two tasks of a lane, one at a time", vec![small_in_lane("t0"), small_in_lane("t1")])
    }
}

fn limit() -> Plan {
    Plan {
        begins: enqueued(2),
        depth: 10,
        batches: vec![vec![0, 1]],
        wants: vec![2],
        outcomes: vec![done(), Outcome::Released],
        limits: (vec![1, 2], 2),
        ..plan(
            "limit",
            "two tasks of a lane whose limit changes",
            vec![small_in_lane("t0"), small_in_lane("t1")],
        )
    }
}

fn budget() -> Plan {
    let task = small("t0", |task| task.body.bounds.budgets = budgets(&[("calls", 2)]));
    Plan {
        begins: running(),
        depth: 11,
        outcomes: vec![done(), failed(RetryAdvice::Policy)],
        charge: Some(1),
        retries: 1,
        ..plan("budget", "a budget of two, charged one by one over attempts", vec![task])
    }
}

fn once() -> Plan {
    let task = |name| small(name, |task| task.body.policy.on_lease_expired = OnLeaseExpired::Fail);
    Plan {
        begins: enqueued(2),
        depth: 10,
        batches: vec![vec![0, 1]],
        wants: vec![1, 2],
        closing: true,
        outcomes: vec![done(), Outcome::Released],
        declares: true,
        ..plan(
            "once",
            "two tasks that must not be started twice; workers that close, or are declared dead",
            vec![task("t0"), task("t1")],
        )
    }
}

fn abort() -> Plan {
    Plan {
        begins: running(),
        depth: 12,
        outcomes: vec![done(), stopped(StopCause::Abort)],
        aborts: 2,
        grace: Some(0),
        abandon: true,
        retries: 1,
        unkillable: true,
        ..plan(
            "abort",
            "aborts, repeated and made stricter, of a run that may not die; a retry",
            vec![small("t0", |_| {})],
        )
    }
}

fn bounds() -> Plan {
    let task = small("t0", |task| {
        task.body.policy.run_timeout = Some(3 * SECOND);
        task.body.bounds.deadline = Some(Deadline::After(8 * SECOND));
        task.body.bounds.stall_timeout = Some(2 * SECOND);
    });
    Plan {
        begins: running(),
        depth: 11,
        outcomes: vec![done(), stopped(StopCause::RunTimeout), Outcome::Snoozed(SECOND)],
        aborts: 1,
        phase: Some(1000),
        ..plan("bounds", "run timeout, phase timeout, stall and deadline; an abort on top", vec![task])
    }
}

fn again() -> Plan {
    let settings =
        QueueSettings { retain_completed: 2 * SECOND, retain_aborted: Duration::ZERO, ..settings() };
    let mut plan = Plan {
        begins: enqueued(1),
        depth: 11,
        other: true,
        outcomes: vec![done(), failed(RetryAdvice::Fatal)],
        aborts: 1,
        retries: 1,
        deletes: 1,
        checkpoint: true,
        cleanup: true,
        ..plan("again", "retries, deletes, retention, ids that come again", vec![small("t0", |_| {})])
    };
    plan.world.settings = settings;
    plan
}

fn pair() -> Plan {
    Plan {
        depth: 10,
        batches: vec![vec![0, 0], vec![0, 1]],
        wants: vec![1, 2],
        outcomes: vec![done(), failed(RetryAdvice::After(SECOND))],
        ..plan(
            "pair",
            "two plain tasks: the short way, batches, an id twice in a batch",
            vec![task_with("t0", |_| {}), task_with("t1", |_| {})],
        )
    }
}

fn fail_over() -> Plan {
    Plan {
        depth: 11,
        outcomes: vec![done(), failed(RetryAdvice::Policy)],
        aborts: 1,
        failovers: 1,
        window: 3,
        ..plan("failover", "a replica takes over without the last writes", vec![small("t0", |_| {})])
    }
}

fn restart() -> Plan {
    Plan {
        restarts: true,
        begins: enqueued(2),
        depth: 5,
        batches: vec![vec![0, 1]],
        outcomes: vec![done(), failed(RetryAdvice::After(SECOND))],
        leaps: vec![3000],
        faults: 0,
        ..plan(
            "restart",
            "Redis restarts from its append-only file after every step",
            vec![small_in_lane("t0"), small_in_lane("t1")],
        )
    }
}
