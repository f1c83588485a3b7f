//! The processes of the demo: this same binary as a worker or as the reaper.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use leasehold_common::name::WorkerName;
use leasehold_reaper::Reaper;
use leasehold_worker::{ExecPolicy, Worker};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

use super::job::{QUEUE, checksum};
use super::orphan;
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::signals;

/// The lease T of the demo: short, so that a killed worker is noticed while one watches.
pub(super) const LEASE: Duration = Duration::from_secs(2);

/// Tasks that a worker of the demo runs at once.
pub(super) const SLOTS: usize = 4;

/// How long a stopping worker lets its runs finish before it hands them back.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// What a process of the demo does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    /// `worker:NAME`: runs tasks.
    Worker(WorkerName),
    /// `reaper`: reclaims runs of dead workers.
    Reaper,
}

impl FromStr for Role {
    type Err = leasehold_common::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("worker:") {
            Some(name) => Ok(Self::Worker(WorkerName::new(name)?)),
            None if text == "reaper" => Ok(Self::Reaper),
            None => Err(leasehold_common::Error::invalid("role", "is not reaper or worker:NAME")),
        }
    }
}

/// Plays a role until it is told to stop. A reaper that outlives the demo takes down what it `inherited`.
pub(super) async fn play(context: &Context, role: &Role, inherited: &[PathBuf]) -> Result<Exit> {
    let settings = &context.settings;
    match role {
        Role::Worker(name) => {
            let worker = Worker::connect(&settings.redis_url.value).await?;
            let namespace = settings.namespace.value.clone();
            let running = worker
                .queue(QUEUE, SLOTS)
                .name(name)
                .lease(LEASE)
                .drain_grace(DRAIN_GRACE)
                .allow_exec(ExecPolicy::Any)
                .configure(|config| config.namespace = namespace)
                .handle(checksum)
                .run_until(async {
                    let _ = told_to_stop().await;
                });
            running.await?;
        }
        Role::Reaper => {
            let reaper = Reaper::new(context.store()?, leasehold_reaper::Config::default())?;
            let stop = CancellationToken::new();
            let (_, why) = tokio::join!(reaper.run(stop.clone()), async {
                let why = told_to_stop().await;
                stop.cancel();
                why
            });
            if why == Why::Orphaned && !inherited.is_empty() {
                orphan::take_down(context, inherited).await?;
            }
        }
    }
    Ok(Exit::Success)
}

/// Why a process stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It was told to.
    Signal,
    /// The demo is gone: nobody holds the other end of stdin.
    Orphaned,
}

async fn told_to_stop() -> Why {
    let mut stdin = tokio::io::stdin();
    let mut nothing = [0; 16];
    tokio::select! {
        // cancel-safe: whichever comes first ends the process.
        () = signals::asked_to_stop() => Why::Signal,
        _ = stdin.read(&mut nothing) => Why::Orphaned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read() {
        assert_eq!("reaper".parse::<Role>().unwrap(), Role::Reaper);
        assert_eq!("worker:w-1".parse::<Role>().unwrap(), Role::Worker(WorkerName::new("w-1").unwrap()));
        for bad in ["", "worker", "worker:", "worker:a b", "king"] {
            assert!(bad.parse::<Role>().is_err(), "{bad}");
        }
    }
}
