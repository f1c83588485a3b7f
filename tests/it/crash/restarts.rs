//! Workers that are killed and started again under their name: nobody waits for a lease of a minute.

use std::time::{Duration, Instant};

use leasehold_common::record::FailureKind;
use leasehold_common::state::TaskState;
use leasehold_common::store::QueueSettings;
use leasehold_tests::{Effects, Leasehold, Proc, RedisServer, eventually, procfs};
use nix::sys::signal::Signal;

use super::dead_workers::{FLEEING, TWO_PROCESSES};
use super::kit::{LIMIT, Rig};
use super::watch::Watch;

const LONG_LEASE: Duration = Duration::from_secs(60);
/// Far less than the lease, and more than a restart takes on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(20);

fn rig() -> Rig {
    Rig::with(RedisServer::start(), QueueSettings { lease: LONG_LEASE, ..QueueSettings::default() })
}

fn end_task(rig: &Rig, id: &str) {
    rig.cli(&["task", "abort", id, "--queue", "q", "--grace", "0s"]).success();
    rig.reaches(id, TaskState::Aborted, LIMIT);
}

/// Waits until a command has so many processes. Answers all of them.
fn processes(rig: &Rig, count: usize) -> Vec<i32> {
    eventually("all processes of the command are there", LIMIT, || {
        let found = rig.commands();
        if found.len() >= count { Ok(found) } else { Err(procfs::describe(&found)) }
    })
}

fn guard_of(worker: &Proc) -> i32 {
    let name = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let below = procfs::descendants(worker.pid());
    below.into_iter().find(|pid| name(*pid).trim() == "leasehold-guard").expect("a guard")
}

#[test]
fn r11_a_worker_killed_and_started_again_runs_its_task_again_without_waiting_for_the_lease() {
    let rig = rig();
    let watch = Watch::start(rig.effects.env());
    // Nobody sweeps: it is the new worker alone that recovers.
    let mut first = rig.worker("w", 2);
    rig.exec("task", &Effects::body_around("sleep 600"));
    rig.exec("twice", TWO_PROCESSES);
    rig.starts("task", 1, LIMIT);
    rig.starts("twice", 1, LIMIT);
    for attempt in 2..=3 {
        let killed = rig.kill(&mut first);
        let mut next = rig.worker("w", 2);
        assert!(next.stderr().contains("reclaimed=2"), "{}", next.stderr());
        for id in ["task", "twice"] {
            rig.starts(id, attempt, AT_ONCE);
            let record = rig.record(id);
            assert_eq!((record.attempt, record.reclaims), (u64::from(attempt), u64::from(attempt) - 1));
            assert_eq!(record.failures, 0, "{id}");
        }
        assert!(killed.elapsed() < AT_ONCE, "it took {:?}", killed.elapsed());
        std::mem::swap(&mut first, &mut next);
    }
    let failure = rig.detail("task").last_failure().cloned().expect("it says what happened");
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::LeaseExpired, "worker w is gone: it died")
    );
    rig.effects.assert_no_overlap();
    let workers = rig.block(rig.store().workers()).expect("the registry");
    assert_eq!(workers.len(), 1, "the dead ones are no longer listed: {workers:?}");
    end_task(&rig, "task");
    end_task(&rig, "twice");
    watch.end();
    rig.end([first]);
}

/// Its guard stands still, so that what it had started lives on: the new worker ends that first.
fn leftovers(body: &str, count: usize) {
    let rig = rig();
    let watch = Watch::start(rig.effects.env());
    let mut first = rig.worker("w", 1);
    rig.exec("task", body);
    rig.starts("task", 1, LIMIT);
    let pids = processes(&rig, count);
    let guard = guard_of(&first);
    procfs::signal(guard, Signal::SIGSTOP);
    eventually("the guard stands still", LIMIT, || match procfs::state(guard) {
        Some('T') => Ok(()),
        other => Err(format!("{other:?}")),
    });
    rig.kill(&mut first);
    assert!(pids.iter().all(|pid| procfs::is_running(*pid)), "they outlive worker and guard");
    let next = rig.worker("w", 1);
    rig.starts("task", 2, AT_ONCE);
    let left: Vec<i32> = pids.into_iter().filter(|pid| procfs::is_running(*pid)).collect();
    assert!(left.is_empty(), "of the first attempt this still runs:\n{}", procfs::describe(&left));
    assert_eq!(rig.record("task").reclaims, 1);
    procfs::signal(guard, Signal::SIGCONT);
    end_task(&rig, "task");
    watch.end();
    rig.end([next]);
}

#[test]
fn r05_r11_commands_that_outlived_worker_and_guard_are_killed_before_they_start_again() {
    leftovers(TWO_PROCESSES, 2);
}

#[test]
fn r05_r11_grandchildren_that_outlived_worker_and_guard_are_killed_before_they_start_again() {
    leftovers(FLEEING, 6);
}

#[test]
fn r11_queues_that_the_dead_worker_served_alone_are_recovered_too_and_a_broken_one_stops_nobody() {
    let rig = rig();
    let other = |queue: &str| {
        let queue = leasehold_common::name::QueueName::new(queue).expect("a queue name");
        rig.block(rig.store().register(&queue)).expect("register");
        let payload = rig.payload(&Effects::body_around("sleep 600"));
        let task = rig.producer.exec(queue.clone(), payload).id(format!("in-{queue}"));
        rig.block(rig.producer.enqueue_all([task])).remove(0).expect("enqueue");
    };
    other("other");
    other("broken");
    let mut first = rig.worker_with(&rig.redis, "w", 1, &["--queue", "other=1", "--queue", "broken=1"]);
    for id in ["in-other", "in-broken"] {
        rig.starts(id, 1, LIMIT);
    }
    rig.kill(&mut first);
    rig.redis.command::<()>(&["HSET", "lh:{broken}:config", "v", "9"]);
    let next = rig.worker("w", 1);
    assert!(next.stderr().contains("left to their leases in this queue"), "{}", next.stderr());
    rig.redis.command::<()>(&["HSET", "lh:{broken}:config", "v", leasehold_tests::queue::V]);
    let state = |queue: &str| {
        let queue = leasehold_common::name::QueueName::new(queue).expect("a queue name");
        let id = super::kit::task_id(&format!("in-{queue}"));
        rig.block(rig.store().record(&queue, &id)).expect("a record").expect("it is there").state
    };
    assert_eq!((state("other"), state("broken")), (TaskState::Queued, TaskState::Running));
    // The entry of the dead one stays while something is left to do: the next start finds it.
    rig.stop(next);
    let last = rig.worker("w", 1);
    assert_eq!(state("broken"), TaskState::Queued);
    rig.end([last]);
}

#[test]
fn r11_a_worker_that_stood_still_until_another_took_its_name_stops_and_says_so() {
    let rig = rig();
    let mut frozen = rig.worker("w", 1);
    frozen.stop();
    let refused =
        Leasehold::new(&rig.redis).args(["worker", "--queue", "q=1", "--name", "w"]).run().expect_code(1);
    assert!(refused.stderr.contains("w is taken"), "a stopped process lives: {}", refused.stderr);
    // As if 30 s had passed.
    let entries: Vec<String> = rig.redis.command(&["KEYS", "lh:worker:*"]);
    for key in entries.iter().map(String::as_str).chain(["lh:name:w"]) {
        rig.redis.command::<()>(&["DEL", key]);
    }
    let other = rig.worker("w", 1);
    frozen.cont();
    frozen.wait_for_output("has taken this one's name", LIMIT);
    let ended = frozen.wait(LIMIT).expect_code(1);
    assert!(ended.stderr.contains("another worker took the name w"), "{}", ended.stderr);
    rig.exec("task", "true");
    rig.reaches("task", TaskState::Completed, LIMIT);
    let holder: String = rig.redis.command(&["GET", "lh:name:w"]);
    let workers = rig.block(rig.store().workers()).expect("the registry");
    assert_eq!(workers.iter().map(|w| w.incarnation.as_str()).collect::<Vec<_>>(), [holder.as_str()]);
    rig.end([other]);
}

/// Killed again in the middle of its start, or right after it: whoever comes next still finds all the dead.
#[test]
fn r11_workers_that_are_killed_again_and_again_leave_nothing_behind() {
    let rig = rig();
    let began = Instant::now();
    rig.exec_all(&super::kit::ids("t", 3), &Effects::body_around("sleep 600"), {
        leasehold_common::policy::Policy { max_reclaims: 100, ..Rig::policy() }
    });
    for round in 0..6 {
        let mut worker = if round % 2 == 0 {
            rig.worker("w", 3)
        } else {
            Leasehold::new(&rig.redis)
                .args(["worker", "--queue", "q=3", "--name", "w", "--allow-exec"])
                .spawn()
        };
        rig.kill(&mut worker);
    }
    let last = rig.worker("w", 3);
    eventually("all three run under the last one", AT_ONCE, || {
        let workers = rig.block(rig.store().workers()).map_err(|error| error.to_string())?;
        let running = workers.iter().map(|worker| worker.running).sum::<usize>();
        let commands = rig.commands().len();
        if workers.len() == 1 && running == 3 && commands >= 3 { Ok(()) } else { Err(format!("{workers:?}")) }
    });
    rig.effects.assert_no_overlap();
    assert!(began.elapsed() < LONG_LEASE, "the lease was not waited for");
    for id in super::kit::ids("t", 3) {
        end_task(&rig, &id);
    }
    rig.end([last]);
}
