//! What commands print and how they exit: live, in order, to the last byte; codes and signals.

use std::time::Duration;

use leasehold_producer::{ExecPayload, FailureKind, LogEntry, OutputStream, TaskState};
use leasehold_tests::{Leasehold, Monitor, eventually, process};

use super::kit::{Kit, LIMIT};

fn bytes_of(pieces: &[LogEntry], stream: OutputStream) -> Vec<u8> {
    pieces.iter().filter(|piece| piece.stream == stream).flat_map(|piece| piece.text.clone()).collect()
}

/// Each piece begins where the one before it ended.
fn assert_no_gap(pieces: &[LogEntry]) {
    let mut end = 0;
    for piece in pieces {
        assert_eq!(piece.offset, end, "a gap, or a piece twice");
        end += piece.text.len() as u64;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r22_output_is_there_while_the_command_runs_in_order_and_to_its_last_byte() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let folder = tempfile::tempdir().unwrap();
    let gate = |n: usize| folder.path().join(n.to_string());
    let wait = |n: usize| format!("while [ ! -e {} ]; do sleep 0.02; done", gate(n).display());
    let script = format!(
        "echo one; {}; echo two >&2; {}; printf three; {}; printf four >&2; {}; printf 'last, without an end'",
        wait(1),
        wait(2),
        wait(3),
        wait(4)
    );
    let id = kit.exec(&[], &script);
    let mut expected = String::new();
    for (n, text) in [(1, "one\n"), (2, "two\n"), (3, "three"), (4, "four")] {
        expected += text;
        let log = kit.logs(&id, text).await;
        assert_eq!(log, expected, "while it runs");
        assert_eq!(kit.record(&id).await.state, TaskState::Running);
        std::fs::write(gate(n), "").unwrap();
    }
    kit.reaches(&id, TaskState::Completed).await;
    let pieces = kit.log(&id).await;
    assert_no_gap(&pieces);
    assert_eq!(bytes_of(&pieces, OutputStream::Out), b"one\nthreelast, without an end");
    assert_eq!(bytes_of(&pieces, OutputStream::Err), b"two\nfour");
    let said = kit.ok(&["task", "logs", id.as_str()]);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("one\nthreelast, without an end", "two\nfour"));
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r22_output_of_any_bytes_is_kept_as_it_was() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let id = kit.exec(&[], &format!("head -c 300000 /dev/urandom | tee {}", copy.display()));
    kit.reaches(&id, TaskState::Completed).await;
    let printed = std::fs::read(&copy).unwrap();
    let pieces = kit.log(&id).await;
    assert_no_gap(&pieces);
    assert_eq!(bytes_of(&pieces, OutputStream::Out), printed);
    assert_eq!(kit.show(&id)["output"]["output_bytes"], 300_000);
    let sums = r#""$0" task logs "$1" | sha256sum; sha256sum <"$2""#;
    let sums = Leasehold::other_program("sh", &kit.redis)
        .args(["-c", sums])
        .arg(process::binary())
        .arg(id.as_str())
        .arg(&copy)
        .run()
        .success();
    let lines: Vec<&str> = sums.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "through the command line: {lines:?}");
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r22_both_streams_at_full_speed_lose_nothing_within_the_cap() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 4).await;
    let script = "seq -f 'out %.0f' 1 20000 & seq -f 'err %.0f' 1 20000 >&2 & wait";
    let ids: Vec<_> = (0..3).map(|_| kit.exec(&[], script)).collect();
    let lines = |word: &str| (1..=20_000).map(|n| format!("{word} {n}\n")).collect::<String>().into_bytes();
    for id in &ids {
        kit.reaches(id, TaskState::Completed).await;
        let pieces = kit.log(id).await;
        assert_no_gap(&pieces);
        for (stream, word) in [(OutputStream::Out, "out"), (OutputStream::Err, "err")] {
            assert!(bytes_of(&pieces, stream) == lines(word), "{word} of {id} is not as it was printed");
        }
    }
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r25_exit_codes_and_signals_decide_and_are_named() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 4).await;
    let kinds = [FailureKind::ExitCode, FailureKind::Signal];
    let cases = [
        ("exit 1", kinds[0], Some(1), None, "exited with code 1"),
        ("exit 255", kinds[0], Some(255), None, "exited with code 255"),
        ("kill -SEGV $$", kinds[1], None, Some(11), "signal 11 (SIGSEGV)"),
        ("kill -TERM $$", kinds[1], None, Some(15), "signal 15 (SIGTERM)"),
        // A shell that tells of its child's signal has returned a code.
        ("sh -c 'kill -9 $$'; exit $?", kinds[0], Some(137), None, "exited with code 137"),
    ];
    let ids: Vec<_> = cases.iter().map(|(script, ..)| kit.exec(&[], script)).collect();
    for (id, (script, kind, code, signal, message)) in ids.iter().zip(cases) {
        kit.reaches(id, TaskState::Failed).await;
        let detail = kit.detail(id).await;
        let failure = detail.last_failure().unwrap();
        assert_eq!(
            (failure.kind, failure.detail.exit_code, failure.detail.signal),
            (kind, code, signal),
            "{script}"
        );
        assert!(failure.message.contains(message), "{script}: {}", failure.message);
    }
    let fine = kit.exec(&[], "yes | head -1");
    kit.reaches(&fine, TaskState::Completed).await;
    assert_eq!(kit.log_text(&fine).await, "y\n");
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r22_output_of_a_child_that_outlives_its_parent_ends_with_the_run() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    // The child keeps the pipes open, in a session of its own.
    let id =
        kit.exec(&[], "setsid sh -c 'while :; do echo still here; sleep 0.1; done' & echo parent; sleep 0.3");
    kit.reaches_within(&id, TaskState::Completed, Duration::from_secs(10)).await;
    kit.assert_no_leftovers();
    assert!(kit.log_text(&id).await.contains("parent"));
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r20_a_command_is_a_task_after_one_round_trip() {
    let kit = Kit::new().await;
    let first = kit.producer.exec(kit.queue.clone(), command()).await.unwrap();
    let monitor = Monitor::start(&kit.redis);
    let handle = kit.producer.exec(kit.queue.clone(), command()).await.unwrap();
    let sent: Vec<_> =
        monitor.seen().into_iter().filter(|seen| seen.client.is_some()).map(|seen| seen.words).collect();
    // The first enqueue announces the queue beside its call; nobody waits for that, so it may come this late.
    let waited_for: Vec<_> = sent.iter().filter(|words| words[0] != "SADD").collect();
    assert_eq!(waited_for.len(), 1, "{sent:?}");
    eventually("both are there", LIMIT, || {
        let there = [&first, &handle].into_iter().all(|handle| kit.show(handle.id())["state"] == "queued");
        if there { Ok(()) } else { Err("not both") }
    });
    kit.end([]).await;
}

fn command() -> ExecPayload {
    ExecPayload { argv: vec!["true".to_owned()], ..ExecPayload::default() }
}
