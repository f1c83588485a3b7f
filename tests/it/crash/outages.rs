//! Redis away for longer than a lease while the workers are healthy: nobody is judged by what nobody could see.

use std::time::{Duration, Instant};

use leasehold_common::state::TaskState;
use leasehold_tests::scale::whole_cases;
use leasehold_tests::{Effects, eventually, let_time_pass, procfs};

use super::dead_workers::TWO_PROCESSES;
use super::kit::{LEASE, LIMIT, LONG_SILENCE, Rig, ids};
use super::watch::Watch;

/// The append-only file is synced once a second.
const SYNCED: Duration = Duration::from_millis(1500);
/// Workers are back so soon after Redis is.
const BACK: Duration = Duration::from_secs(5);

/// How Redis is away for three leases.
#[derive(Debug, Clone, Copy)]
enum Outage {
    Paused,
    KilledAndRestarted,
}

impl Outage {
    fn begin(self, rig: &mut Rig) {
        match self {
            Self::Paused => rig.redis.pause(),
            Self::KilledAndRestarted => {
                let_time_pass("until the append-only file is synced", SYNCED);
                rig.redis.kill();
            }
        }
    }

    fn end(self, rig: &mut Rig) {
        match self {
            Self::Paused => rig.redis.resume(),
            Self::KilledAndRestarted => rig.redis.start_again(),
        }
    }

    /// The whole of it; commands stand still at its end.
    fn happen(self, rig: &mut Rig) -> Instant {
        self.begin(rig);
        let_time_pass("three leases without Redis", LONG_SILENCE);
        let moving: Vec<i32> =
            rig.commands().into_iter().filter(|pid| procfs::state(*pid) != Some('T')).collect();
        assert!(moving.is_empty(), "without leases commands stand still:\n{}", procfs::describe(&moving));
        self.end(rig);
        Instant::now()
    }
}

/// So many runs hold a lease, and their commands go on.
#[track_caller]
fn assert_back_in_time(rig: &Rig, runs: usize, since: Instant) {
    let leases = format!("{}lease:*", rig.store().keys(&rig.queue).prefix());
    eventually("leases are taken up again", BACK.saturating_sub(since.elapsed()), || {
        let held: Vec<String> = rig.redis.try_command(&["KEYS", &leases]).map_err(|e| e.to_string())?;
        if held.len() == runs { Ok(()) } else { Err(format!("{} leases", held.len())) }
    });
    eventually("commands go on", BACK.saturating_sub(since.elapsed()), || {
        let all = rig.commands();
        let still: Vec<i32> = all.iter().copied().filter(|pid| procfs::state(*pid) == Some('T')).collect();
        if still.is_empty() { Ok(()) } else { Err(procfs::describe(&still)) }
    });
}

fn twenty_commands_outlive(outage: Outage) {
    let busy = if whole_cases() { Duration::from_secs(20) } else { Duration::from_secs(9) };
    let mut rig = Rig::start();
    let mut reaper = rig.reaper();
    let workers = [rig.worker("a", 11), rig.worker("b", 11)];
    let tasks = ids("task", 20);
    rig.exec_all(&tasks, &Effects::body(busy), Rig::policy());
    eventually("twenty commands run", LIMIT, || {
        let starts = rig.effects.starts();
        if starts == 20 { Ok(()) } else { Err(format!("{starts} started")) }
    });
    let watch = Watch::start(rig.effects.env());
    let since = outage.happen(&mut rig);
    rig.exec("fresh", &Effects::body(Duration::ZERO));
    rig.reaches("fresh", TaskState::Completed, BACK.saturating_sub(since.elapsed()));
    rig.completes(21, LIMIT);
    for id in &tasks {
        let record = rig.record(id);
        assert_eq!((record.attempt, record.failures, record.reclaims), (1, 0, 0), "{id}");
    }
    assert_eq!(rig.total("reclaimed"), 0);
    let all: Vec<&str> = tasks.iter().map(String::as_str).chain(["fresh"]).collect();
    rig.effects.assert_each_ran_once(&all);
    reaper.wait_for_output("no run is judged dead before another lease has passed", LIMIT);
    watch.end();
    rig.end(workers.into_iter().chain([reaper]));
}

#[test]
fn case_05_twenty_commands_outlive_a_redis_that_stands_still() {
    twenty_commands_outlive(Outage::Paused);
}

#[test]
fn case_05_twenty_commands_outlive_a_redis_that_is_killed_and_restarted() {
    twenty_commands_outlive(Outage::KilledAndRestarted);
}

/// One task and one worker outlive the outage; then the worker is killed, and that is noticed in time.
fn one_worker_outlives(outage: Outage) {
    let mut rig = Rig::start();
    let watch = Watch::start(rig.effects.env());
    let reaper = rig.reaper();
    let mut worker = rig.worker("lonely", 1);
    rig.exec("task", TWO_PROCESSES);
    rig.starts("task", 1, LIMIT);
    let since = outage.happen(&mut rig);
    assert_back_in_time(&rig, 1, since);
    let_time_pass("a lease after the outage", LEASE);
    let record = rig.record("task");
    assert_eq!((record.state, record.attempt, record.reclaims), (TaskState::Running, 1, 0));
    assert_eq!((rig.total("reclaimed"), rig.effects.starts()), (0, 1));

    let other = rig.worker("other", 1);
    let killed = rig.kill(&mut worker);
    rig.starts("task", 2, LIMIT);
    rig.assert_reclaimed_in_time(killed);
    rig.cli(&["task", "abort", "task", "--queue", "q", "--grace", "0s"]).success();
    let record = rig.reaches("task", TaskState::Aborted, LIMIT);
    assert_eq!((record.attempt, record.failures, record.reclaims), (2, 0, 1));
    watch.end();
    rig.end([other, reaper]);
}

#[test]
fn case_05_one_worker_outlives_a_paused_redis_and_is_reclaimed_when_it_dies() {
    one_worker_outlives(Outage::Paused);
}

#[test]
fn case_05_one_worker_outlives_a_restarted_redis_and_is_reclaimed_when_it_dies() {
    one_worker_outlives(Outage::KilledAndRestarted);
}
