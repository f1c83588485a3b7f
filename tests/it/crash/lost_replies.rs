//! Replies that get lost, requests that never arrive, replies that come after the lease: one effect each.

use std::time::Duration;

use leasehold_common::policy::Policy;
use leasehold_common::script::{self, ScriptSpec};
use leasehold_common::state::TaskState;
use leasehold_tests::scale::loops;
use leasehold_tests::{Effects, Fault, Leasehold, Matcher, Proxy, eventually};

use super::kit::{Rig, ids, patience};
use super::watch::Watch;

const FAULTS: [Fault; 3] = [Fault::DropReply, Fault::DropRequest, Fault::HoldReply(Duration::from_secs(3))];

/// Runs tasks, half of which fail, behind a proxy that strikes every third call of a script, in each way.
fn one_effect_each(script: &ScriptSpec, slots: usize, busy: Duration) {
    let rig = Rig::start();
    let watch = Watch::start(rig.effects.env());
    let proxy = Proxy::before(&rig.redis);
    let reaper = rig.reaper();
    let worker = rig.worker_with(&proxy, "worker", slots, &[]);
    let count = loops(100);
    let policy = Policy { max_attempts: 1, ..Rig::policy() };
    let mut all = Vec::new();
    for (round, fault) in FAULTS.into_iter().enumerate() {
        let armed = proxy.fault_every(Matcher::script(script.sha()), 3, fault);
        let (good, bad) = (ids(&format!("good-{round}"), count), ids(&format!("bad-{round}"), count));
        let work = |end| format!("echo working; sleep {}; {end}", busy.as_secs_f64());
        rig.exec_all(&good, &Effects::body_around(&work("true")), policy);
        rig.exec_all(&bad, &Effects::body_around(&work("false")), policy);
        all.extend(good.iter().chain(&bad).cloned());
        eventually(&format!("all have ended in spite of {fault:?}"), patience(), || {
            let facts = rig.facts();
            if facts.ended() == all.len() as i64 { Ok(()) } else { Err(format!("{facts:?}")) }
        });
        assert!(armed.times() > 0, "{fault:?} has not struck");
        proxy.heal();
        for (id, state) in good
            .iter()
            .map(|id| (id, TaskState::Completed))
            .chain(bad.iter().map(|id| (id, TaskState::Failed)))
        {
            let record = rig.record(id);
            assert_eq!(
                (record.state, record.failures),
                (state, u64::from(state == TaskState::Failed)),
                "{fault:?}: {record:?}"
            );
            assert_eq!(rig.log(id), "working\n", "{fault:?}: {id}");
        }
    }
    rig.effects.assert_each_ran_once(&all);
    let facts = rig.facts();
    let totals = ["enqueued", "completed", "failed"].map(|name| facts.total(name));
    assert_eq!(totals, [all.len() as i64, all.len() as i64 / 2, all.len() as i64 / 2]);
    watch.end();
    rig.end([worker, reaper]);
}

#[test]
fn case_10_claims_whose_calls_or_replies_are_lost_start_each_task_once() {
    one_effect_each(&script::CLAIM, 4, Duration::from_millis(50));
}

#[test]
fn case_10_heartbeats_whose_calls_or_replies_are_lost_cost_nothing() {
    one_effect_each(&script::HEARTBEAT, 20, Duration::from_secs(4));
}

#[test]
fn case_10_finishes_whose_calls_or_replies_are_lost_end_each_task_once() {
    one_effect_each(&script::FINISH, 4, Duration::from_millis(50));
}

#[test]
fn case_10_output_whose_calls_or_replies_are_lost_is_kept_once() {
    one_effect_each(&script::UPDATE, 4, Duration::from_millis(50));
}

#[test]
fn case_10_an_enqueue_whose_reply_is_lost_makes_one_task_and_tells_its_id() {
    let rig = Rig::start();
    let proxy = Proxy::before(&rig.redis);
    let worker = rig.worker("worker", 4);
    let reaper = rig.reaper();
    let exec = |more: &[&str]| {
        let mut words = vec!["exec".to_owned(), "q".to_owned()];
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words.extend(rig.effects.exec_args(Duration::ZERO));
        Leasehold::new(&proxy).args(words).run().success().line()
    };
    let rounds = loops(100);
    let mut all = Vec::new();
    for round in 0..rounds {
        for fault in [Fault::DropReply, Fault::DropRequest] {
            let armed = proxy.fault(Matcher::script(script::ENQUEUE.sha()), 1, fault);
            all.push(exec(&[]));
            assert_eq!(armed.times(), 1, "{fault:?} struck");
        }
        let id = format!("own-{round}");
        let armed = proxy.fault(Matcher::script(script::ENQUEUE.sha()), 1, Fault::DropReply);
        assert_eq!((exec(&["--id", &id]), armed.times()), (id.clone(), 1));
        assert_eq!(exec(&["--id", &id]), id, "the same again is the same task");
        all.push(id);
    }
    rig.completes(all.len(), patience());
    assert_eq!(rig.total("enqueued"), all.len() as i64);
    rig.effects.assert_each_ran_once(&all);
    rig.end([worker, reaper]);
}
