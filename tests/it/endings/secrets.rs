//! Secrets show as `***` wherever a run tells something.

use std::collections::BTreeSet;

use leasehold_producer::{ExecPayload, OutputStream, Payload, Policy, RawTask, TaskId, TaskKind, TaskState};
use leasehold_worker::{Context, Task, TaskError};
use serde::{Deserialize, Serialize};

use crate::aborts::kit::{Kit, LIMIT, quick};

const SECRET: &str = "hunter22-hunter23";

/// How the handler gives its secret away.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Blab {
    Tell,
    Fail,
    Panic,
    Cleanup,
    Long,
    Stopped,
}

impl Task for Blab {
    const NAME: &'static str = "blab";
    type Output = String;
}

async fn blab(context: Context, how: Blab) -> Result<String, TaskError> {
    context.redact(SECRET)?;
    assert!(context.redact("abc").is_err() && context.redact("").is_ok());
    context.log(&format!("{how:?} {SECRET}"));
    context.progress(0.5, format!("has {SECRET}"))?;
    match how {
        Blab::Tell => Ok(SECRET.to_owned()),
        Blab::Fail => Err(TaskError::fatal(format!("no {SECRET}"))),
        Blab::Panic => panic!("no {SECRET}"),
        Blab::Cleanup => {
            context.on_end(async || panic!("no {SECRET}"));
            Ok(String::new())
        }
        // The limit of messages lies in the middle of the secret.
        Blab::Long => Err(TaskError::fatal("x".repeat(4090) + SECRET)),
        Blab::Stopped => {
            context.stopped().cancelled().await;
            Err(TaskError::retry(format!("stopped with {SECRET}")))
        }
    }
}

/// Everything that Redis holds, bodies and outputs apart.
fn all_of_redis(kit: &Kit) -> String {
    let dump = |key: &str| match kit.redis.command::<String>(&["TYPE", key]).as_str() {
        "hash" => format!("{:?}", kit.redis.command::<redis::Value>(&["HGETALL", key])),
        "stream" => format!("{:?}", kit.redis.command::<redis::Value>(&["XRANGE", key, "-", "+"])),
        "string" => format!("{:?}", kit.redis.command::<redis::Value>(&["GET", key])),
        _ => String::new(),
    };
    kit.redis.command::<Vec<String>>(&["KEYS", "*"]).iter().map(|key| dump(key)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r64_what_a_handler_marked_as_secret_is_told_nowhere() {
    let kit = Kit::new().await;
    let hands = kit.hands(8, |worker| worker.handle(blab)).await;
    let policy = Policy { max_attempts: 1, ..quick() };
    for (how, end, message) in [
        (Blab::Fail, TaskState::Failed, "no ***"),
        (Blab::Panic, TaskState::Failed, ": no ***"),
        (Blab::Cleanup, TaskState::Completed, ""),
        (Blab::Stopped, TaskState::Aborted, "stopped with ***"),
        (Blab::Long, TaskState::Failed, "xxx***"),
    ] {
        let id = kit.enqueue(&format!("{how:?}"), &how, policy).await;
        if how == Blab::Stopped {
            kit.logs(&id, "***").await;
            kit.abort(&id).await;
        }
        kit.reaches(&id, end).await;
        let said = kit.detail(&id).await.last_failure().map(|f| f.message.clone()).unwrap_or_default();
        assert!(said.ends_with(message), "{how:?}: {said:?}");
        let log = kit.log_text(&id).await;
        assert!(log.starts_with(&format!("{how:?} ***\n")), "{log}");
    }
    let redis = all_of_redis(&kit);
    assert!(!redis.contains("hunter") && redis.contains("has ***"), "{redis}");

    // A result is data.
    let id = kit.enqueue("tell", &Blab::Tell, policy).await;
    kit.reaches(&id, TaskState::Completed).await;
    let output: String = kit.producer.typed_task(kit.queue.clone(), id).wait().await.unwrap();
    assert_eq!(output, SECRET);
    hands.stop().await;
    kit.end([]).await;
}

/// The log of a task, one stream of it.
async fn stream(kit: &Kit, id: &TaskId, which: OutputStream) -> String {
    let pieces = kit.log(id).await.into_iter().filter(|piece| piece.stream == which);
    String::from_utf8(pieces.flat_map(|piece| piece.text).collect()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_a_secret_variable_shows_in_no_output_however_it_is_cut() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 4).await;
    let given = format!("TOKEN={SECRET}");
    let flags = ["--secret-env", given.as_str(), "--env", "PLAIN=hunter22-open"];
    // Written a byte at a time, each write by itself, on both streams in turn.
    let script = r#"
        text="<$TOKEN><$PLAIN>"
        while [ -n "$text" ]; do
            rest=${text#?}; first=${text%"$rest"}; text=$rest
            printf %s "$first"; printf %s "$first" >&2
        done
        printf 'end hunter22-hun'
        exit 3"#;
    let id = kit.exec(&flags, script);
    kit.reaches(&id, TaskState::Failed).await;
    let expected = "<***><hunter22-open>";
    let out = stream(&kit, &id, OutputStream::Out).await;
    assert_eq!(out, format!("{expected}end hunter22-hun"), "the last bytes are not lost");
    assert_eq!(stream(&kit, &id, OutputStream::Err).await, expected);
    let shown = kit.show(&id);
    assert_eq!(shown["payload"]["env"]["TOKEN"], "***");
    assert_eq!(shown["payload"]["env"]["PLAIN"], "hunter22-open");
    assert_eq!(shown["payload"]["secret_env"][0], "TOKEN");
    assert!(!kit.ok(&["task", "show", id.as_str()]).stdout.contains(SECRET));

    // What was told counts: offsets, and the size in the result.
    let id = kit.exec(&flags, r#"printf '%s!' "$TOKEN""#);
    kit.reaches(&id, TaskState::Completed).await;
    assert_eq!(kit.log_text(&id).await, "***!");
    assert_eq!(kit.show(&id)["output"]["output_bytes"], 4);

    // A start that fails may quote its variables: here the PATH.
    let path = format!("PATH=/{SECRET}");
    let id = kit.exec_argv(&["--secret-env", &path], &["no-such-program"]);
    kit.reaches(&id, TaskState::Failed).await;
    let said = kit.detail(&id).await.last_failure().unwrap().message.clone();
    assert!(said.contains("***") && !said.contains("hunter"), "{said}");
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_values_of_the_workers_own_variables_are_masked_when_it_is_told_their_names() {
    let kit = Kit::new().await;
    let args = ["worker", "--queue", "default=1", "--name", "w", "--lease", "2s", "--allow-exec"];
    let flags = ["--redact-env", "WORKER_TOKEN", "--cleanup-timeout", "3s"];
    let worker = kit.cli(args).args(flags).env("WORKER_TOKEN", SECRET).spawn();
    kit.registered("w").await;
    let id = kit.exec_argv(&[], &["echo", SECRET]);
    kit.reaches(&id, TaskState::Completed).await;
    assert_eq!(kit.log_text(&id).await, "***\n");
    let refused = |value: Option<&str>, why: &str| {
        let cli = kit.cli(args).args(flags);
        let cli = if let Some(value) = value { cli.env("WORKER_TOKEN", value) } else { cli };
        let ended = cli.spawn().wait(LIMIT);
        assert_ne!(ended.code(), 0);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    };
    refused(None, "invalid redact: \"WORKER_TOKEN\" is not set in the worker's environment");
    refused(Some("abc"), "invalid redact: the value of \"WORKER_TOKEN\" has 3 bytes; one of 4 or more");
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_a_secret_variable_that_cannot_be_masked_is_refused_before_it_is_sent() {
    let kit = Kit::new().await;
    let secret_env = BTreeSet::from(["TOKEN".to_owned()]);
    let command = ExecPayload { argv: vec!["true".into()], secret_env, ..ExecPayload::default() };
    let missing = "invalid secret_env: \"TOKEN\" is not among the variables of env";
    let error = kit.producer.exec("default", command.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), missing);
    let payload = leasehold_common::task::encode("payload", &command).unwrap();
    let mut raw = RawTask::new(kit.queue.clone(), "exec".parse().unwrap(), Payload::MessagePack(payload));
    raw.kind = TaskKind::Exec;
    assert_eq!(kit.producer.enqueue_raw(raw).await.unwrap_err().to_string(), missing);
    let ended = kit.exec_cli(&["--secret-env", "TOKEN=abc"], &["true"]).run().expect_code(2);
    assert!(
        ended.stderr.contains("invalid secret_env: the value of \"TOKEN\" has 3 bytes"),
        "{}",
        ended.stderr
    );
    let tasks = kit.store().inspect(&kit.queue, &[]).await.unwrap().unwrap();
    assert_eq!(tasks.facts.total("enqueued"), 0);
    kit.end([]).await;
}
