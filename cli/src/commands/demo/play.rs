//! The demo from its first task to its last, on a stage that stands.

use std::time::Duration;

use leasehold_producer::{TaskId, TaskState};
use tokio::time::Instant;

use super::acts::{self, Scene};
use super::files::Listing;
use super::plan::{Plan, WORKERS};
use super::role::LEASE;
use super::show::Show;
use super::stage::Stage;
use super::summary::{FORMAT, LeftOver, Reclaim, Scenario, Summary, Totals, Versions};
use super::{collect, opening};
use crate::error::Result;

/// When for so long no task ends, the demo waits no more and says which are open.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// The worker is killed when one in so many of the files are done.
const MIDDLE: usize = 3;

/// Plays it. Problems of single tasks are in the summary; an error says that there is none.
pub(super) async fn play(
    stage: &mut Stage,
    show: &Show,
    directory: String,
    listing: Listing,
) -> Result<Summary> {
    let scene = opening::connect(stage, show).await?;
    let workers: Vec<String> = (1..=WORKERS).map(|number| format!("demo-{number}")).collect();
    opening::start(stage, &scene, &workers).await?;
    let plan = Plan::new(listing.files);
    let begun = Instant::now();
    let started_ms = scene.producer.now_ms().await?;
    enqueue(&scene, &plan).await?;
    let following = show.follow(scene.producer.clone(), scene.queue.clone(), plan.len());
    let (mut scenarios, reclaims) = perform(stage, &scene, &plan).await?;
    drop(following);
    let took = begun.elapsed();

    show.say("comparing every result with its file");
    let tasks = collect::rows(&scene, &plan).await?;
    scenarios.extend(collect::scenarios(&plan, &tasks));
    let store = scene.producer.store();
    let status = scene.producer.queue_status(&scene.queue).await?;
    let kept = status.map(|status| status.counts).unwrap_or_default();
    Ok(Summary {
        format: FORMAT,
        versions: Versions {
            leasehold: env!("CARGO_PKG_VERSION").to_owned(),
            redis: store.server_info().await?.version().to_owned(),
            server: stage.server.clone(),
        },
        directory,
        namespace: stage.namespace.to_string(),
        queue: scene.queue.to_string(),
        lease_ms: millis(LEASE),
        started_ms,
        took_ms: millis(took),
        skipped: listing.skipped,
        tasks,
        scenarios,
        reclaims,
        kept: kept.into_iter().filter(|(_, count)| *count > 0).collect(),
        doctor: scene.examine().await?,
        left_over: LeftOver::default(),
        totals: Totals::default(),
        problems: Vec::new(),
        ok: false,
        line: String::new(),
    })
}

/// Enqueues the bulk; the rest comes act by act.
async fn enqueue(scene: &Scene, plan: &Plan) -> Result<()> {
    let begun = Instant::now();
    let files = plan.files.iter().filter(|file| !file.slow).map(|file| file.enqueue(&scene.producer));
    for enqueued in scene.producer.enqueue_all(files).await {
        enqueued?;
    }
    let commands = plan.counted.iter().chain([&plan.fails]).map(|command| command.enqueue(&scene.producer));
    for enqueued in scene.producer.enqueue_all(commands).await {
        enqueued?;
    }
    scene.show.say(&format!(
        "enqueued {} tasks of {} in bulk, in {} ms",
        plan.files.iter().filter(|file| !file.slow).count() + plan.counted.len() + 1,
        plan.len(),
        begun.elapsed().as_millis()
    ));
    Ok(())
}

/// The acts, and the wait for everything that is left.
async fn perform(stage: &mut Stage, scene: &Scene, plan: &Plan) -> Result<(Vec<Scenario>, Vec<Reclaim>)> {
    let ids = ids(plan)?;
    all_ended(stage, scene, &ids, plan.files.len() / MIDDLE).await?;
    let mut scenarios = Vec::new();
    let mut reclaims = Vec::new();
    match acts::kill(scene, &mut stage.crew, plan).await? {
        Ok(killed) => {
            let (reclaimed, abort, timeout) = tokio::join!(
                acts::reclaimed(scene, &killed),
                acts::abort(scene, &plan.abort),
                acts::timeout(scene, &plan.timeout)
            );
            let (crash, rows) = reclaimed?;
            reclaims = rows;
            scenarios.extend([crash, abort?, timeout?]);
        }
        Err(crash) => scenarios.push(crash),
    }
    all_ended(stage, scene, &ids, ids.len() - 1).await?;
    scenarios.push(acts::drain(scene, &mut stage.crew, &plan.drain).await?);
    all_ended(stage, scene, &ids, ids.len()).await?;
    Ok((scenarios, reclaims))
}

fn ids(plan: &Plan) -> Result<Vec<TaskId>> {
    let ids = plan.files.iter().map(|file| file.id.as_str()).chain(plan.commands().map(|c| c.id.as_str()));
    Ok(ids.map(TaskId::new).collect::<Result<_, _>>()?)
}

/// Waits until so many tasks have ended; gives up once none does for long.
async fn all_ended(stage: &mut Stage, scene: &Scene, ids: &[TaskId], wanted: usize) -> Result<()> {
    let (mut last, mut since) = (0, Instant::now());
    scene
        .until(Duration::MAX, async || {
            stage.crew.check()?;
            let status = scene.producer.queue_status(&scene.queue).await?;
            let counts = status.map(|status| status.counts).unwrap_or_default();
            let ended: u64 = counts.iter().filter(|(state, _)| state.is_terminal()).map(|(_, n)| n).sum();
            let ended = usize::try_from(ended).unwrap_or(usize::MAX);
            if ended != last {
                (last, since) = (ended, Instant::now());
            }
            if ended < wanted && since.elapsed() >= STALLED_AFTER {
                let running: u64 = counts.get(&TaskState::Running).copied().unwrap_or_default();
                let open = ids.len() - ended;
                scene.show.say(&format!(
                    "{open} tasks are open ({running} running), and none ends: going on without"
                ));
                return Ok(Some(()));
            }
            Ok((ended >= wanted).then_some(()))
        })
        .await?;
    Ok(())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
