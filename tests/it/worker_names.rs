//! Names of workers: no two that live share one, and who may take that of another.

use std::time::{Duration, Instant};

use leasehold_common::name::{Incarnation, WorkerName};
use leasehold_common::store::{ProcessMark, WorkerInfo};
use leasehold_tests::{Leasehold, Proc, RedisServer, eventually, procfs};

use crate::crash::kit::{LIMIT, Rig};

const TTL: Duration = Duration::from_secs(3);

fn spawn(rig: &Rig, more: &[&str]) -> Proc {
    Leasehold::new(&rig.redis).args(["worker", "--queue", "q=2", "--allow-exec"]).args(more).spawn()
}

fn started(rig: &Rig, more: &[&str]) -> Proc {
    let mut worker = spawn(rig, more);
    worker.wait_for_output("worker started", LIMIT);
    worker
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name").trim().to_owned()
}

/// Names of the living, by their pids.
fn names(rig: &Rig) -> Vec<(i32, String)> {
    let workers = rig.block(rig.store().workers()).expect("the registry");
    workers.into_iter().map(|w| (i32::try_from(w.pid).expect("a pid"), w.name.to_string())).collect()
}

fn name_of(rig: &Rig, worker: &Proc) -> String {
    let found = names(rig).into_iter().find(|(pid, _)| *pid == worker.pid());
    found.unwrap_or_else(|| panic!("{:?}", names(rig))).1
}

/// Makes an incarnation known that holds `w`, on a process that looks so.
fn pretend(rig: &Rig, pid: u32, mark: ProcessMark) -> Incarnation {
    let (name, incarnation) = (WorkerName::new("w").unwrap(), Incarnation::fresh());
    let info = WorkerInfo {
        name: name.clone(),
        incarnation: incarnation.clone(),
        host: "far-away".to_owned(),
        pid,
        mark,
        started_ms: 1,
        queues: [(rig.queue.clone(), 1)].into(),
        running: 0,
        status: "running".to_owned(),
    };
    rig.block(async {
        assert_eq!(rig.store().take_name(&name, &incarnation, TTL).await?, None);
        rig.store().announce_worker(&info, 1, TTL).await
    })
    .expect("announce");
    incarnation
}

/// The mark that a worker here has, of this test's own process.
fn own_mark() -> ProcessMark {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    let namespace = std::fs::read_link("/proc/self/ns/pid").expect("a pid namespace");
    let pid = i32::try_from(std::process::id()).expect("a pid");
    ProcessMark {
        boot_id: boot.trim().to_owned(),
        pid_namespace: namespace.display().to_string(),
        started_ticks: procfs::stat(pid).expect("this process").started,
    }
}

#[test]
fn r11_a_second_living_worker_of_a_name_is_refused_and_told_who_has_it() {
    let rig = Rig::on(RedisServer::start());
    let first = started(&rig, &["--name", "w"]);
    let refused = spawn(&rig, &["--name", "w"]).wait(LIMIT).expect_code(1);
    for part in ["the name w is taken", &host(), &format!("pid {}", first.pid()), "30s", "--name"] {
        assert!(refused.stderr.contains(part), "no {part} in: {}", refused.stderr);
    }
    assert_eq!(names(&rig), [(first.pid(), "w".to_owned())], "the refused one is nowhere listed");
    rig.exec("task", "true");
    rig.completes(1, LIMIT);
    // A clean stop frees it at once.
    rig.stop(first);
    assert_eq!(rig.redis.command::<i64>(&["EXISTS", "lh:name:w"]), 0);
    let began = Instant::now();
    let next = started(&rig, &["--name", "w"]);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    rig.end([next]);
}

#[test]
fn r11_of_two_that_start_at_the_same_moment_one_has_the_name() {
    let rig = Rig::on(RedisServer::start());
    let mut workers: Vec<Proc> = (0..4).map(|_| spawn(&rig, &["--name", "w"])).collect();
    eventually("all but one have ended", LIMIT, || {
        let running =
            workers.iter_mut().filter_map(|worker| worker.try_wait().is_none().then_some(())).count();
        if running == 1 { Ok(()) } else { Err(format!("{running} run")) }
    });
    let (mut living, refused): (Vec<Proc>, Vec<Proc>) =
        workers.into_iter().partition(|worker| procfs::is_running(worker.pid()));
    for worker in refused {
        let ended = worker.wait(LIMIT).expect_code(1);
        assert!(ended.stderr.contains("the name w is taken"), "{}", ended.stderr);
    }
    living[0].wait_for_output("worker started", LIMIT);
    rig.end(living);
}

#[test]
fn r11_workers_that_nobody_has_named_have_names_of_their_own_and_keep_them_over_a_crash() {
    let rig = Rig::on(RedisServer::start());
    let mut workers: Vec<Proc> = (0..3).map(|_| spawn(&rig, &[])).collect();
    for worker in &mut workers {
        worker.wait_for_output("worker started", LIMIT);
    }
    let mut all: Vec<String> = workers.iter().map(|worker| name_of(&rig, worker)).collect();
    let second = all.iter().position(|name| name.ends_with("-2")).expect("a second name");
    all.sort();
    let base = all[0].clone();
    assert_eq!(all, [base.clone(), format!("{base}-2"), format!("{base}-3")]);
    // The first is free again, but what the second left behind waits for it.
    let first = workers.iter().position(|worker| name_of(&rig, worker) == base).expect("a first name");
    let mut dies = workers.remove(second);
    let stops = workers.remove(if first > second { first - 1 } else { first });
    rig.kill(&mut dies);
    rig.stop(stops);
    let again = started(&rig, &[]);
    assert_eq!(name_of(&rig, &again), format!("{base}-2"));
    let last = started(&rig, &[]);
    assert_eq!(name_of(&rig, &last), base);
    rig.end(workers.into_iter().chain([again, last]));
}

#[test]
fn r11_a_worker_that_cannot_be_seen_from_here_is_believed_until_its_entry_lapses() {
    let gone = ProcessMark { started_ticks: own_mark().started_ticks + 1, ..own_mark() };
    for elsewhere in [
        ProcessMark { boot_id: "another-boot".to_owned(), ..gone.clone() },
        ProcessMark { pid_namespace: "pid:[1]".to_owned(), ..gone.clone() },
        // One of a build that did not say.
        ProcessMark::default(),
    ] {
        let rig = Rig::on(RedisServer::start());
        pretend(&rig, std::process::id(), elsewhere.clone());
        let refused = spawn(&rig, &["--name", "w"]).wait(LIMIT).expect_code(1);
        assert!(refused.stderr.contains("far-away"), "{elsewhere:?}: {}", refused.stderr);
        eventually("its entry lapses", LIMIT, || {
            let left: i64 = rig.redis.command(&["EXISTS", "lh:name:w"]);
            if left == 0 { Ok(()) } else { Err("there") }
        });
        let worker = started(&rig, &["--name", "w"]);
        assert_eq!(name_of(&rig, &worker), "w");
        rig.end([worker]);
    }
}

#[test]
fn r11_one_whose_pid_is_anothers_now_is_dead_and_one_that_lives_is_not() {
    let rig = Rig::on(RedisServer::start());
    // This test's process has the pid and lives on, but is another than the one that the entry tells of.
    let reused = ProcessMark { started_ticks: own_mark().started_ticks + 1, ..own_mark() };
    pretend(&rig, std::process::id(), reused);
    let worker = started(&rig, &["--name", "w"]);
    assert!(worker.stderr().contains("the worker of this name before is dead"), "{}", worker.stderr());
    rig.stop(worker);
    pretend(&rig, std::process::id(), own_mark());
    let refused = spawn(&rig, &["--name", "w"]).wait(LIMIT).expect_code(1);
    assert!(refused.stderr.contains(&format!("pid {}", std::process::id())), "{}", refused.stderr);
    rig.end([]);
}

/// Its name key is gone, but its entry is there: it lives, and has its name again with its next sign of life.
#[test]
fn r11_a_name_whose_key_was_lost_is_not_taken_from_a_living_worker() {
    let rig = Rig::on(RedisServer::start());
    let first = started(&rig, &["--name", "w"]);
    rig.redis.command::<()>(&["DEL", "lh:name:w"]);
    let refused = spawn(&rig, &["--name", "w"]).wait(LIMIT).expect_code(1);
    assert!(refused.stderr.contains("the name w is taken"), "{}", refused.stderr);
    let incarnation = rig.block(rig.store().workers()).expect("the registry").remove(0).incarnation;
    eventually("it holds its name again", LIMIT, || {
        let holder: Option<String> = rig.redis.command(&["GET", "lh:name:w"]);
        if holder.as_deref() == Some(incarnation.as_str()) { Ok(()) } else { Err(format!("{holder:?}")) }
    });
    assert!(first.is_running());
    rig.end([first]);
}
