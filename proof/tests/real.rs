//! The real scripts give answers and a view in the words of the proof.

use leasehold_common::state::TaskState;
use leasehold_common::store::{Enqueued, FinishAnswer, Outcome, QueueSettings};
use leasehold_proof::real::Real;
use leasehold_proof::words::{Answer, Call, Oracle, Run, Start, World};
use leasehold_tests::queue::{START, T, in_lane, task};

#[test]
fn real_scripts_speak_the_words_of_the_proof() {
    let tasks = vec![task("t0"), in_lane("t1"), in_lane("t2")];
    let world = World { name: "test", settings: QueueSettings::default(), tasks, workers: 2 };
    let mut real = Real::start(world);
    let created = |state| Enqueued::Created(state);
    let answer = real.play(&Call::Enqueue(vec![0, 1, 2]));
    let states = [TaskState::Queued, TaskState::Queued, TaskState::Waiting].map(created);
    assert_eq!(answer, Answer::Enqueued(states.into()));

    let run = Run { task: 0, attempt: 1 };
    let answer = real.play(&Call::Claim { worker: 1, number: 1, want: 1, closing: false });
    assert_eq!(answer, Answer::Claimed(vec![Start { run, failures: 0, reclaims: 0, stop: None }]));
    let seen = real.seen();
    assert_eq!(seen.tasks[&0].owner, Some(1));
    assert_eq!(seen.tasks[&0].lease_until, Some(START + T));
    assert_eq!(seen.ready["normal"], [1]);
    assert_eq!(seen.lanes["l"], (1, vec![1, 2]));

    assert_eq!(real.play(&Call::Pass { ms: 1000 }), Answer::Passed);
    let finish =
        |worker| Call::Finish { worker, run, outcome: Outcome::Completed(Vec::new()), before_stop: true };
    assert_eq!(real.play(&finish(0)), Answer::Finished(FinishAnswer::Lost));
    assert_eq!(real.play(&finish(1)), Answer::Finished(FinishAnswer::Accepted(TaskState::Completed)));
    assert_eq!(real.seen().tasks[&0].ended, Some(START + 1000));
    real.check();

    real.reset();
    assert_eq!(real.seen(), Default::default());
    assert_eq!(real.now(), START);
}
