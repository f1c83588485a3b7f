//! `leasehold dev`: a private Redis, a reaper and a worker in one terminal.

mod instance;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use leasehold_common::task::DEFAULT_QUEUE;
use leasehold_producer::{QueueName, WorkerName};
use leasehold_worker::ExecPolicy;
use serde_json::{Value, json};

use super::reaper::RunningReaper;
use super::worker::{Plan, serve};
use crate::config::{DEV_FOLDER, Source};
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::output::{self, Output};
use crate::private_redis::{
    self, Confirmation, Env, GivenUrl, Place, Reporter, Running, StderrReporter, Stopped,
};
use crate::signals::Stop;
use instance::Instance;

/// Tasks at once.
const SLOTS: usize = 8;

/// Run everything here in one terminal: a private Redis in ./.leasehold, a reaper, and a worker that runs commands
/// of queue default.
///
/// Redis is found on this machine or fetched, unless --redis-url, the environment or leasehold.toml names one.
/// Other commands typed in this folder use it. Ctrl-C lets runs finish (worker.drain_grace, 25s) and stops all,
/// Redis too; a second Ctrl-C stops all at once. The data stays.
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    #[command(subcommand)]
    action: Option<DevAction>,
}

#[derive(Debug, Subcommand)]
enum DevAction {
    /// Stop what runs in ./.leasehold, from another terminal or after a crash
    Stop,
}

impl DevArgs {
    /// Whether it ends one in the place of running one.
    pub(crate) fn is_stop(&self) -> bool {
        self.action.is_some()
    }
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: &DevArgs) -> Result<Exit> {
    let folder = PathBuf::from(DEV_FOLDER);
    match args.action {
        None => start(context, &folder).await,
        Some(DevAction::Stop) => stop(context, folder).await,
    }
}

async fn start(context: &Context, folder: &Path) -> Result<Exit> {
    let signals = Stop::listen(context.output)?;
    let _instance = Instance::claim(folder)?;
    let output = context.output;
    let (place, env) = (Place::Folder(folder.to_owned()), environment(context));
    let redis = blocking(move || private_redis::provide(&place, &env, &Quietable(output))).await?;
    let url = redis.url();
    let served = serve_all(context, &redis, &url, &signals).await;
    let stopped = blocking(move || redis.stop(&Quietable(output))).await;
    served?;
    say_stopped(output, stopped?);
    Ok(Exit::Success)
}

/// Worker and reaper, until asked to stop.
async fn serve_all(context: &Context, redis: &Running, url: &str, signals: &Stop) -> Result<()> {
    let plan = Plan {
        queues: vec![(QueueName::new(DEFAULT_QUEUE)?, SLOTS)],
        name: context.settings.worker.name.value.is_none().then(|| WorkerName::new("dev")).transpose()?,
        lease: None,
        slots: None,
        drain_grace: None,
        cleanup_timeout: None,
        redact: Vec::new(),
        exec: ExecPolicy::Any,
    };
    let worker = plan.connect(context, url).await?;
    let reaper = RunningReaper::start(context.store_at(url)?, &context.settings)?;
    greet(context, redis)?;
    let served = serve(worker, signals).await;
    reaper.stop().await?;
    served
}

/// What runs, and what to type next.
fn greet(context: &Context, redis: &Running) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    if context.output.is_json() {
        return output::json(&json!({ "version": version, "redis": told(redis), "queue": DEFAULT_QUEUE }));
    }
    let name = own_name();
    output::important(&format!(
        "leasehold {version}\n  redis   {}\n{}  worker  runs commands of queue {DEFAULT_QUEUE}, {SLOTS} at once\n\n\
         Type these in another terminal{}:\n\n  \
         {name} exec {DEFAULT_QUEUE} --wait -- sh -c 'echo hello from $LEASEHOLD_TASK_ID; exit 3'\n  \
         {name} task list\n  \
         {name} doctor\n\n\
         Ctrl-C stops all of it; the data stays.\n",
        redis.describe(),
        match redis {
            Running::Private(private) => format!("  url     {}\n", private.url()),
            // Whoever named it knows it, and it may hold a password.
            Running::Given(_) => String::new(),
        },
        match context.settings.redis_url.source {
            Source::Flag => ", with the same --redis-url",
            _ => ", in this folder",
        }
    ));
    Ok(())
}

/// Which Redis it is, as JSON.
fn told(redis: &Running) -> Value {
    match redis {
        Running::Given(given) => json!({ "given_by": given.variable }),
        Running::Private(private) => json!({
            "url": private.url(),
            "folder": private.folder(),
            "version": private.info().version.to_string(),
            "was_running": private.joined(),
        }),
    }
}

/// The binary as it was called, if that is a path, so that what is pasted works.
fn own_name() -> String {
    let called = std::env::args().next().unwrap_or_default();
    if called.contains('/') { called } else { "leasehold".to_owned() }
}

/// Which Redis the settings name, if they name one.
fn environment(context: &Context) -> Env {
    let setting = &context.settings.redis_url;
    let given = match &setting.source {
        Source::Flag => Some("--redis-url"),
        Source::File(_) => Some("leasehold.toml"),
        Source::Environment(_) => return Env::from_process(),
        Source::DevServer(_) | Source::Default => None,
    };
    Env {
        given: given.map(|variable| GivenUrl { variable, url: setting.value.clone() }),
        ..Env::from_process()
    }
}

async fn stop(context: &Context, folder: PathBuf) -> Result<Exit> {
    let output = context.output;
    let ended = Instance::end(&folder).await?;
    let stopped = blocking(move || private_redis::stop(&folder, &Quietable(output))).await?;
    say_stopped(output, stopped);
    let something = ended.is_some() || stopped != Stopped::NotRunning;
    let killed = matches!(stopped, Stopped::Killed(_));
    output.either(&json!({ "stopped": something, "dev": ended, "redis_killed": killed }), || {
        if something { "stopped".to_owned() } else { "nothing runs here".to_owned() }
    })?;
    Ok(Exit::Success)
}

fn say_stopped(output: Output, stopped: Stopped) {
    match stopped {
        Stopped::NotRunning => {}
        Stopped::Terminated(pid) => output.note(&format!("redis: process {pid} stopped")),
        Stopped::Killed(pid) => {
            output::warn(&format!(
                "redis: process {pid} had to be killed; its last second of writes may be lost"
            ));
        }
    }
}

/// Runs what blocks beside the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, private_redis::Error> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| Failure::failed(format!("cannot look after Redis: {error}")))??)
}

/// Steps on stderr, unless `--quiet`.
struct Quietable(Output);

impl Reporter for Quietable {
    fn say(&self, line: &str) {
        self.0.note(line);
    }

    fn confirm(&self, question: &str) -> Confirmation {
        StderrReporter.confirm(question)
    }
}
