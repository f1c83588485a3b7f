//! `leasehold demo`: the main job on real files, with crashes, aborts and retries, checked to the last task.
//!
//! - [`files`], [`plan`], [`job`]: which files, which tasks, and what a task does
//! - [`stage`], [`crew`], [`role`], [`orphan`], [`processes`]: the Redis and the processes, and how none of it stays behind
//! - [`opening`], [`play`], [`acts`]: what happens, in order
//! - [`collect`], [`accounts`], [`summary`]: what became of it, whether that adds up (pure), and the file that says so
//! - [`show`], [`report`]: what a person sees
//! - [`wedge`]: the other demo, of one lane, with the same processes

mod accounts;
mod acts;
mod collect;
mod crew;
mod files;
mod job;
mod opening;
mod orphan;
mod plan;
mod play;
mod processes;
mod report;
mod role;
mod show;
mod stage;
mod summary;
mod wedge;

use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};

use clap::Args;

use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::signals;
use role::Role;
use show::Show;
use stage::Stage;
use summary::{LeftOver, Place, Summary};

/// See the main job on real files: crashes, aborts, retries, and a verdict.
///
/// Takes the files below DIR, enqueues a task for each (checksum and compress) and some shell commands, runs three
/// workers and a reaper, kills a worker with SIGKILL in the middle, aborts a command, lets one run into its
/// timeout, has one fail and retry, and stops a worker that hands its work back. At the end every result is
/// compared with its file, the doctor looks at every invariant, and target/demo/summary.json holds the details.
///
/// Exits with 0 only if every task is accounted for and nothing is left over. Files are only read; at most 2000 of
/// at most 16 MiB each; .git, target, .leasehold, links and special files are skipped. Redis is a private one in a
/// temporary folder, or the one that --redis-url, LEASEHOLD_REDIS_URL, REDIS_URL or leasehold.toml names: there the
/// demo works in a namespace of its own and removes it.
///
/// --wedge shows a lane, a session of an agent whose turns run one at a time: what runs, what waits behind it, and how
/// the lane goes on by itself when the worker is killed, when it is frozen and comes back, and when a turn is aborted.
/// The commands write to a file outside Redis what really ran. Exits with 0 only if no two ever ran at once, the order
/// was kept, every turn ended as it should, and the doctor finds every invariant kept.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The folder to work on
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Play with one lane instead: its worker is killed, then frozen, then a task aborted, and it always goes on
    #[arg(long, conflicts_with = "directory")]
    wedge: bool,
    /// Keep Redis with its data, and the logs of the processes, and say where they are
    #[arg(long)]
    keep: bool,
    /// What a process of the demo does
    #[arg(long, hide = true, value_name = "ROLE")]
    role: Option<Role>,
    /// What it removes if the demo is killed
    #[arg(long = "inherit", hide = true, value_name = "DIR")]
    inherited: Vec<PathBuf>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: &DemoArgs) -> Result<Exit> {
    match &args.role {
        Some(role) => Box::pin(role::play(context, role, &args.inherited)).await,
        None if args.wedge => Box::pin(wedge::run(context, args.keep)).await,
        None => Box::pin(demo(context, args)).await,
    }
}

async fn demo(context: &Context, args: &DemoArgs) -> Result<Exit> {
    let mut stop = pin!(signals::asked_to_stop());
    // Listens from here on: a signal during the set-up is seen after it, and finds something to end.
    let _ = futures::poll!(stop.as_mut());
    let place = Place::prepare(Path::new(""))?;
    let show = Show::new(context.output);
    let directory = args.directory.clone();
    let listing =
        tokio::task::spawn_blocking(move || files::list(&directory, files::Bounds::default())).await;
    let listing = listing.map_err(|error| Failure::failed(format!("cannot list the files: {error}")))??;
    let directory = std::fs::canonicalize(&args.directory).unwrap_or_else(|_| args.directory.clone());
    let directory = directory.display().to_string();
    show.say(&format!("demo: {} files below {directory}", listing.files.len()));
    let playing = async |stage: &mut Stage| play::play(stage, &show, directory, listing).await;
    let (summary, problems, left_over) = on_stage(context, &show, args.keep, stop, playing).await?;
    let summary = accounts::close(Summary { problems, left_over, ..summary });
    place.write(&summary)?;
    report::print(context.output, &summary, place.path())?;
    Ok(if summary.ok { Exit::Success } else { Exit::Failed })
}

/// Sets a stage, lets it be played on until `stop`, and takes it down whatever happened: what was played, what went
/// wrong while all of it was ended, and what was left over.
async fn on_stage<T>(
    context: &Context,
    show: &Show,
    keep: bool,
    stop: Pin<&mut impl Future<Output = ()>>,
    play: impl AsyncFnOnce(&mut Stage) -> Result<T>,
) -> Result<(T, Vec<String>, LeftOver)> {
    let mut stage = Stage::open(context, show, keep).await?;
    if stage.is_guest() {
        show.say(&format!("redis: {}, in the namespace {}", stage.server, stage.namespace));
    }
    let played = tokio::select! {
        // cancel-safe: what was dropped is taken down below, whatever it was doing.
        biased;
        () = stop => Err(Failure::new(Exit::Aborted, "interrupted: everything that the demo started was ended")),
        played = Box::pin(play(&mut stage)) => played,
    };
    let (problems, left) = stage.close(played.is_ok(), keep).await;
    match played {
        Ok(played) => Ok((played, problems, left)),
        Err(failure) => {
            problems.iter().for_each(|problem| show.say(&format!("problem: {problem}")));
            Err(failure)
        }
    }
}
