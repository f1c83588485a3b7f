//! Aborts of runs whose worker is gone: the record is closed in bounded time, and nobody starts the task again.

use std::time::{Duration, Instant};

use leasehold_producer::{AbortAnswer, TaskState};
use leasehold_tests::{Effects, eventually, let_time_pass_async, stays};

use super::kit::{Kit, LIMIT, RECLAIM};

#[tokio::test(flavor = "multi_thread")]
async fn r06_an_abort_of_a_dead_run_is_closed_by_the_reaper_and_never_started_again() {
    let kit = Kit::new().await;
    let reaper = kit.reaper();
    let mut dies = kit.worker_with("dies", 1, &["--allow-exec"]).await;
    let effects = Effects::new();
    // A grace far longer than the proof of its death: not the grace decides.
    let id = kit.exec(&["--env", &effects.env(), "--abort-grace", "10m"], &Effects::body_around("sleep 600"));
    eventually("it runs", LIMIT, || if effects.starts() == 1 { Ok(()) } else { Err("not yet") });
    let other = kit.worker_with("other", 1, &["--allow-exec"]).await;
    dies.kill();
    let asked = Instant::now();
    assert!(matches!(kit.abort(&id).await, AbortAnswer::Requested { .. }));
    assert_eq!(kit.record(&id).await.state, TaskState::Aborting);
    kit.reaches_within(&id, TaskState::Aborted, RECLAIM).await;
    eprintln!("closed {:?} after the abort", asked.elapsed());
    kit.assert_no_leftovers();
    stays("it is not started again", Duration::from_secs(2), || {
        if effects.starts() == 1 { Ok(()) } else { Err(effects.starts()) }
    });
    assert_eq!(kit.record(&id).await.attempt, 1);
    kit.end([other, reaper]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r06_an_abort_while_no_reaper_sweeps_is_closed_once_one_comes() {
    let kit = Kit::new().await;
    let mut dies = kit.worker_with("dies", 1, &["--allow-exec"]).await;
    let id = kit.exec(&["--abort-grace", "10m"], "sleep 600");
    kit.reaches(&id, TaskState::Running).await;
    dies.kill();
    let_time_pass_async("its lease is over, and nobody looks", Duration::from_secs(3)).await;
    let answer = kit.abort(&id).await;
    assert!(matches!(answer, AbortAnswer::Requested { .. }), "a missing lease alone is no proof: {answer:?}");
    assert_eq!(kit.record(&id).await.state, TaskState::Aborting);
    let reaper = kit.reaper();
    // Nobody had swept for a while: that is a gap, after which another lease must pass.
    kit.reaches_within(&id, TaskState::Aborted, RECLAIM + Duration::from_secs(3)).await;
    assert_eq!(kit.record(&id).await.attempt, 1);
    kit.end([reaper]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_an_abort_reaches_a_frozen_worker_in_time_and_nothing_of_the_run_is_left() {
    let kit = Kit::new().await;
    let reaper = kit.reaper();
    let frozen = kit.worker_with("frozen", 1, &["--allow-exec"]).await;
    let id = kit.exec(&["--abort-grace", "1s"], "sleep 600 & wait");
    kit.reaches(&id, TaskState::Running).await;
    eventually("it runs", LIMIT, || {
        if kit.leftovers().len() == 2 { Ok(()) } else { Err(kit.leftovers().len()) }
    });
    frozen.stop();
    assert!(matches!(kit.abort(&id).await, AbortAnswer::Requested { .. }));
    kit.reaches_within(&id, TaskState::Aborted, RECLAIM + Duration::from_secs(2)).await;
    // A frozen process does not run, and is killed before it could go on.
    let moving =
        |pid: &i32| leasehold_tests::procfs::state(*pid).is_some_and(|state| !"TtZX".contains(state));
    let going: Vec<i32> = kit.leftovers().into_iter().filter(moving).collect();
    assert!(going.is_empty(), "{}", leasehold_tests::procfs::describe(&going));
    frozen.cont();
    eventually("its command is gone", LIMIT, || {
        if kit.leftovers().is_empty() {
            Ok(())
        } else {
            Err(leasehold_tests::procfs::describe(&kit.leftovers()))
        }
    });
    assert_eq!(kit.record(&id).await.state, TaskState::Aborted);
    kit.end([frozen, reaper]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_r06_a_worker_killed_inside_the_grace_leaves_nothing_and_its_abort_is_closed() {
    let kit = Kit::new().await;
    let reaper = kit.reaper();
    let mut dies = kit.worker_with("dies", 1, &["--allow-exec"]).await;
    let id = kit.exec(&["--abort-grace", "10m"], r#"trap "" TERM; echo up; sleep 600 & wait; sleep 600"#);
    kit.logs(&id, "up").await;
    let other = kit.worker_with("other", 1, &["--allow-exec"]).await;
    assert!(matches!(kit.abort(&id).await, AbortAnswer::Requested { .. }));
    let_time_pass_async("TERM has come", Duration::from_millis(300)).await;
    assert!(!kit.leftovers().is_empty(), "it ignores TERM");
    dies.kill();
    eventually("its guard has killed the command", Duration::from_secs(2), || {
        let left = kit.leftovers();
        if left.is_empty() { Ok(()) } else { Err(leasehold_tests::procfs::describe(&left)) }
    });
    assert_eq!(kit.record(&id).await.state, TaskState::Aborting, "nobody has proved it dead yet");
    kit.reaches_within(&id, TaskState::Aborted, RECLAIM).await;
    let next = kit.exec(&[], "true");
    kit.reaches(&next, TaskState::Completed).await;
    assert_eq!(kit.record(&id).await.attempt, 1);
    kit.end([other, reaper]).await;
}
