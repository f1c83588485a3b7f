//! A Redis without memory: what runs goes on and drains, what is new is refused whole.

use std::time::Duration;

use leasehold_common::state::TaskState;
use leasehold_tests::{Effects, eventually, let_time_pass};

use super::kit::{LEASE, LIMIT, Rig, ids};

#[test]
fn case_16_a_full_redis_drains_and_takes_nothing_new() {
    let rig = Rig::start();
    let processes = [rig.worker("worker", 5), rig.reaper()];
    let (running, queued) = (ids("running", 5), ids("queued", 20));
    rig.exec_all(&running, &Effects::body(LEASE * 2), Rig::policy());
    rig.exec_all(&queued, &Effects::body(Duration::from_millis(50)), Rig::policy());
    for id in &running {
        rig.starts(id, 1, LIMIT);
    }
    rig.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "500kb"]);
    let refused = rig.cli(&["exec", "q", "--id", "refused", "--", "true"]);
    assert!(!refused.status.success(), "{}", refused.stdout);
    assert!(refused.stderr.contains("full"), "{}", refused.stderr);
    rig.cli(&["task", "show", "refused", "--queue", "q"]).expect_code(4);
    assert_eq!(rig.total("enqueued"), 25);
    rig.completes(25, LIMIT);
    let_time_pass("still full", LEASE);
    rig.check();
    rig.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(rig.total("reclaimed"), 0);
    let all: Vec<&str> = running.iter().chain(&queued).map(String::as_str).collect();
    rig.effects.assert_each_ran_once(&all);

    rig.cli(&["exec", "q", "--id", "refused", "--", "true"]).success();
    rig.reaches("refused", TaskState::Completed, LIMIT);

    rig.redis.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let doctor = rig.cli(&["doctor"]).expect_code(1);
    let said = format!("{}{}", doctor.stdout, doctor.stderr);
    assert!(said.contains("maxmemory-policy") && said.contains("noeviction"), "{said}");
    rig.redis.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    eventually("the doctor is content again", LIMIT, || {
        let doctor = rig.cli(&["doctor"]);
        if doctor.status.success() { Ok(()) } else { Err(doctor.stdout) }
    });
    rig.end(processes);
}
