//! Payloads, results, logs and progress at and over their limits.

use std::time::Duration;

use leasehold_producer::{FailureKind, Payload, Policy, TaskId, TaskState};
use leasehold_tests::eventually_async;
use leasehold_worker::{Context, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};

use super::handlers::{Act, Seen};
use super::kit::{Kit, LIMIT, quick};

const LIMIT_BYTES: usize = 1024 * 1024;
/// What MessagePack puts before so many bytes.
const HEADER: usize = 5;

/// Tells how long it is.
#[derive(Serialize, Deserialize)]
struct Measure(serde_bytes::ByteBuf);

impl Task for Measure {
    const NAME: &'static str = "measure";
    type Output = usize;
}

/// Says this much in one line of its log and one of its progress.
#[derive(Serialize, Deserialize)]
struct Talk(usize);

impl Task for Talk {
    const NAME: &'static str = "talk";
    type Output = String;
}

fn handlers(worker: Worker) -> Worker {
    worker.handle(|_: Context, task: Measure| async move { Ok::<_, TaskError>(task.0.len()) }).handle(
        |context: Context, task: Talk| async move {
            let line = "x".repeat(task.0);
            context.log(&line);
            let refused = context.progress(0.5, line).expect_err("over its limit");
            Ok::<_, TaskError>(refused.to_string())
        },
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn case_41_a_result_over_the_limit_fails_as_invalid_result_and_is_never_retried() {
    let kit = Kit::new().await;
    let seen = Seen::default();
    let hands = kit.hands(2, |worker| seen.handler(worker)).await;
    for bytes in [1, LIMIT_BYTES - HEADER - 1, LIMIT_BYTES - HEADER] {
        let id = kit.enqueue(&format!("fits-{bytes}"), &Act::Return(bytes), quick()).await;
        kit.reaches(&id, TaskState::Completed).await;
        let output = kit.detail(&id).await.output.unwrap();
        let back: serde_bytes::ByteBuf = rmp_serde::from_slice(&output).unwrap();
        assert!(
            back.len() == bytes && back.iter().all(|byte| *byte == 7),
            "{bytes} came back as {}",
            back.len()
        );
    }
    for bytes in [LIMIT_BYTES - HEADER + 1, LIMIT_BYTES + 1, 50_000_000] {
        let policy = Policy { max_attempts: 5, ..quick() };
        let id = kit.enqueue(&format!("over-{bytes}"), &Act::Return(bytes), policy).await;
        let record = kit.reaches(&id, TaskState::Failed).await;
        assert_eq!((record.attempt, record.failure_kind), (1, Some(FailureKind::InvalidResult)), "{bytes}");
        let shown = kit.show(&id);
        let message = shown["failure"]["message"].as_str().unwrap();
        assert!(message.contains("over the limit of 1048576"), "{message}");
        assert_eq!((&shown["failure"]["kind"], shown["output"].is_null()), (&"invalid_result".into(), true));
        assert_eq!(seen.of(id.as_str()).begun, 1);
    }
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_41_payloads_up_to_the_limit_reach_the_handler_whole_and_larger_ones_touch_nothing() {
    let kit = Kit::new().await;
    let hands = kit.hands(2, handlers).await;
    for bytes in [0, 1, LIMIT_BYTES - HEADER - 1, LIMIT_BYTES - HEADER] {
        let measure = Measure(vec![9; bytes].into());
        let id = kit.enqueue(&format!("m{bytes}"), &measure, quick()).await;
        kit.reaches(&id, TaskState::Completed).await;
        let output = kit.detail(&id).await.output.unwrap();
        assert_eq!(rmp_serde::from_slice::<usize>(&output).unwrap(), bytes);
    }
    let digest = kit.redis.digest();
    for bytes in [LIMIT_BYTES + 1, 20_000_000] {
        let task = leasehold_producer::RawTask::new(
            kit.queue.clone(),
            "measure".parse().unwrap(),
            Payload::MessagePack(vec![0xc0; bytes]),
        );
        let refused = kit.producer.enqueue_raw(task).await.unwrap_err().to_string();
        assert!(refused.contains("payload") && refused.contains("1048576"), "{refused}");
    }
    assert_eq!(kit.redis.digest(), digest);
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_41_log_lines_of_10_mb_are_cut_with_a_mark_and_progress_over_its_limit_is_refused() {
    let kit = Kit::new().await;
    let hands = kit.hands(2, handlers).await;
    let id: TaskId = kit.enqueue("talk", &Talk(10_000_000), quick()).await;
    kit.reaches(&id, TaskState::Completed).await;
    let output = kit.detail(&id).await.output.unwrap();
    let refused: String = rmp_serde::from_slice(&output).unwrap();
    assert!(refused.contains("progress message") && refused.contains("1024"), "{refused}");
    let pieces = kit.log(&id).await;
    let kept: usize = pieces.iter().map(|piece| piece.text.len()).sum();
    assert!((65_536..=1_200_000).contains(&kept), "{kept} bytes are kept");
    let gaps =
        pieces.windows(2).filter(|pair| pair[1].offset > pair[0].offset + pair[0].text.len() as u64).count();
    assert!(gaps >= 1, "what was dropped shows as a gap");
    assert_eq!(pieces[0].offset, 0);
    let last = pieces.last().unwrap();
    assert_eq!(last.offset + last.text.len() as u64, 10_000_001, "the newest is kept to the last byte");
    let said = kit.ok(&["task", "logs", id.as_str()]);
    assert!(said.stderr.contains("bytes were dropped here"), "{}", said.stderr);
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_41_a_payload_that_its_handler_cannot_read_is_rejected_without_being_quoted() {
    let kit = Kit::new().await;
    let hands = kit.hands(2, handlers).await;
    for (i, payload) in [b"\xa6secret".to_vec(), vec![0xc1], Vec::new()].into_iter().enumerate() {
        let id = kit.enqueue_raw(&format!("t{i}"), "measure", Payload::MessagePack(payload), quick()).await;
        let failed = eventually_async("it has failed", LIMIT, async || {
            let record = kit.record(&id).await;
            if record.state.is_terminal() { Ok(record) } else { Err(format!("{record:?}")) }
        })
        .await;
        if failed.state == TaskState::Completed {
            // A string is bytes to this handler.
            continue;
        }
        assert_eq!((failed.attempt, failed.failure_kind), (1, Some(FailureKind::Rejected)));
        let message = kit.detail(&id).await.last_failure().unwrap().message.clone();
        assert!(message.contains("payload") && !message.contains("secret"), "{message}");
    }
    hands.stop().await;
    leasehold_tests::let_time_pass_async("nothing comes back", Duration::from_millis(200)).await;
    kit.end([]).await;
}
