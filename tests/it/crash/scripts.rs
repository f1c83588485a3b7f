//! `SCRIPT FLUSH` at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_common::state::TaskState;
use leasehold_common::store::AbortRequest;
use leasehold_tests::scale::span;
use leasehold_tests::{Effects, Leasehold, comes_true, eventually, let_time_pass};

use super::handlers::{Crew, enqueue, nap};
use super::kit::{LIMIT, Rig, task_id};

/// Tasks of one turn, and the time between two: 200 a second.
const TURN: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

#[test]
fn case_09_scripts_that_are_flushed_all_the_time_lose_and_double_nothing() {
    let rig = Rig::start();
    let mut commands =
        Leasehold::new(&rig.redis).args(["worker", "--queue", "commands=2", "--allow-exec"]).spawn();
    commands.wait_for_output("worker started", LIMIT);
    let processes = [commands, rig.reaper()];
    let crew = Crew::start(&rig, 2, 16);
    let over = Arc::new(AtomicBool::new(false));
    let flushing = {
        let (over, mut connection) = (Arc::clone(&over), rig.redis.connection());
        std::thread::spawn(move || {
            let mut flushes = 0;
            while !comes_true(Duration::from_millis(50), || over.load(Ordering::SeqCst)) {
                redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection).expect("flush the scripts");
                flushes += 1;
            }
            flushes
        })
    };
    let (began, mut turn) = (Instant::now(), 0);
    while began.elapsed() < span(Duration::from_secs(60)) {
        let names: Vec<String> = (0..TURN).map(|n| format!("{turn}-{n}")).collect();
        // Every fifth fails once and is retried; the last is slow, and aborted.
        let work = |n: usize| if n == TURN - 1 { (60_000, 0) } else { (5, u64::from(n.is_multiple_of(5))) };
        let tasks = names.iter().enumerate().map(|(n, id)| (id, work(n)));
        enqueue(&rig, tasks.map(|(id, (ms, failures))| nap(&rig, id, ms, failures)).collect());
        let abort = AbortRequest::new(task_id(&names[TURN - 1]), "test", "");
        rig.block(rig.producer.abort_many(&rig.queue, &[abort])).expect("abort");
        turn += 1;
        let_time_pass("between two turns", PAUSE);
    }
    let mut follow = ["exec", "commands", "--wait"].map(str::to_owned).to_vec();
    follow.extend(rig.effects.exec_args(Duration::from_millis(200)));
    rig.cli(&follow.iter().map(String::as_str).collect::<Vec<_>>()).success();
    eventually("all have ended", LIMIT, || {
        let facts = rig.facts();
        let ended = facts.ended();
        if ended == (turn * TURN) as i64 { Ok(()) } else { Err(format!("{ended}: {facts:?}")) }
    });
    over.store(true, Ordering::SeqCst);
    let flushes: u32 = flushing.join().expect("the flushing thread");
    assert!(flushes > turn as u32 / 2, "{flushes} flushes");
    for (turn, n) in (0..turn).flat_map(|turn| (0..TURN).map(move |n| (turn, n))) {
        let id = format!("{turn}-{n}");
        let record = rig.record(&id);
        let starts = crew.starts.of(&id);
        if n == TURN - 1 {
            assert!(record.state == TaskState::Aborted && starts <= 1, "{starts} starts: {record:?}");
        } else {
            let runs = 1 + u64::from(n.is_multiple_of(5));
            assert_eq!((record.state, starts, record.attempt), (TaskState::Completed, runs, runs), "{id}");
        }
    }
    assert_eq!((rig.total("reclaimed"), rig.effects.ends()), (0, 1));
    crew.stop(&rig);
    rig.end(processes);
}

#[test]
fn r96_a_restarted_redis_without_scripts_serves_the_next_task() {
    let mut rig = Rig::start();
    let processes = [rig.worker("worker", 2), rig.reaper()];
    rig.redis.terminate();
    rig.redis.start_again();
    rig.exec("task", &Effects::body(Duration::ZERO));
    rig.reaches("task", TaskState::Completed, Duration::from_secs(10));
    rig.effects.assert_each_ran_once(&["task"]);
    rig.end(processes);
}
