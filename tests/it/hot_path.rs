//! What the hot path costs, in counts that no machine can make noisy: calls of clients, and commands that Redis runs
//! inside them.
//!
//! A change that costs a command shows here at once. Where it is worth it, put the table that the failed test prints in
//! the place of [`EXPECTED`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_common::store::{Beat, BeatAnswer, ClaimedTask, Finish, FinishAnswer, NewTask, QueueSettings};
use leasehold_common::task::encode;
use leasehold_tests::queue::{Hand, Queue, done, task, task_with};
use leasehold_tests::{Monitor, RedisServer, eventually_async};
use leasehold_worker::{Context, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::reaper_kit::real;

/// Tasks of the phases in bulk, and of one call.
const TASKS: usize = 1_000;
const BATCH: usize = 100;
/// What a worker asks for when nothing is queued, or one task.
const WANT: usize = 16;

/// Commands that the statistics themselves send.
const OF_THE_TEST: [&str; 4] = ["client|setinfo", "config|resetstat", "hello", "info"];
/// The one command that clients send on the hot path.
const CALL: &str = "evalsha";

/// How often each command ran, by phase; a point stands for none.
///
/// In hundreds: `enqueue`, `claim`, `finish` of 1,000 tasks; `discard`: a finish where completed tasks are not kept;
/// `beat`: a heartbeat of 100 runs, `beaten`: their finish, which has lease keys to delete. Then one task alone by a
/// worker with 16 free slots, and a claim that finds nothing.
const EXPECTED: &str = "
              enqueue    claim   finish  discard     beat   beaten enqueue 1  claim 1 finish 1     idle
tasks            1000     1000     1000     1000      100      100        1        1        1        0
client calls       10       10       10       10        1        1        1        1        1        1

del                 .       11       10       10        1        1        .        1        1        1
exists             10       10       10       10        .        1        1        1        1        1
get                 .       30       10       10        1        1        .        3        1        3
hincrby            20       20       20       30        .        2        2        2        2        .
hlen               10       10       10       10        .        1        1        1        1        1
hmget              10       10       10       10        1        1        1        1        1        1
mget                .       10       10       10        2        1        .        1        1        .
mset               10       10       10        .        .        1        1        1        1        .
set                 .       20        .        .      101        .        .        3        .        2
time               10       10       10       10        1        1        1        1        1        1
unlink              .        .        .       10        .        1        .        .        .        .
xadd             1020       20       20       20        .        2        2        1        1        .
xlen               20       20       10       10        .        1        2        2        1        2
xrange              .       10        .        .        .        .        .        1        .        .
xtrim               .       10        .        .        .        .        .        1        .        .
zadd               10       29       10       10        .        1        1        1        1        .
zcard              20       20       20       30        1        2        2        2        2        2
zrange              .       10        .        .        .        .        .        1        .        1
zrem                .       10       10       10        .        1        .        .        1        .

commands         1140      270      170      190      108       18       14       24       16       15
a task           1.14     0.27     0.17     0.19     1.08     0.18    14.00    24.00    16.00        .
";

/// The phases measured so far.
struct Phases(Vec<Phase>);

struct Phase {
    name: &'static str,
    tasks: usize,
    counts: BTreeMap<String, u64>,
}

impl Phases {
    /// Counts what Redis runs for `work`, on a server that nobody else uses.
    async fn count<T>(
        &mut self,
        server: &RedisServer,
        name: &'static str,
        tasks: usize,
        work: impl Future<Output = T>,
    ) -> T {
        server.reset_stats();
        let output = work.await;
        let stats = server.command_stats().into_iter();
        let counts = stats.filter(|(name, _)| !OF_THE_TEST.contains(&name.as_str()));
        self.0.push(Phase { name, tasks, counts: counts.map(|(name, stat)| (name, stat.calls)).collect() });
        output
    }

    fn table(&self) -> String {
        let commands: BTreeSet<&str> =
            self.0.iter().flat_map(|p| p.counts.keys().map(String::as_str)).collect();
        let mut table = row("", self.0.iter().map(|p| p.name.to_owned()));
        table += &row("tasks", self.0.iter().map(|p| p.tasks.to_string()));
        table += &row("client calls", self.0.iter().map(|p| count(p.of(CALL))));
        table.push('\n');
        for command in commands.into_iter().filter(|name| *name != CALL) {
            table += &row(command, self.0.iter().map(|p| count(p.of(command))));
        }
        table.push('\n');
        table += &row("commands", self.0.iter().map(|p| count(p.inside())));
        table += &row("a task", self.0.iter().map(Phase::per_task));
        table
    }
}

impl Phase {
    fn of(&self, command: &str) -> u64 {
        self.counts.get(command).copied().unwrap_or_default()
    }

    /// Commands inside the scripts.
    fn inside(&self) -> u64 {
        self.counts.values().sum::<u64>() - self.of(CALL)
    }

    fn per_task(&self) -> String {
        if self.tasks == 0 {
            ".".to_owned()
        } else {
            format!("{:.2}", self.inside() as f64 / self.tasks as f64)
        }
    }
}

fn count(n: u64) -> String {
    if n == 0 { ".".to_owned() } else { n.to_string() }
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let mut line = format!("{name:<12}");
    for cell in cells {
        write!(line, " {cell:>8}").expect("text takes text");
    }
    line + "\n"
}

fn tasks(prefix: &str, count: usize) -> Vec<NewTask> {
    (0..count).map(|i| task_with(&format!("{prefix}{i}"), |task| task.body.payload = vec![7; 200])).collect()
}

/// A queue on the real clock whose scripts are loaded.
async fn warm(settings: QueueSettings) -> (Queue, Hand) {
    let (queue, hand) = (real(RedisServer::builder().no_persistence(), settings).await, Hand::new("w"));
    let first = queue.running(&hand, task("first")).await;
    queue.beat(&hand, &first).await;
    queue.finish(&hand, done(&first)).await;
    // It watches from now on, as an idle worker does.
    assert!(queue.claim(&hand, WANT).await.is_empty());
    (queue, hand)
}

async fn enqueue(queue: &Queue, tasks: &[NewTask]) {
    for batch in tasks.chunks(BATCH) {
        queue.enqueue(batch).await;
    }
}

async fn claim(queue: &Queue, hand: &Hand, count: usize) -> Vec<ClaimedTask> {
    let mut claimed = Vec::new();
    for _ in 0..count / BATCH {
        claimed.extend(queue.claim(hand, BATCH).await);
    }
    assert_eq!(claimed.len(), count, "all are claimed, in full hundreds");
    claimed
}

async fn finish(queue: &Queue, hand: &Hand, runs: &[ClaimedTask]) {
    for batch in runs.chunks(BATCH) {
        let ends: Vec<Finish> = batch.iter().map(done).collect();
        let answers = queue.store.finish(&queue.name, &hand.inc, &ends).await.expect("finish");
        assert!(answers.iter().all(|answer| matches!(answer, FinishAnswer::Accepted(_))), "{answers:?}");
    }
}

async fn beat(queue: &Queue, hand: &Hand, runs: &[ClaimedTask]) {
    let beats: Vec<Beat> =
        runs.iter().map(|t| Beat { id: t.id.clone(), run: t.run.clone(), stopping: false }).collect();
    let answers = queue.store.heartbeat(&queue.name, &hand.inc, &beats).await.expect("heartbeat").answers;
    assert!(answers.iter().all(|answer| *answer == BeatAnswer::Ok), "{answers:?}");
}

async fn in_bulk(phases: &mut Phases) {
    let (queue, hand) = warm(QueueSettings::default()).await;
    let new = tasks("t", TASKS);
    phases.count(&queue.server, "enqueue", TASKS, enqueue(&queue, &new)).await;
    let runs = phases.count(&queue.server, "claim", TASKS, claim(&queue, &hand, TASKS)).await;
    phases.count(&queue.server, "finish", TASKS, finish(&queue, &hand, &runs)).await;
    queue.check().await;
}

async fn discarded(phases: &mut Phases) {
    let settings = QueueSettings { retain_completed: Duration::ZERO, ..QueueSettings::default() };
    let (queue, hand) = warm(settings).await;
    enqueue(&queue, &tasks("t", TASKS)).await;
    let runs = claim(&queue, &hand, TASKS).await;
    phases.count(&queue.server, "discard", TASKS, finish(&queue, &hand, &runs)).await;
    queue.check().await;
}

async fn beaten(phases: &mut Phases) {
    let (queue, hand) = warm(QueueSettings::default()).await;
    enqueue(&queue, &tasks("t", BATCH)).await;
    let runs = claim(&queue, &hand, BATCH).await;
    phases.count(&queue.server, "beat", BATCH, beat(&queue, &hand, &runs)).await;
    phases.count(&queue.server, "beaten", BATCH, finish(&queue, &hand, &runs)).await;
    queue.check().await;
}

async fn alone(phases: &mut Phases) {
    let (queue, hand) = warm(QueueSettings::default()).await;
    phases.count(&queue.server, "enqueue 1", 1, enqueue(&queue, &tasks("t", 1))).await;
    let runs = phases.count(&queue.server, "claim 1", 1, queue.claim(&hand, WANT)).await;
    phases.count(&queue.server, "finish 1", 1, finish(&queue, &hand, &runs)).await;
    let none = phases.count(&queue.server, "idle", 0, queue.claim(&hand, WANT)).await;
    assert_eq!((runs.len(), none.len()), (1, 0));
    queue.check().await;
}

#[tokio::test]
async fn the_hot_path_costs_exactly_these_calls_and_commands() {
    let mut phases = Phases(Vec::new());
    in_bulk(&mut phases).await;
    discarded(&mut phases).await;
    beaten(&mut phases).await;
    alone(&mut phases).await;
    let (table, expected) = (phases.table(), EXPECTED.trim_start_matches('\n'));
    assert!(
        table == expected,
        "the hot path costs other calls or commands than listed:\n\n{table}\nlisted are:\n\n{expected}"
    );
}

#[derive(Serialize, Deserialize)]
struct Nothing;

impl Task for Nothing {
    const NAME: &'static str = "nothing";
    type Output = ();
}

/// A whole worker, its start and its end included.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_sends_at_most_one_command_for_ten_tasks() {
    const DRAINED: usize = 5_000;
    const PER_TASK: f64 = 0.1;
    let queue = real(RedisServer::builder().no_persistence(), QueueSettings::default()).await;
    let mut new = tasks("t", DRAINED);
    for task in &mut new {
        task.body.name = Nothing::NAME.parse().expect("a task name");
        task.body.payload = encode("payload", &Nothing).expect("a payload");
    }
    enqueue(&queue, &new).await;

    let monitor = Monitor::start(&queue.server);
    let (ran, shutdown) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let counter = Arc::clone(&ran);
    let worker = Worker::connect(queue.server.url()).await.expect("a worker").queue(queue.name.as_str(), 100);
    let worker = worker.handle(move |_: Context, _: Nothing| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Ok::<(), TaskError>(()) }
    });
    let working = tokio::spawn(worker.run_until(shutdown.clone().cancelled_owned()));
    eventually_async("all have run", Duration::from_secs(60), async || match ran.load(Ordering::Relaxed) {
        DRAINED => Ok(()),
        n => Err(format!("{n} tasks")),
    })
    .await;
    // It ends when the last finish is answered.
    shutdown.cancel();
    working.await.expect("no panic").expect("the worker ends in order");

    let mut sent = BTreeMap::<String, usize>::new();
    for command in monitor.seen().into_iter().filter(|command| command.client.is_some()) {
        *sent.entry(command.words[0].to_lowercase()).or_default() += 1;
    }
    let per_task = sent.values().sum::<usize>() as f64 / DRAINED as f64;
    eprintln!("{per_task:.4} commands a task: {sent:?}");
    assert!(sent.contains_key(CALL) && per_task <= PER_TASK, "{per_task:.4} commands a task: {sent:?}");
    assert_eq!(queue.total("completed"), DRAINED as u64);
    queue.check().await;
}
