//! The doctor finds each breach, seeded by raw commands into a queue that has a task in every state.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_common::doctor::{Options, Report, Severity, examine};
use leasehold_common::name::{Incarnation, Namespace, QueueName, WorkerName};
use leasehold_common::policy::Policy;
use leasehold_common::record::{FailureDetail, StopCause};
use leasehold_common::store::{
    AbortRequest, LogPiece, Outcome, OutputStream, ProcessMark, Progress, QueueSettings, RetryAdvice, Store,
    When, WorkerInfo,
};
use leasehold_common::transport::ConnectOptions;
use leasehold_tests::RedisServer;
use leasehold_tests::queue::{
    FORMAT_BYTE, Hand, NEWER_V, Queue, START, done, end, failed, id, ms, task_with,
};

pub(crate) fn options() -> Options {
    // The clock of these tests stands still, so nothing passes in a pause.
    Options { pause: ms(1), ..Options::default() }
}

async fn report(queue: &Queue) -> Report {
    examine(&queue.store, &options()).await.unwrap()
}

/// Tasks `scheduled`, `queued`, `big` (queued, its body apart), `running`, `aborting`, `completed`, `failed`,
/// `timed_out`, `aborted` and one that is gone, with all that a task can have.
async fn populate(queue: &Queue) {
    let (hand, other) = (Hand::new("w"), Hand::new("v"));
    let once =
        |name: &str| task_with(name, |t| t.body.policy = Policy { max_attempts: 1, ..Policy::default() });
    for name in ["completed", "failed", "timed_out", "aborted", "gone", "aborting", "running"] {
        queue.enqueue(&[once(name)]).await;
    }
    let runs = queue.claim(&hand, 7).await;
    let piece = |t: &leasehold_common::store::ClaimedTask| LogPiece {
        id: t.id.clone(),
        run: t.run.clone(),
        offset: 0,
        stream: OutputStream::Out,
        text: b"hi\n".to_vec(),
    };
    queue.store.append_log(&queue.name, &hand.inc, &[piece(&runs[0]), piece(&runs[6])]).await.unwrap();
    let note = Progress {
        id: runs[6].id.clone(),
        run: runs[6].run.clone(),
        number: 1,
        share: Some(0.5),
        message: "half".to_owned(),
    };
    queue.store.progress(&queue.name, &hand.inc, &[note]).await.unwrap();
    queue.beat(&hand, &runs[6]).await;
    let stopped = Outcome::Stopped {
        cause: StopCause::RunTimeout,
        message: "late".to_owned(),
        detail: FailureDetail::default(),
    };
    let large = Outcome::Completed(vec![b'x'; 5000]);
    let abort = |name: &str| AbortRequest::new(id(name), "me", "why");
    queue.store.abort(&queue.name, &[abort("aborted"), abort("aborting")]).await.unwrap();
    for finish in [
        end(&runs[0], large),
        failed(&runs[1], RetryAdvice::Policy),
        end(&runs[2], stopped.clone()),
        end(&runs[3], stopped),
        done(&runs[4]),
    ] {
        queue.finish(&hand, finish).await;
    }
    let gone = queue.record("gone").await.rev;
    queue.store.delete(&queue.name, &[(id("gone"), gone)]).await.unwrap();
    queue
        .enqueue(&[
            task_with("scheduled", |t| t.when = When::After(Duration::from_secs(60))),
            task_with("queued", |_| {}),
            task_with("big", |t| t.body.payload = vec![1; 5000]),
        ])
        .await;
    assert!(queue.claim(&other, 0).await.is_empty());
    queue.store.await_end(&queue.name, &[id("queued")], 60_000).await.unwrap();
}

async fn announce(queue: &Queue, status: &str) {
    let worker = WorkerInfo {
        name: WorkerName::new("w").unwrap(),
        incarnation: Incarnation::new("inc-w").unwrap(),
        host: "here".to_owned(),
        pid: 1,
        mark: ProcessMark::default(),
        started_ms: 1,
        queues: BTreeMap::from([(queue.name.clone(), 4)]),
        running: 0,
        status: status.to_owned(),
    };
    queue.store.announce_worker(&worker, 1, Duration::from_secs(60)).await.unwrap();
}

#[tokio::test]
async fn r15_a_queue_with_a_task_in_every_state_is_clean_and_examining_changes_nothing() {
    let queue = Queue::on(RedisServer::builder(), QueueSettings::default()).await;
    let empty = report(&queue).await;
    assert!(empty.findings.is_empty(), "{empty}");
    populate(&queue).await;
    announce(&queue, "running").await;
    let before = queue.digest();
    let report = report(&queue).await;
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(queue.digest(), before);
    let [q] = &report.queues[..] else { panic!("{report}") };
    assert_eq!((q.queued, q.scheduled, q.running, q.ended, q.gone), (2, 1, 2, 4, 1));
    assert_eq!((q.workers, q.swept_ms_ago, q.examined), (1, Some(0), 9));
    assert!(report.to_string().contains("all invariants hold"), "{report}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["queues"][0]["queue"], "q");
}

/// A seed: the code it must lead to, how grave, the task, and the commands. `Q:` stands for the queue's prefix.
type Seed = (&'static str, Severity, Option<&'static str>, &'static [&'static [&'static str]]);

const SEEDS: &[Seed] = {
    use Severity::{Breach, Note, Warning};
    &[
        ("missing-from-scheduled", Breach, Some("scheduled"), &[&["ZREM", "Q:scheduled", "scheduled"]]),
        ("missing-entry", Breach, Some("queued"), &[&["DEL", "Q:ready:normal"]]),
        ("missing-from-running", Breach, Some("running"), &[&["ZREM", "Q:running", "running"]]),
        ("missing-from-running", Breach, Some("aborting"), &[&["DEL", "Q:running"]]),
        ("missing-from-done", Breach, Some("completed"), &[&["ZREM", "Q:done:completed", "completed"]]),
        ("missing-from-done", Breach, Some("timed_out"), &[&["DEL", "Q:done:timed_out"]]),
        ("also-in-running", Breach, Some("queued"), &[&["ZADD", "Q:running", "1700000001000", "queued"]]),
        ("also-in-scheduled", Breach, Some("failed"), &[&["ZADD", "Q:scheduled", "1800000000000", "failed"]]),
        ("also-in-done", Breach, Some("completed"), &[&["ZADD", "Q:done:failed", "1", "completed"]]),
        ("also-in-done", Breach, Some("running"), &[&["ZADD", "Q:done:aborted", "1", "running"]]),
        ("gone-but-there", Breach, Some("queued"), &[&["ZADD", "Q:gone", "1", "queued"]]),
        ("stray-entry", Breach, Some("completed"), &[&["XADD", "Q:ready:low", "*", "i", "completed"]]),
        ("stray-entry", Breach, Some("queued"), &[&["XADD", "Q:ready:again", "*", "i", "queued"]]),
        ("stray-entry", Breach, Some("nobody"), &[&["XADD", "Q:ready:high", "*", "i", "nobody"]]),
        ("stray-entry", Breach, None, &[&["XADD", "Q:ready:high", "*", "i", ""]]),
        ("body-missing", Breach, Some("big"), &[&["DEL", "Q:body:big"]]),
        ("body-twice", Breach, Some("queued"), &[&["SET", "Q:body:queued", "x"]]),
        (
            "lease-of-another-run",
            Breach,
            Some("running"),
            &[&["SET", "Q:lease:running", "a b", "PX", "9000"]],
        ),
        ("lease-of-no-run", Breach, Some("failed"), &[&["SET", "Q:lease:failed", "a b", "PX", "9000"]]),
        ("missing-ttl", Breach, Some("running"), &[&["PERSIST", "Q:lease:running"]]),
        ("missing-ttl", Breach, None, &[&["PERSIST", "Q:claim:inc-w"]]),
        ("index-without-record", Breach, Some("aborted"), &[&["DEL", "Q:task:aborted"]]),
        (
            "index-without-record",
            Breach,
            Some("nobody"),
            &[&["ZADD", "Q:scheduled", "1800000000000", "nobody"]],
        ),
        ("key-without-record", Breach, Some("nobody"), &[&["RPUSH", "Q:errors:nobody", "x"]]),
        ("key-without-record", Breach, Some("completed"), &[&["DEL", "Q:task:completed"]]),
        ("stray-row", Breach, None, &[&["ZADD", "Q:running", "1800000000000", "a\nb"]]),
        ("record-unreadable", Breach, Some("queued"), &[&["SET", "Q:task:queued", "junk"]]),
        ("newer-format", Breach, Some("queued"), &[&["SET", "Q:task:queued", "NEWER"]]),
        ("wrong-type", Breach, Some("queued"), &[&["DEL", "Q:task:queued"], &["SADD", "Q:task:queued", "x"]]),
        ("wrong-type", Breach, None, &[&["DEL", "Q:scheduled"], &["SET", "Q:scheduled", "x"]]),
        ("wrong-type", Breach, None, &[&["DEL", "Q:config"], &["SET", "Q:config", "x"]]),
        ("totals-do-not-add-up", Breach, None, &[&["HINCRBY", "Q:totals", "enqueued", "1"]]),
        ("totals-do-not-add-up", Breach, None, &[&["DEL", "Q:totals"]]),
        ("config-missing", Breach, None, &[&["DEL", "Q:config"]]),
        ("newer-format", Breach, None, &[&["HSET", "Q:config", "v", NEWER_V]]),
        ("wrong-type", Breach, None, &[&["HSET", "Q:config", "lease_ms", "junk"]]),
        ("never-exists", Breach, None, &[&["SET", "Q:never", "x"]]),
        ("unknown-key", Breach, None, &[&["SET", "Q:junk", "x"]]),
        ("unknown-key", Breach, None, &[&["SET", "lh:junk", "x"]]),
        (
            "due-time-differs",
            Breach,
            Some("scheduled"),
            &[&["ZADD", "Q:scheduled", "1800000000000", "scheduled"]],
        ),
        ("look-too-far", Breach, Some("running"), &[&["ZADD", "Q:running", "1700000020001", "running"]]),
        ("look-overdue", Breach, Some("running"), &[&["ZADD", "Q:running", "1699999994999", "running"]]),
        (
            "look-overdue",
            Warning,
            Some("running"),
            &[
                &["ZADD", "Q:running", "1699999994999", "running"],
                &["HSET", "Q:pulse", "last", "1699999996000"],
            ],
        ),
        ("due-not-promoted", Breach, Some("scheduled"), &[&["ZADD", "Q:scheduled", "1", "scheduled"]]),
        ("no-reaper", Warning, None, &[&["HSET", "Q:pulse", "last", "1699999969999"]]),
        ("no-reaper", Warning, None, &[&["DEL", "Q:pulse"]]),
        ("no-worker", Warning, None, &[&["DEL", "lh:worker:inc-w"]]),
        ("worker-wedged", Warning, None, &[&["HSET", "lh:worker:inc-w", "status", "wedged"]]),
        ("queue-not-announced", Warning, None, &[&["SREM", "lh:queues", "q"]]),
        ("queue-empty", Note, None, &[&["SADD", "lh:queues", "other"]]),
        (
            "events-over-cap",
            Breach,
            None,
            &[&[
                "EVAL",
                "for i = 1, 101001 do redis.call('XADD', KEYS[1], '*', 'e', '') end",
                "1",
                "Q:events",
            ]],
        ),
        (
            "errors-over-cap",
            Breach,
            Some("failed"),
            &[&["EVAL", "for i = 1, 26 do redis.call('RPUSH', KEYS[1], 'x') end", "1", "Q:errors:failed"]],
        ),
        (
            "log-over-cap",
            Breach,
            Some("running"),
            &[&[
                "EVAL",
                "for i = 1, 60 do redis.call('XADD', KEYS[1], '*', 'n', 1, 'o', 0, 's', 'out', 't', string.rep('x', 25000)) end",
                "1",
                "Q:log:running",
            ]],
        ),
    ]
};

/// The beginning of a record of a release to come.
const NEWER: &[u8] = &[0xc1, FORMAT_BYTE + 1, 2, 4];

fn sow(queue: &Queue, command: &[&str]) {
    let mut words = redis::cmd(command[0]);
    for word in &command[1..] {
        match word.strip_prefix("Q:") {
            Some(suffix) => words.arg(queue.key(suffix)),
            None if *word == "NEWER" => words.arg(NEWER),
            None => words.arg(word),
        };
    }
    words.exec(&mut queue.server.connection()).unwrap_or_else(|error| panic!("{command:?}: {error}"));
}

#[tokio::test]
async fn each_seeded_breach_is_found() {
    let queue = Queue::on(RedisServer::builder(), QueueSettings::default()).await;
    for (code, severity, task, commands) in SEEDS {
        queue.reset().await;
        populate(&queue).await;
        announce(&queue, "running").await;
        for command in *commands {
            sow(&queue, command);
        }
        let report = report(&queue).await;
        let found = report.of_code(code).find(|f| f.id.as_ref().map(|id| id.as_str()) == *task);
        let found =
            found.unwrap_or_else(|| panic!("{code} of {task:?} by {commands:?} not found in:\n{report}"));
        assert_eq!(found.severity, *severity, "{found}");
        assert_eq!(report.is_clean(), report.breaches().count() == 0);
        assert!(*severity == Severity::Breach || report.is_clean(), "{commands:?} is no breach:\n{report}");
        assert_eq!(
            report.to_string().contains("all invariants hold"),
            *severity == Severity::Note,
            "{report}"
        );
    }
}

#[tokio::test]
async fn an_old_queued_task_beside_an_idle_worker_is_warned_of() {
    let queue = Queue::on(RedisServer::builder(), QueueSettings::default()).await;
    queue.seed(&["old"]).await;
    announce(&queue, "running").await;
    assert!(report(&queue).await.findings.is_empty());
    // Entries carry the time of Redis itself, which the clock of the test is far behind.
    queue.redis::<()>(&["HDEL", &queue.key("config"), "clock"]);
    let entry: Vec<(String, Vec<String>)> = queue.redis(&["XRANGE", &queue.key("ready:normal"), "-", "+"]);
    let made: u64 = entry[0].0.split('-').next().unwrap().parse().unwrap();
    queue.set_clock(made + 4001);
    queue.redis::<()>(&["HSET", &queue.key("pulse"), "last", &queue.now().to_string()]);
    let warned = report(&queue).await;
    assert_eq!(warned.of_code("queued-too-long").count(), 1, "{warned}");
    assert!(warned.is_clean());
    announce(&queue, "draining").await;
    assert_eq!(report(&queue).await.of_code("queued-too-long").count(), 0);
}

#[tokio::test]
async fn a_thousand_of_a_kind_are_counted_and_only_the_first_told() {
    let queue = Queue::on(RedisServer::builder(), QueueSettings::default()).await;
    for n in 0..300 {
        queue.redis::<()>(&["SET", &queue.key(&format!("junk{n}")), "x"]);
        queue.redis::<()>(&["ZADD", &queue.key("done:failed"), "1", &format!("lost{n}")]);
    }
    let report = report(&queue).await;
    for code in ["unknown-key", "index-without-record"] {
        let told: Vec<_> = report.of_code(code).map(|f| f.message.as_str()).collect();
        assert_eq!((told.len(), told[20]), (21, "and 280 more like these"), "{code}");
    }
}

#[tokio::test]
async fn only_the_queues_named_are_examined() {
    let queue = Queue::on(RedisServer::builder(), QueueSettings::default()).await;
    let other = QueueName::new("other").unwrap();
    queue.store.register(&other).await.unwrap();
    sow(&queue, &["SET", "Q:junk", "x"]);
    let only = |queues| Options { queues, ..options() };
    let of_other = examine(&queue.store, &only(vec![other.clone()])).await.unwrap();
    assert!(of_other.findings.is_empty(), "{of_other}");
    assert_eq!(of_other.queues.iter().map(|q| &q.queue).collect::<Vec<_>>(), [&other]);
    let unknown = examine(&queue.store, &only(vec![QueueName::new("nope").unwrap()])).await.unwrap();
    assert_eq!(unknown.findings.iter().map(|f| f.code).collect::<Vec<_>>(), ["queue-empty"]);
    assert!(queue.store.queues().await.unwrap().len() == 2, "looking made no queue");
}

#[tokio::test]
async fn case_16_the_server_itself_is_judged() {
    let judge = async |builder: leasehold_tests::RedisBuilder, server: bool| {
        let redis = builder.start();
        let store = Store::open(&redis.url(), Namespace::default(), ConnectOptions::default()).unwrap();
        let options = Options { server, ..options() };
        let report = examine(&store, &options).await.unwrap();
        report.findings.iter().map(|f| (f.severity, f.code)).collect::<Vec<_>>()
    };
    let evicting = || RedisServer::builder().eviction("allkeys-lru");
    assert_eq!(judge(evicting(), true).await, [(Severity::Breach, "server-refused")]);
    assert_eq!(judge(evicting(), false).await, []);
    let lossy = RedisServer::builder().no_persistence();
    assert_eq!(judge(lossy, true).await, [(Severity::Warning, "server-warned")]);
}

#[tokio::test]
async fn what_cannot_be_asked_is_an_error_and_no_finding() {
    let mut queue = Queue::on(RedisServer::builder(), QueueSettings::default()).await;
    assert_eq!(queue.now(), START);
    queue.server.kill();
    assert!(examine(&queue.store, &options()).await.unwrap_err().is_retryable());
}
