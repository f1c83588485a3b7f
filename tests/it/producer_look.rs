//! Looking at queues, tasks and logs, and acting on many tasks.

use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use leasehold_common::store::AbortRequest;
use leasehold_producer::{AbortAnswer, DeleteAnswer, Error, LogEntry, RetryAnswer, TaskId, TaskState};

use crate::producer_kit::{Add, Kit, LIMIT, id, queue};

const TASK: Add = Add { a: 1, b: 2 };

async fn text_of(entries: Vec<LogEntry>) -> String {
    entries.into_iter().map(|entry| String::from_utf8(entry.text).unwrap()).collect()
}

#[tokio::test]
async fn the_status_counts_every_state_and_says_what_is_missing() {
    let kit = Kit::new().await;
    assert_eq!(kit.producer.queue_status(&queue("default")).await.unwrap(), None);
    let mut worker = kit.worker(&queue("default"));
    let first = kit.producer.enqueue(TASK).await.unwrap();
    for _ in 0..3 {
        kit.producer.enqueue(TASK).await.unwrap();
    }
    kit.producer.enqueue(TASK).delay(Duration::from_secs(60)).await.unwrap();
    let claimed = worker.claim(3).await;
    worker.complete(&claimed[1], &3u64).await;
    first.abort("stop").await.unwrap();
    let status = kit.producer.queue_status(&queue("default")).await.unwrap().unwrap();
    for (state, count) in [
        (TaskState::Scheduled, 1),
        (TaskState::Queued, 1),
        (TaskState::Running, 1),
        (TaskState::Aborting, 1),
        (TaskState::Completed, 1),
        (TaskState::Failed, 0),
    ] {
        assert_eq!(status.count(state), count, "{state}");
    }
    assert_eq!((status.live(), status.slots(), status.lease), (4, 0, Duration::from_secs(15)));
    assert!(status.oldest_queued.unwrap() < LIMIT && status.last_sweep.unwrap() < LIMIT);
    assert_eq!(status.warnings.len(), 1, "{:?}", status.warnings);
    assert!(status.warnings[0].contains("no living worker for queue default, which has 4 tasks"));
    kit.end().await;
}

#[tokio::test]
async fn r92_many_tasks_are_aborted_retried_and_deleted_each_on_its_own() {
    let kit = Kit::new().await;
    let queue = queue("default");
    let mut ids: Vec<TaskId> = (0..100).map(|n| id(&format!("t{n}"))).collect();
    let tasks = ids.iter().map(|id| kit.producer.enqueue(TASK).id(id.clone()));
    for answer in kit.producer.enqueue_all(tasks).await {
        answer.unwrap();
    }
    ids.insert(50, id("nobody"));
    let requests: Vec<_> = ids.iter().map(|id| AbortRequest::new(id.clone(), "ann", "all of it")).collect();
    let answers = kit.producer.abort_many(&queue, &requests).await.unwrap();
    for (n, answer) in answers.iter().enumerate() {
        let expected = if n == 50 { AbortAnswer::NotFound } else { AbortAnswer::Ended(TaskState::Aborted) };
        assert_eq!(*answer, expected, "{n}");
    }
    let answers = kit.producer.retry_many(&queue, &ids).await.unwrap();
    assert_eq!(answers[50], RetryAnswer::NotFound);
    assert_eq!(answers.iter().filter(|a| **a == RetryAnswer::Retried(TaskState::Queued)).count(), 100);
    let answers = kit.producer.delete_many(&queue, &ids).await.unwrap();
    assert_eq!(answers.iter().filter(|a| **a == DeleteAnswer::Live(TaskState::Queued)).count(), 100);
    let requests: Vec<_> = ids.iter().map(|id| AbortRequest::new(id.clone(), "ann", "again")).collect();
    kit.producer.abort_many(&queue, &requests).await.unwrap();
    let answers = kit.producer.delete_many(&queue, &ids).await.unwrap();
    assert_eq!(answers.iter().filter(|a| **a == DeleteAnswer::Deleted).count(), 100);
    let status = kit.producer.queue_status(&queue).await.unwrap().unwrap();
    assert!(status.counts.values().all(|n| *n == 0), "{:?}", status.counts);
    kit.end().await;
}

#[tokio::test]
async fn lists_go_on_by_cursor_and_tasks_are_found_by_id() {
    let kit = Kit::new().await;
    let tasks = (0..25).map(|n| kit.producer.enqueue(TASK).id(format!("t{n:02}")));
    kit.producer.enqueue_all(tasks).await;
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page =
            kit.producer.list(&queue("default"), TaskState::Queued, cursor.as_ref(), 10).await.unwrap();
        let bodies = kit.producer.bodies(&queue("default"), &page.tasks).await.unwrap();
        assert!(bodies.iter().all(|body| body.as_ref().unwrap().name.as_str() == "add"));
        seen.extend(page.tasks.into_iter().map(|task| task.id.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, (0..25).map(|n| format!("t{n:02}")).collect::<Vec<_>>());
    kit.producer.enqueue(TASK).id("t00").queue("other").await.unwrap();
    let found = kit.producer.find(&id("t00")).await.unwrap();
    let queues: Vec<_> = found.iter().map(|(queue, _)| queue.as_str()).collect();
    assert_eq!(queues, ["default", "other"]);
    assert!(kit.producer.find(&id("nobody")).await.unwrap().is_empty());
    kit.end().await;
}

#[tokio::test]
async fn a_log_is_followed_to_its_last_piece() {
    let kit = Kit::new().await;
    let handle = kit.producer.enqueue(TASK).await.unwrap();
    let follow = || kit.producer.follow_log(handle.queue().clone(), handle.id().clone(), None);
    let mut worker = kit.worker(handle.queue());
    let mut following = pin!(follow());
    let task = worker.claim_one().await;
    worker.log(&task, 0, "one\n").await;
    let first = following.next().await.unwrap().unwrap();
    assert_eq!((first.text.as_slice(), first.attempt, first.offset), (&b"one\n"[..], 1, 0));
    let rest = tokio::spawn({
        let (producer, task) = (kit.producer.clone(), handle.clone());
        async move {
            let stream = producer.follow_log(task.queue().clone(), task.id().clone(), Some(first.position));
            stream.try_collect::<Vec<_>>().await
        }
    });
    worker.log(&task, 4, "two\n").await;
    worker.log(&task, 8, "three\n").await;
    worker.complete(&task, &3u64).await;
    let rest = tokio::time::timeout(LIMIT, rest).await.expect("it ends with the task").unwrap().unwrap();
    assert_eq!(text_of(rest).await, "two\nthree\n");
    let all: Vec<LogEntry> = follow().try_collect().await.unwrap();
    assert_eq!(text_of(all).await, "one\ntwo\nthree\n");
    let nobody = kit.producer.follow_log(queue("default"), id("nobody"), None);
    let seen: Vec<_> = nobody.collect().await;
    assert!(matches!(seen[..], [Err(Error::NotFound { .. })]), "{seen:?}");
    kit.end().await;
}

#[tokio::test]
async fn a_long_log_is_read_in_pieces_and_in_order() {
    let kit = Kit::new().await;
    let handle = kit.producer.enqueue(TASK).await.unwrap();
    let mut worker = kit.worker(handle.queue());
    let task = worker.claim_one().await;
    let mut offset = 0;
    let mut written = String::new();
    for n in 0..300 {
        let line = format!("line {n}\n");
        worker.log(&task, offset, &line).await;
        offset += line.len() as u64;
        written += &line;
    }
    worker.complete(&task, &3u64).await;
    let stream = kit.producer.follow_log(handle.queue().clone(), handle.id().clone(), None);
    let read: Vec<LogEntry> = stream.try_collect().await.unwrap();
    assert_eq!(text_of(read).await, written);
    let page = kit.producer.log(handle.queue(), handle.id(), None, 7).await.unwrap();
    assert_eq!(page.len(), 7);
    kit.end().await;
}
