//! Lanes, through workers: one at a time, in order, and nothing wedges one.

use std::time::Duration;

use leasehold_producer::{Lane, Policy, RawOutput, TaskHandle, TaskState};
use leasehold_tests::eventually_async;

use super::play::{Step, player, task, task_with};
use crate::aborts::kit::{Kit, LIMIT, RECLAIM, quick};

fn lane() -> Lane {
    Lane::new("session ö/7").unwrap()
}

/// Every interval in which a task of the lane ran, in the order of their begins.
async fn intervals(kit: &Kit, handles: &[TaskHandle<RawOutput>]) -> Vec<(u64, u64, String)> {
    let mut all = Vec::new();
    for handle in handles {
        let record = kit.record(handle.id()).await;
        all.push((record.started_ms.unwrap(), record.ended_ms.unwrap(), record.id.to_string()));
    }
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn r80_tasks_of_a_lane_run_one_at_a_time_in_order_and_other_lanes_beside_it() {
    let kit = Kit::new().await;
    let hands = player(&kit, 8).await;
    let mut handles = Vec::new();
    for n in 0..12 {
        handles.push(task(&kit, &format!("t{n:02}"), [Step::Work(40)]).lane(lane()).await.unwrap());
    }
    let other = task(&kit, "other", [Step::Work(1)]).lane("another").await.unwrap();
    kit.reaches(other.id(), TaskState::Completed).await;
    assert_ne!(
        kit.record(handles[11].id()).await.state,
        TaskState::Completed,
        "it did not wait for this lane"
    );
    for handle in &handles {
        kit.reaches(handle.id(), TaskState::Completed).await;
    }
    let ran = intervals(&kit, &handles).await;
    assert!(ran.windows(2).all(|pair| pair[0].1 <= pair[1].0), "they overlap: {ran:?}");
    let order: Vec<_> = ran.iter().map(|(_, _, id)| id.clone()).collect();
    assert!(order.is_sorted(), "{order:?}");
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r80_a_task_that_is_retried_keeps_its_turn() {
    let kit = Kit::new().await;
    let hands = player(&kit, 4).await;
    let first = task(&kit, "first", [Step::FailFirst, Step::Work(20)]).lane(lane()).await.unwrap();
    let second = task(&kit, "second", [Step::Work(1)]).lane(lane()).await.unwrap();
    kit.reaches(second.id(), TaskState::Completed).await;
    let first = kit.record(first.id()).await;
    let second = kit.record(second.id()).await;
    assert_eq!((first.state, first.attempt), (TaskState::Completed, 2));
    assert!(first.ended_ms <= second.started_ms);
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r80_the_limit_of_a_lane_can_be_changed() {
    let kit = Kit::new().await;
    let hands = player(&kit, 8).await;
    kit.store().set_lane_limit(&kit.queue, &lane(), 3).await.unwrap();
    let mut handles = Vec::new();
    for n in 0..6 {
        handles.push(task(&kit, &format!("t{n}"), [Step::Work(60_000)]).lane(lane()).await.unwrap());
    }
    for handle in &handles[..3] {
        kit.reaches(handle.id(), TaskState::Running).await;
    }
    assert_eq!(kit.record(handles[3].id()).await.state, TaskState::Waiting);
    kit.store().set_lane_limit(&kit.queue, &lane(), 5).await.unwrap();
    for handle in &handles[3..5] {
        kit.reaches(handle.id(), TaskState::Running).await;
    }
    assert_eq!(kit.record(handles[5].id()).await.state, TaskState::Waiting);
    for handle in &handles {
        kit.abort(handle.id()).await;
        kit.reaches(handle.id(), TaskState::Aborted).await;
    }
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r81_a_lane_moves_on_at_once_when_its_task_is_aborted() {
    let kit = Kit::new().await;
    let hands = player(&kit, 2).await;
    let quick_end = Policy { stop_grace: Duration::from_millis(200), ..quick() };
    let first = task_with(&kit, "first", quick_end, [Step::Work(60_000)]).lane(lane()).await.unwrap();
    let second = task(&kit, "second", [Step::Work(1)]).lane(lane()).await.unwrap();
    kit.reaches(first.id(), TaskState::Running).await;
    assert_eq!(kit.record(second.id()).await.state, TaskState::Waiting);
    kit.abort(first.id()).await;
    kit.reaches_within(second.id(), TaskState::Completed, Duration::from_secs(2)).await;
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_37_r81_a_lane_whose_worker_was_killed_moves_on_within_the_reclaim_time() {
    let kit = Kit::new().await;
    let reaper = kit.reaper();
    let mut worker = kit.worker_with("dies", 1, &["--allow-exec"]).await;
    let first = kit.exec(&["--lane", "l", "--max-reclaims", "0"], "sleep 60");
    kit.reaches(&first, TaskState::Running).await;
    let second = kit.exec(&["--lane", "l"], "true");
    assert_eq!(kit.record(&second).await.state, TaskState::Waiting);
    worker.kill();
    let other = kit.worker_with("lives", 1, &["--allow-exec"]).await;
    kit.reaches_within(&second, TaskState::Completed, RECLAIM + Duration::from_secs(6)).await;
    let first = kit.record(&first).await;
    assert_eq!(first.state, TaskState::Failed);
    let reconciled = first.reconciled.expect("r84: it says so");
    assert_eq!(reconciled.by, "sweep");
    assert!(reconciled.at_ms >= first.started_ms.unwrap());
    eventually_async("nothing of it is alive", LIMIT, async || {
        let left = kit.leftovers();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    kit.end([other, reaper]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_38_enqueues_just_as_owners_finish_leave_no_lane_stuck_and_its_order_whole() {
    let kit = Kit::new().await;
    let hands = player(&kit, 8).await;
    let lanes = ["a", "ü 値", "third lane"];
    // One producer a lane, so that the order of acceptance is known; aborts and failures come in between.
    let producing = lanes.map(|name| {
        let kit = &kit;
        async move {
            let mut handles = Vec::new();
            for n in 0..120 {
                let steps = if n % 11 == 3 { vec![Step::Fail] } else { vec![Step::Work(n % 3)] };
                let once = Policy { max_attempts: 1, ..quick() };
                let enqueue = task_with(kit, &format!("{name}-{n:03}"), once, steps).lane(name);
                handles.push(enqueue.await.unwrap());
                if n % 7 == 5 {
                    kit.abort(handles[n as usize / 2].id()).await;
                }
            }
            handles
        }
    });
    for handles in futures::future::join_all(producing).await {
        for handle in &handles {
            eventually_async("it has ended", LIMIT, async || {
                let state = kit.record(handle.id()).await.state;
                if state.is_terminal() { Ok(()) } else { Err(state.to_string()) }
            })
            .await;
        }
        let mut ran = Vec::new();
        for handle in &handles {
            let record = kit.record(handle.id()).await;
            ran.extend(
                record.started_ms.map(|begun| (begun, record.ended_ms.unwrap(), record.id.to_string())),
            );
        }
        assert!(ran.len() > 80, "most ran: {}", ran.len());
        let order: Vec<_> = ran.iter().map(|(begun, ..)| *begun).collect();
        assert!(order.is_sorted(), "in the order of their acceptance: {ran:?}");
        assert!(ran.windows(2).all(|pair| pair[0].1 <= pair[1].0), "one at a time: {ran:?}");
    }
    for bad in [String::new(), "x".repeat(1024), "a\nb".to_owned()] {
        let refused = task(&kit, "bad", []).lane(bad).await.unwrap_err();
        assert!(refused.to_string().starts_with("invalid lane: "), "{refused}");
    }
    hands.stop().await;
    kit.end([]).await;
}
