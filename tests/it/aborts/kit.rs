//! What the tests of aborts, bounds and commands share: a server, workers as processes, the command line, records.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_common::doctor;
use leasehold_producer::{
    AbortAnswer, AbortRequest, ConnectOptions, Limits, LogEntry, Namespace, Payload, Policy, Producer,
    QueueName, QueueSettings, RawTask, Spec, Store, TaskDetail, TaskId, TaskRecord, TaskState,
};
use leasehold_tests::process::Finished;
use leasehold_tests::{Leasehold, Proc, RedisServer, eventually_async, procfs};
use leasehold_worker::{Task, Worker};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The lease of the fast profile, and with it the beat.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
pub(crate) const BEAT: Duration = Duration::from_millis(667);
/// The stop grace of the fast profile.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// lease + suspicion + two sweeps + 1 s.
pub(crate) const RECLAIM: Duration = Duration::from_millis(2000 + 667 + 2 * 333 + 1000);
/// Nothing in these tests takes this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The variable that marks every command of a test, so that leftovers are found wherever they went.
const MARK: &str = "LH_TEST_MARK";

/// A server of the fast profile, with its queue registered.
pub(crate) struct Kit {
    pub(crate) redis: RedisServer,
    pub(crate) producer: Producer,
    pub(crate) queue: QueueName,
    mark: String,
}

/// A worker inside the test process, for handlers.
pub(crate) struct Hands {
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

impl Hands {
    /// Ends the worker as a signal would.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.expect("the worker ends");
    }
}

impl Kit {
    pub(crate) async fn new() -> Self {
        Self::with_lease(LEASE).await
    }

    pub(crate) async fn with_lease(lease: Duration) -> Self {
        let redis = RedisServer::start();
        let store = Store::open(&redis.url(), Namespace::default(), ConnectOptions::default()).unwrap();
        let settings = QueueSettings { lease, ..QueueSettings::default() };
        let store = store.with_settings(settings);
        let queue = QueueName::new("default").unwrap();
        store.register(&queue).await.unwrap();
        let producer = Producer::over(store).limits(Limits::default()).connect().await.unwrap();
        Self { redis, producer, queue, mark: uuid::Uuid::new_v4().simple().to_string() }
    }

    pub(crate) fn store(&self) -> &Store {
        self.producer.store()
    }

    /// `leasehold ARGS` against the server.
    pub(crate) fn cli<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Leasehold {
        Leasehold::new(&self.redis).args(args)
    }

    /// Runs `leasehold ARGS`, which must end with 0.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> Finished {
        self.cli(args).run().success()
    }

    /// A worker process that allows every command, with a reaper inside, once it is registered.
    pub(crate) async fn worker(&self, name: &str, slots: usize) -> Proc {
        self.worker_with(name, slots, &["--allow-exec", "--with-reaper"]).await
    }

    /// A worker process with these flags, once it is registered.
    pub(crate) async fn worker_with(&self, name: &str, slots: usize, flags: &[&str]) -> Proc {
        let queue = format!("{}={slots}", self.queue);
        let lease = self.lease().await;
        let proc =
            self.cli(["worker", "--queue", &queue, "--name", name, "--lease", &lease]).args(flags).spawn();
        self.registered(name).await;
        proc
    }

    async fn lease(&self) -> String {
        let look = self.store().inspect(&self.queue, &[]).await.unwrap().unwrap();
        format!("{}ms", look.lease.as_millis())
    }

    /// Waits until a worker of this name lives.
    pub(crate) async fn registered(&self, name: &str) {
        eventually_async(&format!("worker {name} is registered"), LIMIT, async || {
            let workers = self.store().workers().await.unwrap();
            let found = workers.iter().any(|worker| worker.name.as_str() == name);
            if found { Ok(()) } else { Err(format!("{workers:?}")) }
        })
        .await;
    }

    /// A reaper process of its own.
    pub(crate) fn reaper(&self) -> Proc {
        self.cli(["reaper"]).spawn()
    }

    /// A worker in this process.
    pub(crate) async fn hands(&self, slots: usize, set: impl FnOnce(Worker) -> Worker) -> Hands {
        let worker = Worker::connect(self.redis.url()).await.unwrap().queue(self.queue.as_str(), slots);
        let worker = set(worker.name("hands").drain_grace(Duration::from_millis(200)));
        let shutdown = CancellationToken::new();
        let until = shutdown.clone();
        let running =
            tokio::spawn(async move { worker.run_until(until.cancelled_owned()).await.expect("a worker") });
        self.registered("hands").await;
        Hands { shutdown, running }
    }

    /// `leasehold exec default FLAGS -- sh -c SCRIPT`, marked; the task's id.
    #[track_caller]
    pub(crate) fn exec(&self, flags: &[&str], script: &str) -> TaskId {
        self.exec_argv(flags, &["sh", "-c", script])
    }

    /// `leasehold exec default FLAGS -- ARGV`, marked; the task's id.
    #[track_caller]
    pub(crate) fn exec_argv(&self, flags: &[&str], argv: &[&str]) -> TaskId {
        let line = self.exec_cli(flags, argv).run().success().line();
        TaskId::new(line.clone()).unwrap_or_else(|error| panic!("exec printed {line:?}: {error}"))
    }

    /// The same before it runs, for `--wait` and `--yield`.
    pub(crate) fn exec_cli(&self, flags: &[&str], argv: &[&str]) -> Leasehold {
        let mark = format!("{MARK}={}", self.mark);
        self.cli(["exec", self.queue.as_str(), "--env", &mark]).args(flags).arg("--").args(argv)
    }

    /// The variable that marks the commands of this test.
    pub(crate) fn mark(&self) -> (String, String) {
        (MARK.to_owned(), self.mark.clone())
    }

    /// Living processes of this test's commands.
    pub(crate) fn leftovers(&self) -> Vec<i32> {
        procfs::processes_with_env(&self.mark)
    }

    /// Panics when a command of this test is still alive.
    #[track_caller]
    pub(crate) fn assert_no_leftovers(&self) {
        let left = self.leftovers();
        assert!(left.is_empty(), "processes of commands are left:\n{}", procfs::describe(&left));
    }

    /// Enqueues a task for a handler.
    pub(crate) async fn enqueue<T: Task>(&self, id: &str, task: &T, policy: Policy) -> TaskId {
        let payload = leasehold_common::task::encode("payload", task).unwrap();
        self.enqueue_raw(id, T::NAME, Payload::MessagePack(payload), policy).await
    }

    pub(crate) async fn enqueue_raw(&self, id: &str, name: &str, payload: Payload, policy: Policy) -> TaskId {
        let mut task = RawTask::new(self.queue.clone(), name.parse().unwrap(), payload);
        task.id = Some(TaskId::new(id).unwrap());
        task.spec = Spec { policy, ..Spec::default() };
        self.producer.enqueue_raw(task).await.unwrap().id().clone()
    }

    /// `leasehold task show ID --json`
    #[track_caller]
    pub(crate) fn show(&self, id: &TaskId) -> Value {
        self.ok(&["task", "show", id.as_str(), "--json"]).json()
    }

    pub(crate) async fn record(&self, id: &TaskId) -> TaskRecord {
        self.store().record(&self.queue, id).await.unwrap().expect("the task exists")
    }

    pub(crate) async fn detail(&self, id: &TaskId) -> TaskDetail {
        self.store().detail(&self.queue, id).await.unwrap().expect("the task exists")
    }

    /// Waits until the task is in this state.
    pub(crate) async fn reaches(&self, id: &TaskId, state: TaskState) -> TaskRecord {
        self.reaches_within(id, state, LIMIT).await
    }

    pub(crate) async fn reaches_within(&self, id: &TaskId, state: TaskState, within: Duration) -> TaskRecord {
        eventually_async(&format!("{id} is {state}"), within, async || {
            let record = self.record(id).await;
            if record.state == state { Ok(record) } else { Err(format!("{record:?}")) }
        })
        .await
    }

    /// An abort through the library.
    pub(crate) async fn abort(&self, id: &TaskId) -> AbortAnswer {
        self.store().abort(&self.queue, &[AbortRequest::new(id.clone(), "test", "")]).await.unwrap()[0]
    }

    /// The task's whole log: pieces, and both streams together as they lie there.
    pub(crate) async fn log(&self, id: &TaskId) -> Vec<LogEntry> {
        let mut all: Vec<LogEntry> = Vec::new();
        loop {
            let position = all.last().map(|entry| entry.position.clone());
            let page = self.store().log(&self.queue, id, position.as_deref(), 256).await.unwrap();
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    /// The whole log as text.
    pub(crate) async fn log_text(&self, id: &TaskId) -> String {
        let pieces = self.log(id).await;
        let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.text).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the log holds `text`.
    pub(crate) async fn logs(&self, id: &TaskId, text: &str) -> String {
        eventually_async(&format!("the log of {id} has {text:?}"), LIMIT, async || {
            let log = self.log_text(id).await;
            if log.contains(text) { Ok(log) } else { Err(log) }
        })
        .await
    }

    /// The end of every test: worker processes stop when told to, nothing of a command is left, and the doctor
    /// finds no breach.
    pub(crate) async fn end(self, workers: impl IntoIterator<Item = Proc>) {
        for worker in workers {
            worker.terminate(LIMIT).success();
        }
        self.assert_no_leftovers();
        self.assert_clean().await;
    }

    pub(crate) async fn assert_clean(&self) {
        let options = doctor::Options { pause: Duration::from_millis(100), ..doctor::Options::default() };
        let report = doctor::examine(self.store(), &options).await.unwrap();
        let breaches: Vec<_> = report.breaches().collect();
        assert!(breaches.is_empty(), "{breaches:#?}");
    }
}

/// A policy of the fast profile.
pub(crate) fn quick() -> Policy {
    let mut policy = Policy { stop_grace: GRACE, ..Policy::default() };
    policy.backoff.base = Duration::from_millis(5);
    policy.backoff.cap = Duration::from_millis(20);
    policy
}

/// What a file holds; nothing when it is not there yet.
pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// What this process logs from now on.
#[derive(Clone)]
pub(crate) struct Logs(Arc<Mutex<Vec<u8>>>);

impl Logs {
    /// Begins to gather. One test of a process can, which is each where tests run by nextest.
    pub(crate) fn capture() -> Self {
        let this = Self(Arc::default());
        let writer = this.clone();
        let made = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).try_init();
        made.expect("no other test of this process gathers logs");
        this
    }

    /// Everything so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl std::io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
