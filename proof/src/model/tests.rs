//! The model by itself: short stories of the protocol, each as a person would tell it.

use std::time::Duration;

use leasehold_common::bounds::Deadline;
use leasehold_common::policy::{Backoff, OnLeaseExpired};
use leasehold_common::record::{FailureDetail, FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    AbortAnswer, BeatAnswer, FinishAnswer, NewTask, Outcome, QueueSettings, RetryAdvice, RetryMode,
};
use leasehold_tests::queue::{B, T, in_lane, task_with};

use super::{Model, START};
use crate::words::{Answer, Call, Oracle, Run, SeenTask, TaskNo, WorkerNo, World};

/// A model in which workers number their claims.
struct Story {
    model: Model,
    claims: u64,
}

fn task(no: TaskNo, change: impl FnOnce(&mut NewTask)) -> NewTask {
    task_with(&format!("t{no}"), |task| {
        task.body.policy.backoff = Backoff { base: Duration::ZERO, ..Backoff::default() };
        change(task);
    })
}

fn story(tasks: Vec<NewTask>) -> Story {
    let world = World { name: "story", settings: QueueSettings::default(), tasks, workers: 3 };
    let mut story = Story { model: Model::new(&world), claims: 0 };
    story.model.play(&Call::Enqueue((0..world.tasks.len()).collect()));
    story
}

impl Story {
    fn claim(&mut self, worker: WorkerNo, want: usize) -> Vec<Run> {
        self.claims += 1;
        let call = Call::Claim { worker, number: self.claims, want, closing: false };
        match self.model.play(&call) {
            Answer::Claimed(starts) => starts.iter().map(|start| start.run).collect(),
            other => panic!("the claim was answered {other:?}"),
        }
    }

    fn finish(&mut self, worker: WorkerNo, run: Run, outcome: Outcome) -> FinishAnswer {
        match self.model.play(&Call::Finish { worker, run, outcome, before_stop: false }) {
            Answer::Finished(answer) => answer,
            other => panic!("the finish was answered {other:?}"),
        }
    }

    fn beat(&mut self, worker: WorkerNo, run: Run) -> BeatAnswer {
        match self.model.play(&Call::Beat { worker, runs: vec![run], stopping: false }) {
            Answer::Beats(mut answers) => answers.remove(0),
            other => panic!("the beat was answered {other:?}"),
        }
    }

    fn abort(&mut self, task: TaskNo, request: u32, grace: Option<u64>) -> AbortAnswer {
        match self.model.play(&Call::Abort { task, request, grace, abandon: false }) {
            Answer::Aborted(answer) => answer,
            other => panic!("the abort was answered {other:?}"),
        }
    }

    fn pass(&mut self, ms: u64) {
        self.model.play(&Call::Pass { ms });
    }

    /// Time passes with a sweep each second.
    fn sweep_for(&mut self, ms: u64) {
        for _ in 0..ms / 1000 {
            self.pass(1000);
            self.model.play(&Call::Sweep);
        }
    }

    fn seen(&self, task: TaskNo) -> SeenTask {
        self.model.seen().tasks[&task].clone()
    }

    fn states(&self) -> String {
        let seen = self.model.seen();
        seen.tasks.values().map(|task| task.state.to_string()).collect::<Vec<_>>().join(" ")
    }
}

fn done() -> Outcome {
    Outcome::Completed(Vec::new())
}

fn failed(retry: RetryAdvice) -> Outcome {
    let (kind, detail) = (FailureKind::Error, FailureDetail::default());
    Outcome::Failed { kind, message: String::new(), retry, detail }
}

#[test]
fn a_task_runs_once_and_its_end_is_answered_as_often_as_it_is_asked() {
    let mut story = story(vec![task(0, |_| {})]);
    let run = story.claim(0, 1)[0];
    assert_eq!(story.beat(0, run), BeatAnswer::Ok);
    assert_eq!(story.finish(0, run, done()), FinishAnswer::Accepted(TaskState::Completed));
    assert_eq!(story.finish(0, run, done()), FinishAnswer::Repeated(TaskState::Completed));
    assert_eq!(story.finish(1, run, done()), FinishAnswer::Lost, "another incarnation");
    assert_eq!(story.beat(0, run), BeatAnswer::Ended(TaskState::Completed));
}

#[test]
fn a_dead_worker_loses_its_run_after_two_looks_and_is_told_so() {
    let mut story = story(vec![task(0, |_| {})]);
    let run = story.claim(0, 1)[0];
    story.sweep_for(T);
    assert!(story.seen(0).suspected, "the first look that misses the lease");
    story.sweep_for(B - 1000);
    assert_eq!(story.seen(0).state, TaskState::Running);
    story.sweep_for(1000);
    let seen = story.seen(0);
    assert_eq!((seen.state, seen.reclaims, seen.failures), (TaskState::Queued, 1, 0));
    assert_eq!(story.model.seen().ready["again"], [0], "in front");
    assert_eq!(story.finish(0, run, done()), FinishAnswer::Lost);
}

#[test]
fn a_gap_makes_the_second_look_wait_for_a_whole_lease() {
    let mut story = story(vec![task(0, |_| {})]);
    let run = story.claim(0, 1)[0];
    story.pass(10 * T);
    story.model.play(&Call::Sweep);
    assert!(story.seen(0).suspected);
    story.sweep_for(T - 1000);
    assert_eq!(story.beat(0, run), BeatAnswer::Ok, "it takes its lease up again");
    assert!(!story.seen(0).suspected);
}

#[test]
fn a_result_counts_after_an_abort_that_the_work_had_not_heard_of() {
    let mut story = story(vec![task(0, |_| {}), task(1, |_| {})]);
    let runs = story.claim(0, 2);
    for run in &runs {
        assert!(matches!(story.abort(run.task, 1, Some(1000)), AbortAnswer::Requested { .. }));
    }
    assert_eq!(story.states(), "aborting aborting");
    assert_eq!(story.finish(0, runs[0], done()), FinishAnswer::Accepted(TaskState::Completed));
    let stopped = failed(RetryAdvice::Policy);
    assert_eq!(story.finish(0, runs[1], stopped), FinishAnswer::Accepted(TaskState::Aborted));
    assert_eq!(story.abort(1, 1, None), AbortAnswer::Ended(TaskState::Aborted), "the same request");
    assert_eq!(story.abort(0, 1, None), AbortAnswer::Already(TaskState::Completed));
}

#[test]
fn an_abort_outranks_an_earlier_bound_and_does_not_extend_its_hard_end() {
    let mut story = story(vec![task(0, |task| {
        task.body.policy.run_timeout = Some(Duration::from_secs(2));
        task.body.policy.stop_grace = Duration::from_secs(3);
    })]);
    let run = story.claim(0, 1)[0];
    story.pass(2000);
    let hard_end_ms = START + 2000 + 3000 + T + B;
    let (cause, by) = (StopCause::RunTimeout, "leasehold".to_owned());
    assert_eq!(story.beat(0, run), BeatAnswer::Stop { cause, hard_end_ms, by });
    let kill_at_ms = START + 5000;
    assert_eq!(story.abort(0, 1, Some(60_000)), AbortAnswer::Requested { kill_at_ms, hard_end_ms });
    assert_eq!(story.seen(0).stop, Some((StopCause::Abort, START + 2000, hard_end_ms)));
}

#[test]
fn a_lane_lets_its_tasks_go_in_order_and_holds_nobody_back_twice() {
    let mut story = story((0..3).map(|no| in_lane(&format!("t{no}"))).collect());
    assert_eq!(story.states(), "queued waiting waiting");
    story.model.play(&Call::Limit { task: 0, limit: 2 });
    assert_eq!(story.states(), "queued queued waiting");
    story.model.play(&Call::Limit { task: 0, limit: 1 });
    let runs = story.claim(0, 3);
    assert_eq!(runs.len(), 2, "who was let go stays so");
    let snoozed = Outcome::Snoozed(Duration::from_secs(1));
    assert_eq!(story.finish(0, runs[0], snoozed), FinishAnswer::Accepted(TaskState::Scheduled));
    assert_eq!(story.finish(0, runs[1], done()), FinishAnswer::Accepted(TaskState::Completed));
    assert_eq!(story.states(), "scheduled completed waiting", "a snoozed task keeps its place");
    story.pass(1000);
    let run = story.claim(0, 1)[0];
    assert_eq!(story.finish(0, run, done()), FinishAnswer::Accepted(TaskState::Completed));
    assert_eq!(story.states(), "completed completed queued");
}

#[test]
fn failures_and_reclaims_are_two_budgets() {
    let mut story = story(vec![task(0, |task| {
        task.body.policy.max_attempts = 2;
        task.body.policy.max_reclaims = 1;
    })]);
    let run = story.claim(0, 1)[0];
    assert_eq!(story.finish(0, run, failed(RetryAdvice::Policy)), FinishAnswer::Accepted(TaskState::Queued));
    story.claim(0, 1);
    assert_eq!(story.model.play(&Call::DeclareDead { worker: 0 }), Answer::Declared(1));
    let run = story.claim(1, 1)[0];
    let seen = story.seen(0);
    assert_eq!((seen.attempt, seen.failures, seen.reclaims), (3, 1, 1));
    assert_eq!(story.finish(1, run, failed(RetryAdvice::Policy)), FinishAnswer::Accepted(TaskState::Failed));
}

#[test]
fn what_must_not_run_twice_never_does() {
    let once = |no| task(no, |task| task.body.policy.on_lease_expired = OnLeaseExpired::Fail);
    let mut story = story(vec![once(0), once(1)]);
    let runs = story.claim(0, 2);
    assert_eq!(story.finish(0, runs[0], Outcome::Released), FinishAnswer::Accepted(TaskState::Aborted));
    story.model.play(&Call::DeclareDead { worker: 0 });
    assert_eq!(story.states(), "aborted failed");
    let closed = Call::Claim { worker: 0, number: 9, want: 1, closing: false };
    assert_eq!(story.model.play(&closed), Answer::Dead);
}

#[test]
fn a_retry_begins_the_bounds_anew_and_goes_on_with_the_attempt() {
    let mut story = story(vec![task(0, |task| {
        task.body.bounds.deadline = Some(Deadline::After(Duration::from_secs(10)));
    })]);
    story.claim(0, 1);
    story.pass(10_000);
    story.model.play(&Call::Sweep);
    assert_eq!(story.seen(0).stop.map(|stop| stop.0), Some(StopCause::Deadline));
    story.model.play(&Call::DeclareDead { worker: 0 });
    let seen = story.seen(0);
    assert_eq!((seen.state, seen.failure), (TaskState::TimedOut, Some(FailureKind::Deadline)));
    let retry = Call::Retry { task: 0, rev: seen.rev, mode: RetryMode::Keep };
    let first = story.model.play(&retry);
    assert_eq!(story.model.play(&retry), first, "the same end again");
    let seen = story.seen(0);
    assert_eq!((seen.state, seen.attempt, seen.failures), (TaskState::Queued, 1, 0));
    assert_eq!(seen.deadline, Some(START + 20_000));
}
