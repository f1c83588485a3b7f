//! Reapers that look all the time, and ones that are restarted: healthy work stays as it is.

use std::time::{Duration, Instant};

use leasehold_common::state::TaskState;
use leasehold_tests::scale::{loops, span};
use leasehold_tests::{Effects, Leasehold, eventually};

use super::handlers::{Crew, enqueue, nap};
use super::kit::{LIMIT, Rig, ids};

/// A reaper that looks every 50 ms.
fn eager(rig: &Rig) -> Leasehold {
    Leasehold::new(&rig.redis).env("LEASEHOLD_REAPER_SWEEP_EVERY", "50ms")
}

#[test]
fn case_06_short_tasks_are_never_reclaimed_as_they_are_claimed() {
    let rig = Rig::start();
    let reapers = [rig.reaper_with(eager(&rig)), rig.reaper_with(eager(&rig))];
    let crew = Crew::start(&rig, 4, 8);
    let (began, mut count) = (Instant::now(), 0);
    while count == 0 || began.elapsed() < span(Duration::from_secs(120)) {
        let tasks = ids(&format!("task-{count}"), 500);
        enqueue(&rig, tasks.iter().map(|id| nap(&rig, id, 10, 0)).collect());
        count += 500;
        rig.completes(count, LIMIT);
        assert!(tasks.iter().all(|id| crew.starts.of(id) == 1), "each is started once");
    }
    let facts = rig.facts();
    let totals = ["reclaimed", "retried", "started"].map(|name| facts.total(name));
    assert_eq!(totals, [0, 0, count as i64]);
    crew.stop(&rig);
    rig.end(reapers);
}

#[test]
fn case_06_restarts_of_the_reaper_change_nothing() {
    let rig = Rig::start();
    let worker = rig.worker("worker", 20);
    let (running, queued) = (ids("running", 20), ids("queued", 200));
    rig.exec_all(
        &running,
        &Effects::body_around("until [ -e \"$EFF.go\" ]; do sleep 0.1; done"),
        Rig::policy(),
    );
    rig.exec_all(&queued, "true", Rig::policy());
    for id in &running {
        rig.starts(id, 1, LIMIT);
    }
    let revisions = |rig: &Rig| -> Vec<(TaskState, u64)> {
        let ids = running.iter().chain(&queued);
        ids.map(|id| rig.record(id)).map(|record| (record.state, record.rev)).collect()
    };
    let before = revisions(&rig);
    assert_eq!(before.iter().filter(|(state, _)| *state == TaskState::Running).count(), 20);
    for _ in 0..loops(50) {
        let sweeps = |rig: &Rig| rig.facts().number("pulse.watch");
        let reaper = rig.reaper_with(eager(&rig));
        let seen = sweeps(&rig);
        eventually("it sweeps", LIMIT, || if sweeps(&rig) > seen + 200 { Ok(()) } else { Err(sweeps(&rig)) });
        rig.stop(reaper);
        assert_eq!(revisions(&rig), before);
    }
    std::fs::write(format!("{}.go", rig.effects.path().display()), "").expect("let them go");
    rig.completes(220, LIMIT);
    assert_eq!(rig.total("reclaimed"), 0);
    rig.effects.assert_each_ran_once(&running);
    rig.end([worker]);
}
