//! What the tests of this folder share: a private Redis with worker and reaper processes around it, judged by the
//! effects file, the process table, and at the end by the doctor.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leasehold_common::doctor;
use leasehold_common::name::{QueueName, TaskId};
use leasehold_common::policy::Policy;
use leasehold_common::record::{TaskDetail, TaskRecord};
use leasehold_common::state::TaskState;
use leasehold_common::store::{QueueFacts, QueueSettings, Store};
use leasehold_producer::{ExecPayload, Producer, Spec};
use leasehold_tests::process::Finished;
use leasehold_tests::scale::whole_cases;
use leasehold_tests::{Effects, Leasehold, Proc, RedisServer, RedisUrl, eventually, procfs};

/// The fast profile of the cases: lease and TERM grace.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// Three leases: longer than anybody may be silent.
pub(crate) const LONG_SILENCE: Duration = Duration::from_secs(6);
/// Lease, suspicion (a beat) and two sweeps, and a second.
pub(crate) const RECLAIM: Duration = Duration::from_millis(2000 + 667 + 2 * 333 + 1000);
/// Nothing in these tests takes this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// [`LIMIT`] for loops that are scaled.
pub(crate) fn patience() -> Duration {
    LIMIT * if whole_cases() { 10 } else { 1 }
}

/// How long a process may take to be gone.
const GONE_LIMIT: Duration = Duration::from_secs(5);

/// A queue `q` on its own Redis, and the processes that were started around it.
pub(crate) struct Rig {
    pub(crate) redis: RedisServer,
    pub(crate) effects: Effects,
    pub(crate) producer: Producer,
    pub(crate) queue: QueueName,
    lease: Duration,
    runtime: tokio::runtime::Runtime,
    /// Processes seen below workers, by start time: none may be left at the end.
    seen: RefCell<BTreeMap<i32, u64>>,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Self::on(RedisServer::start())
    }

    pub(crate) fn on(redis: RedisServer) -> Self {
        Self::with(redis, QueueSettings { lease: LEASE, ..QueueSettings::default() })
    }

    pub(crate) fn with(redis: RedisServer, settings: QueueSettings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let lease = settings.lease;
        let connecting = Producer::builder(&redis.url()).queue_settings(settings).connect();
        let producer = runtime.block_on(connecting).expect("a producer");
        let queue = QueueName::new("q").expect("a queue name");
        runtime.block_on(producer.store().register(&queue)).expect("register the queue");
        Self { redis, effects: Effects::new(), producer, queue, lease, runtime, seen: RefCell::default() }
    }

    pub(crate) fn store(&self) -> &Store {
        self.producer.store()
    }

    /// Runs a future to its end.
    pub(crate) fn block<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// For tasks beside the test.
    pub(crate) fn runtime(&self) -> &tokio::runtime::Runtime {
        &self.runtime
    }

    /// `leasehold` against this Redis.
    pub(crate) fn cli(&self, arguments: &[&str]) -> Finished {
        Leasehold::new(&self.redis).args(arguments).run()
    }

    /// A worker of queue `q` with commands allowed; returns once it works.
    pub(crate) fn worker(&self, name: &str, slots: usize) -> Proc {
        self.worker_with(&self.redis, name, slots, &[])
    }

    /// Such a worker behind a proxy, or with more arguments.
    pub(crate) fn worker_with(
        &self,
        redis: &(impl RedisUrl + ?Sized),
        name: &str,
        slots: usize,
        more: &[&str],
    ) -> Proc {
        let slots = format!("q={slots}");
        let arguments = ["worker", "--queue", &slots, "--name", name, "--allow-exec"];
        let mut worker = Leasehold::new(redis).args(arguments).args(more).spawn();
        worker.wait_for_output("worker started", LIMIT);
        worker
    }

    /// A reaper; returns once it sweeps.
    pub(crate) fn reaper(&self) -> Proc {
        self.reaper_with(Leasehold::new(&self.redis))
    }

    pub(crate) fn reaper_with(&self, command: Leasehold) -> Proc {
        let mut reaper = command.arg("reaper").spawn();
        reaper.wait_for_output("reaper started", LIMIT);
        reaper
    }

    /// A policy of the fast profile.
    pub(crate) fn policy() -> Policy {
        Policy { max_attempts: 3, stop_grace: GRACE, ..Policy::default() }
    }

    /// Enqueues `sh -c BODY` with [`Rig::policy`].
    pub(crate) fn exec(&self, id: &str, body: &str) {
        self.exec_with(id, body, Self::policy());
    }

    pub(crate) fn exec_with(&self, id: &str, body: &str, policy: Policy) {
        self.exec_all(&[id.to_owned()], body, policy);
    }

    /// Enqueues the same body under many ids, in order.
    pub(crate) fn exec_all(&self, ids: &[String], body: &str, policy: Policy) {
        let spec = Spec { policy, ..Spec::default() };
        let tasks = ids.iter().map(|id| {
            self.producer.exec(self.queue.clone(), self.payload(body)).id(id.as_str()).spec(spec.clone())
        });
        for answer in self.block(self.producer.enqueue_all(tasks)) {
            answer.expect("enqueue");
        }
    }

    /// A shell command that can reach the effects file.
    pub(crate) fn payload(&self, body: &str) -> ExecPayload {
        let argv = ["sh", "-c", body].map(str::to_owned).to_vec();
        let path = self.effects.path().display().to_string();
        let env = [(Effects::VARIABLE.to_owned(), path)].into();
        ExecPayload { argv, env, ..ExecPayload::default() }
    }

    /// Asks Redis, again while it is away or has just come back.
    #[track_caller]
    pub(crate) fn ask<T>(&self, question: impl AsyncFn() -> leasehold_common::Result<T>) -> T {
        eventually("Redis answers", LIMIT, || self.block(question()))
    }

    pub(crate) fn record(&self, id: &str) -> TaskRecord {
        let found = self.ask(async || self.store().record(&self.queue, &task_id(id)).await);
        found.unwrap_or_else(|| panic!("no task {id}"))
    }

    pub(crate) fn detail(&self, id: &str) -> TaskDetail {
        let found = self.ask(async || self.store().detail(&self.queue, &task_id(id)).await);
        found.unwrap_or_else(|| panic!("no task {id}"))
    }

    /// What the task printed.
    pub(crate) fn log(&self, id: &str) -> String {
        let entries = self.ask(async || self.store().log(&self.queue, &task_id(id), None, 1000).await);
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.text).into_owned()).collect()
    }

    #[track_caller]
    pub(crate) fn reaches(&self, id: &str, state: TaskState, within: Duration) -> TaskRecord {
        eventually(&format!("{id} is {state}"), within, || {
            let record = self.record(id);
            if record.state == state { Ok(record) } else { Err(format!("{record:?}")) }
        })
    }

    /// Waits until a line of the effects file says that this attempt has started.
    #[track_caller]
    pub(crate) fn starts(&self, id: &str, attempt: u32, within: Duration) {
        eventually(&format!("attempt {attempt} of {id} starts"), within, || {
            let runs = self.effects.of(id);
            if runs.iter().any(|run| run.attempt == attempt) { Ok(()) } else { Err(format!("{runs:?}")) }
        });
    }

    /// Waits until so many tasks have completed.
    #[track_caller]
    pub(crate) fn completes(&self, count: usize, within: Duration) {
        eventually(&format!("{count} tasks are completed"), within, || {
            let facts = self.facts();
            let completed = facts.number("done:completed");
            if completed == count as i64 { Ok(()) } else { Err(format!("{completed}: {facts:?}")) }
        });
    }

    pub(crate) fn facts(&self) -> QueueFacts {
        let look = self.ask(async || self.store().inspect(&self.queue, &[]).await);
        look.expect("a registered queue").facts
    }

    /// A counter of the queue.
    pub(crate) fn total(&self, name: &str) -> i64 {
        self.facts().total(name)
    }

    /// Panics unless it is at most `bound` since `since`. A machine so busy that a sweep came late has made a gap,
    /// and after a gap a lease must be missed for another lease.
    #[track_caller]
    pub(crate) fn assert_within(&self, bound: Duration, since: Instant) {
        let took = since.elapsed();
        let facts = self.facts();
        let now = self.ask(async || self.store().now_ms().await);
        let gap_ago = now.saturating_sub(facts.number("pulse.gap_at").unsigned_abs());
        let gap = u128::from(gap_ago) < (since.elapsed() + self.lease).as_millis();
        let bound = if gap { bound + self.lease } else { bound };
        assert!(took <= bound, "the reclaim took {took:?}, over {bound:?}");
    }

    /// Panics unless it is at most the time of a reclaim since `since`.
    #[track_caller]
    pub(crate) fn assert_reclaimed_in_time(&self, since: Instant) {
        self.assert_within(RECLAIM, since);
    }

    /// Remembers what runs below a worker, its guard among it, to be missed at the end.
    pub(crate) fn note(&self, worker: &Proc) {
        for pid in procfs::descendants(worker.pid()) {
            if let Some(stat) = procfs::stat(pid) {
                self.seen.borrow_mut().insert(pid, stat.started);
            }
        }
    }

    /// SIGKILL; returns when it happened.
    pub(crate) fn kill(&self, worker: &mut Proc) -> Instant {
        self.note(worker);
        let at = Instant::now();
        worker.kill();
        at
    }

    /// SIGTERM, and the worker must end with 0.
    #[track_caller]
    pub(crate) fn stop(&self, process: Proc) -> Finished {
        self.note(&process);
        process.terminate(LIMIT).success()
    }

    /// Running processes of commands of this rig.
    pub(crate) fn commands(&self) -> Vec<i32> {
        procfs::processes_with_env(&self.effects.env())
    }

    /// Ends a test: processes end with 0, none is left, and the doctor finds nothing.
    #[track_caller]
    pub(crate) fn end(self, processes: impl IntoIterator<Item = Proc>) {
        for process in processes {
            self.stop(process);
        }
        eventually("no process of a command is left", GONE_LIMIT, || {
            let left = self.commands();
            if left.is_empty() { Ok(()) } else { Err(procfs::describe(&left)) }
        });
        eventually("no process of a worker is left", GONE_LIMIT, || {
            let seen = self.seen.borrow();
            let there = |(pid, started): &(&i32, &u64)| {
                procfs::stat(**pid).is_some_and(|stat| stat.started == **started && stat.state != 'Z')
            };
            let left: Vec<i32> = seen.iter().filter(there).map(|(pid, _)| *pid).collect();
            if left.is_empty() { Ok(()) } else { Err(procfs::describe(&left)) }
        });
        self.check();
    }

    /// Panics unless the doctor finds every invariant held.
    #[track_caller]
    pub(crate) fn check(&self) {
        let options = doctor::Options { pause: Duration::from_millis(100), ..doctor::Options::default() };
        let report = self.ask(async || doctor::examine(self.store(), &options).await);
        assert!(report.is_clean(), "the doctor found\n{report}");
    }
}

pub(crate) fn task_id(text: &str) -> TaskId {
    TaskId::new(text).expect("a task id")
}

/// `prefix-0`, `prefix-1` ..
pub(crate) fn ids(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}
