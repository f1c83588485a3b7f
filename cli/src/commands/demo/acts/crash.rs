//! A worker is killed while it holds runs: its processes go at once, its tasks run again elsewhere.

use std::time::Duration;

use leasehold_producer::{Producer, TaskId, TaskRecord, TaskState};
use tokio::time::Instant;

use super::{GONE_WITHIN, Scene, remains, span};
use crate::commands::demo::crew::Crew;
use crate::commands::demo::plan::{Plan, SLOW_FILL};
use crate::commands::demo::processes;
use crate::commands::demo::summary::{Reclaim, Scenario};
use crate::error::Result;

/// How long a reclaim may take on a machine that is busy; on an idle one it is lease and beat and a little more.
const RECLAIMED_WITHIN: Duration = Duration::from_secs(15);

const NAME: &str = "crash";
const EXPECTED: &str =
    "a worker killed with SIGKILL leaves no process behind, and all that it held runs again elsewhere";

/// What is known right after the kill.
#[derive(Debug)]
pub(crate) struct Killed {
    worker: String,
    at_ms: u64,
    held: Vec<TaskRecord>,
    story: String,
    clean: bool,
}

fn failed(happened: impl Into<String>) -> Scenario {
    Scenario { name: NAME, expected: EXPECTED.to_owned(), happened: happened.into(), ok: false }
}

/// Fills the slots with slow work and a command that has a grandchild, and kills the worker that has it.
pub(crate) async fn kill(scene: &Scene, crew: &mut Crew, plan: &Plan) -> Result<Result<Killed, Scenario>> {
    let slow: Vec<_> = plan.files.iter().filter(|file| file.slow).collect();
    for enqueued in scene.producer.enqueue_all(slow.iter().map(|file| file.enqueue(&scene.producer))).await {
        enqueued?;
    }
    let Some((record, family)) = scene.start(&plan.crash).await? else {
        return Ok(Err(failed("the command that was to lose its worker did not start")));
    };
    let Some(worker) = record.worker.as_ref().map(ToString::to_string) else {
        return Ok(Err(failed("nobody knows which worker the command runs on")));
    };
    let ids: Vec<TaskId> = slow.iter().map(|file| TaskId::new(file.id.as_str())).collect::<Result<_, _>>()?;
    // All slots are full soon; if not, less is in hand when the worker goes.
    let begun = |seen: Vec<Option<Result<TaskRecord, _>>>| {
        seen.into_iter().flatten().try_fold(true, |all, record| record.map(|r| all && r.attempt > 0))
    };
    let full = async || Ok(begun(scene.producer.records(&scene.queue, &ids).await?)?.then_some(()));
    scene.until(SLOW_FILL, full).await?;

    let at_ms = scene.producer.now_ms().await?;
    let pid = crew.pid(&worker).unwrap_or_default();
    let killed = Instant::now();
    crew.kill(&worker)?;
    let alive = processes::gone(&family, GONE_WITHIN).await;
    let gone_ms = u64::try_from(killed.elapsed().as_millis()).unwrap_or(u64::MAX);
    let held = held_by(&scene.producer, scene, &worker).await?;
    let story = format!("{worker} (pid {pid}) was killed while it held {} tasks", held.len());
    scene.show.say(&format!(
        "killed {worker} (pid {pid}) while it held {} tasks; {} after {gone_ms} ms",
        held.len(),
        remains(&alive)
    ));
    let story = format!("{story}; {} after {gone_ms} ms", remains(&alive));
    Ok(Ok(Killed { worker, at_ms, held, story, clean: alive.is_empty() }))
}

async fn held_by(producer: &Producer, scene: &Scene, worker: &str) -> Result<Vec<TaskRecord>> {
    let running = producer.list(&scene.queue, TaskState::Running, None, 1000).await?;
    let own = |record: &TaskRecord| record.worker.as_ref().is_some_and(|name| name.as_str() == worker);
    Ok(running.tasks.into_iter().filter(own).collect())
}

/// Waits until everything that the killed worker held runs again.
pub(crate) async fn reclaimed(scene: &Scene, killed: &Killed) -> Result<(Scenario, Vec<Reclaim>)> {
    let mut reclaims: Vec<Reclaim> = Vec::new();
    let mut open = killed.held.clone();
    scene
        .until(RECLAIMED_WITHIN, async || {
            let ids: Vec<TaskId> = open.iter().map(|held| held.id.clone()).collect();
            let seen = scene.producer.records(&scene.queue, &ids).await?;
            let mut still = Vec::new();
            for (held, now) in open.drain(..).zip(seen) {
                match now.transpose()? {
                    Some(now) if now.attempt > held.attempt => reclaims.push(again(killed, &held, &now)),
                    // Its last words were on their way when it was killed: nothing was lost.
                    Some(now) if now.state.is_terminal() => {}
                    _ => still.push(held),
                }
            }
            open = still;
            Ok(open.is_empty().then_some(()))
        })
        .await?;
    let lost = |held: &TaskRecord| Reclaim {
        id: held.id.to_string(),
        attempt: held.attempt,
        worker: killed.worker.clone(),
        killed_ms: killed.at_ms,
        next_ms: None,
        took_ms: None,
        next_worker: None,
    };
    reclaims.extend(open.iter().map(lost));
    Ok((verdict(scene, killed, &reclaims), reclaims))
}

fn again(killed: &Killed, held: &TaskRecord, now: &TaskRecord) -> Reclaim {
    Reclaim {
        id: held.id.to_string(),
        attempt: held.attempt,
        worker: killed.worker.clone(),
        killed_ms: killed.at_ms,
        next_ms: now.started_ms,
        took_ms: now.started_ms.map(|ms| ms.saturating_sub(killed.at_ms)),
        next_worker: now.worker.as_ref().map(ToString::to_string),
    }
}

fn verdict(scene: &Scene, killed: &Killed, reclaims: &[Reclaim]) -> Scenario {
    let took = || reclaims.iter().filter_map(|reclaim| reclaim.took_ms);
    let elsewhere = |reclaim: &&Reclaim| {
        reclaim.next_ms.is_some() && reclaim.next_worker.as_ref() != Some(&reclaim.worker)
    };
    let number = reclaims.iter().filter(elsewhere).count();
    let times = took().min().zip(took().max());
    let times = times.map_or_else(
        || "none of them ran again in time".to_owned(),
        |(least, most)| {
            format!("{number} of {} ran again, {} after the kill", reclaims.len(), span(least, most))
        },
    );
    scene.show.say(&format!("reclaimed: {times}"));
    let ok = killed.clean && !reclaims.is_empty() && number == reclaims.len();
    let happened = format!("{}; {times}", killed.story);
    Scenario { name: NAME, expected: EXPECTED.to_owned(), happened, ok }
}
