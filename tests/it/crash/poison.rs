//! Tasks that kill their worker each time.

use leasehold_common::policy::Policy;
use leasehold_common::record::FailureKind;
use leasehold_common::state::TaskState;
use leasehold_tests::{Effects, Proc, eventually};
use std::time::Duration;

use super::kit::{LIMIT, Rig, ids};

/// Kills the worker: it is the command's parent.
const POISON: &str =
    r#"echo "$LEASEHOLD_TASK_ID $LEASEHOLD_ATTEMPT start $(date +%s%N)" >>"$EFF"; kill -9 $PPID; sleep 600"#;

/// Starts a worker again whenever it dies.
struct Supervisor<'a> {
    rig: &'a Rig,
    worker: Proc,
    slots: usize,
    deaths: u64,
}

impl<'a> Supervisor<'a> {
    fn start(rig: &'a Rig, slots: usize) -> Self {
        Self { rig, worker: rig.worker("supervised", slots), slots, deaths: 0 }
    }

    fn look(&mut self) {
        if self.worker.try_wait().is_some() {
            self.deaths += 1;
            self.worker = self.rig.worker("supervised", self.slots);
        }
    }

    /// Supervises until nothing of the queue is left to do.
    #[track_caller]
    fn until_idle(&mut self, within: Duration) {
        eventually("all tasks have ended", within, || {
            self.look();
            let facts = self.rig.facts();
            let live = facts.queued() + facts.number("running") + facts.number("scheduled");
            if live == 0 { Ok(()) } else { Err(format!("{live} live, {} deaths", self.deaths)) }
        });
    }
}

#[track_caller]
fn assert_failed_by_worker_loss(rig: &Rig, id: &str, times: u64) {
    let record = rig.record(id);
    assert_eq!((record.state, record.failure_kind), (TaskState::Failed, Some(FailureKind::LeaseExpired)));
    assert_eq!((record.attempt, record.reclaims, record.failures), (times, times, 0));
    let (shown, most) = record.attempts_shown();
    assert!(shown <= most, "{shown}/{most}");
    let shown = rig.cli(&["task", "show", id, "--queue", "q"]).success().stdout;
    assert!(shown.contains(&format!("lost its worker {times} times")), "{shown}");
    assert_eq!(rig.effects.of(id).len() as u64, times, "{:?}", rig.effects.of(id));
}

#[test]
fn r14_a_task_that_kills_its_worker_each_time_fails_and_says_so() {
    let rig = Rig::start();
    let reaper = rig.reaper();
    let mut supervisor = Supervisor::start(&rig, 1);
    rig.exec_with("poison", POISON, Policy { max_reclaims: 1, ..Rig::policy() });
    supervisor.until_idle(LIMIT);
    assert_failed_by_worker_loss(&rig, "poison", 2);
    assert_eq!(supervisor.deaths, 2);
    let worker = supervisor.worker;
    rig.end([worker, reaper]);
}

#[test]
fn case_12_a_poison_pill_ends_and_the_good_tasks_beside_it_finish() {
    let rig = Rig::start();
    let reaper = rig.reaper();
    let mut supervisor = Supervisor::start(&rig, 4);
    let good = ids("good", 50);
    rig.exec_all(&good[..2], &Effects::body(Duration::from_millis(100)), Rig::policy());
    rig.exec("poison", POISON);
    rig.exec_all(&good[2..], &Effects::body(Duration::from_millis(100)), Rig::policy());
    supervisor.until_idle(LIMIT);
    assert_failed_by_worker_loss(&rig, "poison", 4);
    for id in &good {
        let record = rig.record(id);
        assert_eq!(record.state, TaskState::Completed, "{record:?}");
    }
    assert_eq!(supervisor.deaths, 4);
    rig.effects.assert_no_overlap();
    let worker = supervisor.worker;
    rig.end([worker, reaper]);
}
