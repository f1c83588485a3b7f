//! Idle workers live through whatever Redis does, quietly, and serve the next task without a restart.

use std::time::{Duration, Instant};

use leasehold_tests::scale::span;
use leasehold_tests::{Effects, Proc, RedisBuilder, RedisServer, eventually, let_time_pass, procfs};

use super::kit::{LIMIT, Rig};

/// A fresh task runs so soon after the fault.
const SERVED: Duration = Duration::from_secs(10);
/// Of a processor, in percent.
const MOST_CPU: u128 = 20;
const MOST_LINES_A_SECOND: u64 = 10;
/// Lines and CPU that belong to the fault's beginning and end, however short it is.
const SPARE_LINES: u64 = 10;
const SPARE_CPU: Duration = Duration::from_millis(200);

/// What a process has used and said so far.
fn used(process: &Proc) -> (Duration, u64) {
    (procfs::cpu_time(process.pid()), process.stderr().lines().count() as u64)
}

fn survives(redis: RedisBuilder, mood: impl FnOnce(&mut Rig)) {
    let mut rig = Rig::on(redis.start());
    let processes = [rig.worker("a", 2), rig.worker("b", 2), rig.reaper()];
    rig.exec("before", &Effects::body(Duration::ZERO));
    rig.completes(1, LIMIT);
    let before: Vec<(Duration, u64)> = processes.iter().map(used).collect();
    let began = Instant::now();
    mood(&mut rig);
    let lasted = began.elapsed();
    for (process, (cpu, lines)) in processes.iter().zip(before) {
        let (cpu_after, lines_after) = used(process);
        let most = Duration::from_millis(u64::try_from(lasted.as_millis() * MOST_CPU / 100).unwrap_or(0));
        let (cpu, lines) = (cpu_after.saturating_sub(cpu), lines_after - lines);
        assert!(cpu <= most + SPARE_CPU, "{cpu:?} of CPU in {lasted:?}");
        let most = MOST_LINES_A_SECOND * lasted.as_secs() + SPARE_LINES;
        assert!(lines <= most, "{lines} lines in {lasted:?}:\n{}", process.stderr());
    }
    let asked = Instant::now();
    rig.exec("fresh", &Effects::body(Duration::ZERO));
    rig.starts("fresh", 1, SERVED.saturating_sub(asked.elapsed()));
    eventually("the fresh task is completed", LIMIT, || {
        let state = rig.record("fresh").state;
        if state.is_terminal() { Ok(()) } else { Err(state) }
    });
    assert_eq!(rig.effects.of("fresh").len(), 1);
    rig.end(processes);
}

fn usual() -> RedisBuilder {
    RedisServer::builder()
}

#[test]
fn case_08_workers_survive_connections_that_are_killed_all_the_time() {
    survives(usual(), |rig| {
        let began = Instant::now();
        let mut connection = rig.redis.connection();
        while began.elapsed() < span(Duration::from_secs(10)).max(Duration::from_secs(3)) {
            for kind in ["normal", "pubsub"] {
                let kill = ["KILL", "TYPE", kind, "SKIPME", "yes"];
                redis::cmd("CLIENT").arg(&kill).exec(&mut connection).expect("kill the clients");
            }
            let_time_pass("between two kills", Duration::from_millis(100));
        }
    });
}

#[test]
fn case_08_workers_survive_a_namespace_that_is_deleted() {
    survives(usual(), |rig| {
        let all: Vec<String> = rig.redis.command(&["KEYS", "lh:*"]);
        let words: Vec<&str> = std::iter::once("DEL").chain(all.iter().map(String::as_str)).collect();
        rig.redis.command::<()>(&words);
        let_time_pass("while they notice", Duration::from_secs(3));
    });
}

#[test]
fn case_08_workers_survive_flushall() {
    survives(usual(), |rig| {
        rig.redis.command::<()>(&["FLUSHALL"]);
        let_time_pass("while they notice", Duration::from_secs(3));
    });
}

#[test]
fn case_08_workers_survive_paused_writes() {
    survives(usual(), |rig| {
        rig.redis.command::<()>(&["CLIENT", "PAUSE", "5000", "WRITE"]);
        let_time_pass("until writes go on", Duration::from_secs(5));
    });
}

#[test]
fn case_08_workers_survive_a_busy_script() {
    survives(usual().config("busy-reply-threshold", "200"), |rig| {
        let mut connection = rig.redis.connection();
        let busy = std::thread::spawn(move || {
            redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut connection).is_err()
        });
        let_time_pass("a script keeps Redis busy", Duration::from_secs(6));
        rig.redis.command::<()>(&["SCRIPT", "KILL"]);
        assert!(busy.join().expect("the busy connection"), "the script was killed");
    });
}

#[test]
fn case_08_workers_survive_a_redis_that_becomes_a_replica_and_a_master_again() {
    let other = RedisServer::start();
    survives(usual(), |rig| {
        rig.redis.command::<()>(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
        eventually("it follows the other server", LIMIT, || {
            let link = rig.redis.info("replication").get("master_link_status").cloned();
            if link.as_deref() == Some("up") { Ok(()) } else { Err(format!("{link:?}")) }
        });
        let_time_pass("while it refuses writes", Duration::from_secs(3));
        rig.redis.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    });
}

#[test]
fn case_08_workers_survive_a_restart_with_an_empty_dataset() {
    survives(usual(), |rig| {
        rig.redis.restart_empty();
        let_time_pass("while they notice", Duration::from_secs(3));
    });
}
