//! `leasehold reaper`: the process that owes every step nobody else does.

use clap::Args;
use leasehold_common::store::Store;
use leasehold_reaper::{Config, Reaper, Stats};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::signals::Stop;

/// Reclaim what dead workers left, end what passed its bounds, queue what is due, remove what is past its
/// retention, in all queues of the namespace. Any number may run.
///
/// Ends on SIGTERM or Ctrl-C. How often it looks: reaper.sweep_every (50ms to 1s) and reaper.cleanup_every (1s to
/// 1d) of leasehold.toml.
#[derive(Debug, Args)]
pub(crate) struct ReaperArgs {}

/// Runs it.
pub(crate) async fn run(context: &Context) -> Result<Exit> {
    let store = context.store()?;
    for warning in store.check_server().await? {
        tracing::warn!("{}", warning.message);
    }
    let stop = Stop::listen(context.output)?;
    let stats = RunningReaper::start(store, &context.settings)?;
    // cancel-safe: a reaper can be left at any point.
    tokio::select! {
        () = stop.orderly.cancelled() => {}
        () = stop.at_once.cancelled() => {}
    }
    // cancel-safe: the second signal leaves it where it is; every call may be repeated by another.
    tokio::select! {
        stats = stats.stop() => { stats?; }
        () = stop.at_once.cancelled() => {}
    }
    Ok(Exit::Success)
}

/// A reaper beside other things of this process.
#[derive(Debug)]
pub(crate) struct RunningReaper {
    stop: CancellationToken,
    task: JoinHandle<Stats>,
}

impl RunningReaper {
    /// Starts it.
    pub(crate) fn start(store: Store, settings: &Settings) -> Result<Self> {
        let config = Config {
            sweep_every: settings.reaper.sweep_every.value,
            cleanup_every: settings.reaper.cleanup_every.value,
            ..Config::default()
        };
        let reaper = Reaper::new(store, config)?;
        let stop = CancellationToken::new();
        let token = stop.clone();
        Ok(Self { stop, task: tokio::spawn(async move { reaper.run(token).await }) })
    }

    /// Ends it and tells what it did.
    pub(crate) async fn stop(self) -> Result<Stats> {
        self.stop.cancel();
        self.task.await.map_err(|error| Failure::failed(format!("the reaper ended badly: {error}")))
    }
}
