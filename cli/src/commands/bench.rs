//! `leasehold bench`: what Leasehold costs beside plain Redis Streams, measured here and now.

use std::path::{Path, PathBuf};

use clap::Args;
use leasehold_bench::plan::Scale;
use leasehold_bench::{Error as BenchError, Plan, Progress, Report, Row, Target, page};
use tokio_util::sync::CancellationToken;

use crate::args::values;
use crate::context::Context;
use crate::error::{Failure, Result, chain};
use crate::exit::Exit;
use crate::output::Output;
use crate::private_redis::{Confirmation, Env, Place, Reporter, Running, StderrReporter, provide};
use crate::signals;

/// Measure Leasehold beside plain Redis Streams: both in turn on one Redis, told as ratios with their bars.
///
/// Redis is a private one without persistence, or the one that --redis-url, LEASEHOLD_REDIS_URL, REDIS_URL or
/// leasehold.toml names, unless --private. There it works in a namespace of its own, whatever --namespace says, and
/// removes it, also after Ctrl-C; it loads that Redis as much as it can, queues a million tasks (about 1 GB; --rows leaves rows out), and
/// other traffic disturbs the figures. The doctor looks at every invariant after each stretch of work; a breach ends
/// the benchmark with 1. About 8 minutes.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Only these rows: cpu, discard, calls, drain, flow, enqueue, client, pickup, queued, kept, depth, leases,
    /// idle, delayed, latency [default: all]
    #[arg(long, value_name = "ROW,..", value_delimiter = ',', value_parser = str::parse::<Row>)]
    rows: Vec<Row>,
    /// Tasks of a round: 10 to 1000000 [default: 20000, with --quick 500]
    #[arg(long, value_name = "N", value_parser = tasks)]
    tasks: Option<usize>,
    /// How often each pair of raw and ours is measured: 1 to 100 [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = rounds)]
    rounds: Option<usize>,
    /// Slots of the worker: 1 to 10000
    #[arg(long, value_name = "N", default_value = "100", value_parser = values::slots)]
    slots: usize,
    /// A run of seconds, with small numbers: it shows that all of it works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// Start a private Redis, whichever is named
    #[arg(long)]
    private: bool,
    /// Exit with 1 when a bar is not met
    #[arg(long)]
    check: bool,
    /// Write the JSON document to FILE, too
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Replace the table in FILE, a page with the marks of docs/performance.md; only with all rows in full size
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
}

fn number(
    field: &'static str,
    text: &str,
    range: &std::ops::RangeInclusive<usize>,
) -> Result<usize, leasehold_common::Error> {
    values::count(field, text, *range.start() as u64, *range.end() as u64).map(|n| n as usize)
}

fn tasks(text: &str) -> Result<usize, leasehold_common::Error> {
    number("tasks", text, &leasehold_bench::plan::TASKS)
}

fn rounds(text: &str) -> Result<usize, leasehold_common::Error> {
    number("rounds", text, &leasehold_bench::plan::ROUNDS)
}

impl BenchArgs {
    fn plan(&self) -> Plan {
        let base = if self.quick { Plan::quick() } else { Plan::default() };
        Plan {
            rows: if self.rows.is_empty() { base.rows } else { self.rows.iter().copied().collect() },
            tasks: self.tasks.unwrap_or(base.tasks),
            rounds: self.rounds.unwrap_or(base.rounds),
            slots: self.slots,
            scale: if self.quick { Scale::quick() } else { Scale::full() },
        }
    }
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: &BenchArgs) -> Result<Exit> {
    let (plan, output) = (args.plan(), context.output);
    if let Some(page) = &args.update {
        check_page(page, &plan)?;
    }
    if let Some(path) = &args.save {
        check_writable(path)?;
    }
    let stop = CancellationToken::new();
    let asked = stop.clone();
    tokio::spawn(async move {
        signals::asked_to_stop().await;
        output.note("stopping: what the benchmark made is removed");
        asked.cancel();
    });
    let redis = Redis::provide(context, args.private).await?;
    let target = redis.target();
    let measured = Box::pin(leasehold_bench::run(&plan, &target, &stop, &Steps(output))).await;
    redis.stop().await?;
    let report = measured.map_err(failure)?;
    tell(context, args, &report)?;
    let unmet = report.unmet().next().is_some();
    Ok(if args.check && unmet { Exit::Failed } else { Exit::Success })
}

/// Refuses a page that could not be updated, before minutes are spent.
fn check_page(page: &Path, plan: &Plan) -> Result<()> {
    if !plan.is_full() {
        return Err(Failure::usage("update", "only all rows in full size belong in a page"));
    }
    page::replaced(&read(page)?, "").map(drop).map_err(failure)
}

/// Refuses a file that could not be written, before minutes are spent, and leaves what is there as it is.
fn check_writable(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| unwritable(path, &error))?;
    if is_new {
        std::fs::remove_file(path).map_err(|error| unwritable(path, &error))?;
    }
    Ok(())
}

fn read(page: &Path) -> Result<String> {
    std::fs::read_to_string(page)
        .map_err(|error| Failure::io(format!("cannot read {}", page.display()), &error))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(format!("cannot write {}", path.display()), error)
}

/// The table or the document, and the files that were asked for.
fn tell(context: &Context, args: &BenchArgs, report: &Report) -> Result<()> {
    context.output.either(&report.json(), || report.text().trim_end().to_owned())?;
    if let Some(path) = &args.save {
        write(path, &format!("{:#}\n", report.json()))?;
    }
    if let Some(path) = &args.update {
        write(path, &page::replaced(&read(path)?, &report.text()).map_err(failure)?)?;
    }
    context.output.note(&report.summary());
    Ok(())
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Invalid { .. } => Failure::new(Exit::Usage, error.to_string()),
        BenchError::Interrupted => Failure::new(Exit::Aborted, error.to_string()),
        BenchError::Protocol(error) => Failure::from(error),
        BenchError::Producer(error) => Failure::from(error),
        BenchError::Worker(error) => Failure::from(error),
        other => Failure::failed(chain(&other)),
    }
}

/// Steps on stderr, unless `--quiet`.
#[derive(Debug, Clone, Copy)]
struct Steps(Output);

impl Progress for Steps {
    fn say(&self, line: &str) {
        self.0.note(line);
    }
}

impl Reporter for Steps {
    fn say(&self, line: &str) {
        self.0.note(line);
    }

    fn confirm(&self, question: &str) -> Confirmation {
        StderrReporter.confirm(question)
    }
}

/// The Redis, ended with the value if it is a private one.
#[derive(Debug)]
struct Redis {
    running: Option<Running>,
    steps: Steps,
}

impl Redis {
    async fn provide(context: &Context, private: bool) -> Result<Self> {
        let given = context.given_redis().filter(|_| !private);
        let (env, steps) = (Env { given, ..Env::from_process() }, Steps(context.output));
        let providing = tokio::task::spawn_blocking(move || provide(&Place::Memory, &env, &steps)).await;
        let running =
            providing.map_err(|error| Failure::failed(format!("cannot start Redis: {error}")))??;
        context.output.note(&format!("redis: {}", running.describe()));
        Ok(Self { running: Some(running), steps })
    }

    fn target(&self) -> Target {
        let own = matches!(self.running, Some(Running::Private(_)));
        Target { url: self.running.as_ref().map(Running::url).unwrap_or_default(), own }
    }

    /// Ends it.
    async fn stop(mut self) -> Result<()> {
        let ended = tokio::task::spawn_blocking(move || self.end()).await;
        ended.map_err(|error| Failure::failed(format!("Redis was not ended: {error}")))?
    }

    fn end(&mut self) -> Result<()> {
        match self.running.take() {
            Some(running) => Ok(running.stop(&self.steps).map(drop)?),
            None => Ok(()),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Reached with a server after a panic only, which is what is told then.
        let _ = self.end();
    }
}
