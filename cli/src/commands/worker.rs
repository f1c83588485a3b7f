//! `leasehold worker`: claims tasks and runs the commands among them.

use std::time::Duration;

use clap::Args;
use leasehold_producer::{QueueName, WorkerName};
use leasehold_worker::{ExecPolicy, Worker};

use super::reaper::RunningReaper;
use crate::args::values;
use crate::config::Source;
use crate::context::Context;
use crate::error::{Failure, Result, chain};
use crate::exit::Exit;
use crate::signals::Stop;

/// Claim tasks of some queues and run the commands among them (handlers live in workers of your own, in Rust).
///
/// SIGTERM or Ctrl-C stops it in order: it claims nothing more, lets its runs finish within the drain grace, and
/// hands the others back at the front of their queues. A second signal ends it at once.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// A queue, and how many of its tasks may run here at once (1 to 10000 slots); repeatable
    #[arg(long = "queue", value_name = "NAME=SLOTS", required = true, value_parser = values::queue_slots)]
    queues: Vec<(QueueName, usize)>,
    /// Its stable name: 1 to 64 characters of A-Z a-z 0-9 . _ -; no two workers that live may share one, and one that
    /// starts under the name of a dead one runs its tasks again at once [default: worker.name, else the first of
    /// HOST, HOST-2, HOST-3 .. that is free]
    #[arg(long, value_name = "NAME")]
    name: Option<WorkerName>,
    /// The lease of queues that it is the first to use: a duration with its unit, 1s to 10m; a dead worker is
    /// noticed within about 1.4 of it [default: worker.lease, else 15s]
    #[arg(long, value_name = "DUR", value_parser = values::lease)]
    lease: Option<Duration>,
    /// Tasks at once over all its queues: 1 to 10000 slots [default: worker.slots, else the sum of the queues']
    #[arg(long, value_name = "TOTAL", value_parser = values::slots)]
    slots: Option<usize>,
    /// How long its runs may finish when it is stopped: a duration with its unit, 0s to 1d [default:
    /// worker.drain_grace, else 25s]
    #[arg(long, value_name = "DUR", value_parser = values::drain_grace)]
    drain_grace: Option<Duration>,
    /// How long each cleanup of a handler may take after its run: a duration with its unit, 0s to 10m [default:
    /// worker.cleanup_timeout, else 5s]
    #[arg(long, value_name = "DUR", value_parser = values::cleanup_timeout)]
    cleanup_timeout: Option<Duration>,
    /// A variable of this worker's own environment whose value shows as *** in all that its runs tell: output, log,
    /// progress and messages; it must be set, to 4 bytes or more; repeatable
    #[arg(long = "redact-env", value_name = "NAME")]
    redact_env: Vec<String>,
    /// Run commands: any, or those whose program matches GLOB, an absolute path in which * stays within a folder
    /// and ** does not; repeatable
    #[arg(
        long,
        value_name = "GLOB",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = values::exec_pattern
    )]
    allow_exec: Vec<String>,
    /// Run a reaper inside, too
    #[arg(long)]
    with_reaper: bool,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: &WorkerArgs) -> Result<Exit> {
    let queues = distinct(&args.queues)?;
    let exec = ExecPolicy::from_options(&args.allow_exec)
        .map_err(|error| Failure::usage("allow_exec", chain(&error)))?;
    let stop = Stop::listen(context.output)?;
    let worker = Plan {
        queues,
        name: args.name.clone(),
        lease: args.lease,
        slots: args.slots,
        drain_grace: args.drain_grace,
        cleanup_timeout: args.cleanup_timeout,
        redact: args.redact_env.clone(),
        exec,
    }
    .connect(context, &context.settings.redis_url.value)
    .await?;
    let reaper =
        args.with_reaper.then(|| RunningReaper::start(context.store()?, &context.settings)).transpose()?;
    let ended = serve(worker, &stop).await;
    if let Some(reaper) = reaper {
        tokio::select! {
            // cancel-safe: waiting only; at the second signal nobody waits for calls in flight.
            stopped = reaper.stop() => drop(stopped?),
            () = stop.at_once.cancelled() => {}
        }
    }
    ended?;
    Ok(Exit::Success)
}

/// A queue may be named once.
fn distinct(queues: &[(QueueName, usize)]) -> Result<Vec<(QueueName, usize)>> {
    for (at, (queue, _)) in queues.iter().enumerate() {
        if queues[..at].iter().any(|(other, _)| other == queue) {
            return Err(Failure::usage("queue", format!("{queue} is named twice")));
        }
    }
    Ok(queues.to_vec())
}

/// A worker to be.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Slots per queue.
    pub(crate) queues: Vec<(QueueName, usize)>,
    /// Its name, unless it is the setting's.
    pub(crate) name: Option<WorkerName>,
    /// The lease of new queues, unless it is the setting's.
    pub(crate) lease: Option<Duration>,
    /// Slots over all queues, unless they are the setting's.
    pub(crate) slots: Option<usize>,
    /// Unless it is the setting's.
    pub(crate) drain_grace: Option<Duration>,
    /// Of one cleanup, unless it is the setting's.
    pub(crate) cleanup_timeout: Option<Duration>,
    /// Its own variables that are secrets.
    pub(crate) redact: Vec<String>,
    /// Which commands it runs.
    pub(crate) exec: ExecPolicy,
}

impl Plan {
    /// Connects it to Redis at `url`; nothing is claimed yet.
    pub(crate) async fn connect(self, context: &Context, url: &str) -> Result<Worker> {
        let settings = &context.settings;
        let lease = settings.worker.lease.or_flag(self.lease);
        // A lease that nobody chose is no reason to warn of a queue that has another.
        let chosen = self.lease.is_some() || !matches!(settings.worker.lease.source, Source::Default);
        let name = settings.worker.name.or_flag(self.name.map(Some));
        let mut worker = Worker::connect(url)
            .await?
            .drain_grace(settings.worker.drain_grace.or_flag(self.drain_grace))
            .allow_exec(self.exec);
        for (queue, slots) in &self.queues {
            worker = worker.queue(queue, *slots);
        }
        let cleanup_timeout = settings.worker.cleanup_timeout.or_flag(self.cleanup_timeout);
        let total = settings.worker.slots.or_flag(self.slots.map(Some));
        Ok(worker.configure(|config| {
            config.namespace = settings.namespace.value.clone();
            config.total_slots = total;
            config.cleanup_timeout = cleanup_timeout;
            config.redact = self.redact;
            config.lease = chosen.then_some(lease);
            config.limits = settings.limits();
            config.queue_settings = settings.queue_settings(lease);
            config.name = name;
        }))
    }
}

/// Runs a worker until it is asked to stop, by one signal or two.
pub(crate) async fn serve(worker: Worker, stop: &Stop) -> Result<()> {
    let (at_once, second) = (worker.at_once(), stop.at_once.clone());
    let hurry = tokio::spawn(async move {
        second.cancelled().await;
        at_once.cancel();
    });
    let ended = worker.run_until(stop.orderly.clone().cancelled_owned()).await;
    hurry.abort();
    Ok(ended?)
}
