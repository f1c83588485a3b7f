//! The worlds that are walked through.

use std::time::Duration;

use leasehold_common::bounds::Deadline;
use leasehold_common::policy::{Backoff, OnLeaseExpired, Priority};
use leasehold_common::store::{NewTask, QueueSettings, When};
use leasehold_proof::words::World;
use leasehold_tests::queue::{START, budgets, lane, ms, task_with};

/// A lease of three beats of a second, so that runs are lost within a few steps.
fn settings() -> QueueSettings {
    QueueSettings { lease: ms(3000), ..QueueSettings::default() }
}

pub fn all() -> Vec<World> {
    vec![mixed(), plain(), lanes(), bounds()]
}

fn tasks(count: usize, change: impl Fn(usize, &mut NewTask)) -> Vec<NewTask> {
    (0..count).map(|no| task_with(&format!("t{no}"), |task| change(no, task))).collect()
}

fn small_policy(no: usize, task: &mut NewTask) {
    let policy = &mut task.body.policy;
    policy.max_attempts = 1 + no as u32 % 4;
    policy.max_reclaims = no as u32 % 3;
    policy.stop_grace = ms(1000 * (no as u64 % 3));
    if no.is_multiple_of(2) {
        policy.backoff.base = Duration::ZERO;
    }
}

/// A little of everything.
fn mixed() -> World {
    let tasks = tasks(7, |no, task| {
        small_policy(no, task);
        task.body.priority = Priority::ALL[no % 4];
        if no == 4 {
            task.body.policy.on_lease_expired = OnLeaseExpired::Fail;
        }
        if no.is_multiple_of(3) {
            task.body.lane = Some(lane("l"));
        }
        if no.is_multiple_of(2) {
            task.body.bounds.budgets = budgets(&[("calls", 3)]);
        }
        match no {
            1 => task.body.bounds.deadline = Some(Deadline::After(ms(12_000))),
            2 => task.body.policy.run_timeout = Some(ms(4000)),
            3 => task.body.bounds.stall_timeout = Some(ms(3500)),
            5 => task.when = When::After(ms(2500)),
            _ => {}
        }
    });
    let settings =
        QueueSettings { retain_completed: ms(20_000), retain_aborted: Duration::ZERO, ..settings() };
    World { name: "mixed", settings, tasks, workers: 5 }
}

/// Plain tasks, which take the short way of the scripts; one level of each kind.
fn plain() -> World {
    let tasks = tasks(7, |no, task| task.body.priority = Priority::ALL[[2, 2, 2, 0, 1, 3, 3][no]]);
    let settings =
        QueueSettings { retain_completed: Duration::ZERO, retain_failed: ms(90_000), ..settings() };
    World { name: "plain", settings, tasks, workers: 4 }
}

/// Two lanes, and tasks of all kinds in them.
fn lanes() -> World {
    let tasks = tasks(7, |no, task| {
        small_policy(no, task);
        task.body.lane = Some(lane(if no < 5 { "l" } else { "m" }));
        task.body.priority = if no == 3 { Priority::High } else { Priority::Normal };
        match no {
            1 => task.body.bounds.deadline = Some(Deadline::After(ms(6000))),
            2 => task.when = When::After(ms(1500)),
            4 => task.body.policy.on_lease_expired = OnLeaseExpired::Fail,
            _ => {}
        }
    });
    World { name: "lanes", settings: settings(), tasks, workers: 4 }
}

/// Few tasks with many bounds.
fn bounds() -> World {
    let tasks = tasks(4, |no, task| {
        let policy = &mut task.body.policy;
        policy.max_attempts = 3;
        policy.backoff = Backoff { base: ms(700), cap: ms(3000), factor: 2.0 };
        policy.run_timeout = [None, Some(ms(5000)), Some(ms(2000)), Some(ms(8000))][no];
        policy.stop_grace = ms([0, 1000, 2500, 4000][no]);
        if no == 3 {
            policy.on_lease_expired = OnLeaseExpired::Fail;
        }
        let bounds = &mut task.body.bounds;
        bounds.deadline =
            [None, Some(Deadline::After(ms(15_000))), None, Some(Deadline::At(START + 40_000))][no];
        bounds.silence_notice = [Some(ms(1500)), None, Some(ms(500)), Some(ms(900))][no];
        bounds.stall_timeout = [Some(ms(4000)), Some(ms(4000)), None, None][no];
        bounds.budgets = budgets(&[("calls", 2)]);
    });
    World { name: "bounds", settings: settings(), tasks, workers: 4 }
}
