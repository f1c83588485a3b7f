//! A worker of the soak, for handlers and commands of two queues.

use std::process::ExitCode;
use std::time::Duration;

use leasehold_tests::trail::{BUDGET, Deed, HANDLER, Play, Trail, work};
use leasehold_worker::{Context, ExecPolicy, RunError, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

/// The handler's task.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Soak(Play);

impl Task for Soak {
    const NAME: &'static str = HANDLER;
    type Output = u64;
}

pub(crate) fn run(name: &str) -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let url = std::env::var("LEASEHOLD_REDIS_URL").expect("the environment names Redis");
        let worker = Worker::connect(url).await.expect("a worker");
        let worker = worker.queue("mixed", 4).queue("shell", 2).name(name).allow_exec(ExecPolicy::Any);
        let worker = worker.drain_grace(Duration::from_millis(700)).handle(play);
        let mut asked = signal(SignalKind::terminate()).expect("listen to TERM");
        let ended = worker.run_until(async move { asked.recv().await.unwrap_or(()) }).await;
        ended.map_or_else(
            |error| {
                tracing::error!(%error, "the worker ended");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        )
    })
}

async fn play(context: Context, Soak(play): Soak) -> Result<u64, TaskError> {
    let trail = Trail::of(context.id().as_str(), context.attempt(), play.lane.as_deref());
    trail.note("start");
    let mut deaf = false;
    for deed in play.deeds {
        match deed {
            Deed::Deaf => deaf = true,
            Deed::Work(ms) => {
                let working = work(&trail, Duration::from_millis(ms));
                tokio::select! {
                    // cancel-safe: the work is given up.
                    () = working => {}
                    () = context.stopped().cancelled(), if !deaf => return Err(TaskError::retry("told to stop")),
                }
            }
            Deed::Phase(name, ms) => context.phase(name, Duration::from_millis(ms)).await?,
            Deed::Spend(amount) => {
                context.spend(BUDGET, amount).await.map_err(|error| spent_out(&trail, error))?;
                trail.note(&format!("spent:{amount}"));
            }
            Deed::FailFirst(most) if context.attempt() > most => {}
            Deed::FailFirst(_) | Deed::Fail => {
                trail.note("fail");
                return Err(TaskError::retry("it is to fail"));
            }
            Deed::Child => return Err(TaskError::fatal("a handler has no child")),
        }
    }
    trail.note("end");
    Ok(context.attempt())
}

fn spent_out(trail: &Trail, error: RunError) -> TaskError {
    trail.note("fail");
    error.into()
}
