//! Before the first task: the queue is there, the workers are known, and the reaper sweeps.

use std::time::Duration;

use leasehold_common::store::QueueSettings;
use leasehold_producer::Producer;

use super::acts::Scene;
use super::crew::Crew;
use super::job;
use super::role::LEASE;
use super::show::Show;
use super::stage::Stage;
use crate::error::{Failure, Result};

/// How long processes may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// The way to the queue, which is made here.
pub(super) async fn connect(stage: &Stage, show: &Show) -> Result<Scene> {
    let settings = QueueSettings { lease: LEASE, ..QueueSettings::default() };
    let producer = Producer::builder(&stage.url)
        .namespace(stage.namespace.clone())
        .queue_settings(settings)
        .connect()
        .await?;
    for warning in producer.warnings() {
        show.say(&format!("warning: {warning}"));
    }
    let queue = job::queue()?;
    producer.store().register(&queue).await?;
    Ok(Scene { producer, queue, show: show.clone() })
}

/// Starts the processes and waits until the workers are there and the reaper sweeps.
pub(super) async fn start(stage: &mut Stage, scene: &Scene, workers: &[String]) -> Result<()> {
    let crew = &mut stage.crew;
    crew.start("reaper", "reaper")?;
    for name in workers {
        crew.start(name, &format!("worker:{name}"))?;
    }
    ready(crew, scene, workers).await?;
    let pids: Vec<String> =
        workers.iter().filter_map(|name| Some(format!("{name} (pid {})", crew.pid(name)?))).collect();
    let (number, lease) = (workers.len(), LEASE.as_secs());
    let number =
        ["no", "one", "two", "three"].get(number).map_or_else(|| number.to_string(), ToString::to_string);
    scene
        .show
        .say(&format!("{number} workers and a reaper run, with a lease of {lease} s: {}", pids.join(", ")));
    Ok(())
}

/// Waits until these workers have made themselves known, and the reaper has swept.
pub(super) async fn ready(crew: &mut Crew, scene: &Scene, workers: &[String]) -> Result<()> {
    let ready = scene
        .until(READY_WITHIN, async || {
            crew.check()?;
            let known = scene.producer.workers().await?;
            let there = |name: &String| known.iter().any(|worker| worker.name.as_str() == name);
            let look = scene.producer.store().inspect(&scene.queue, &[]).await?;
            let swept = look.is_some_and(|look| look.facts.number("pulse.watch") > 0);
            Ok((swept && workers.iter().all(there)).then_some(()))
        })
        .await?;
    ready.ok_or_else(|| {
        let within = READY_WITHIN.as_secs();
        Failure::failed(format!("the workers were not ready within {within} s"))
            .hint("is the machine very busy? try again; --keep keeps their logs")
    })
}
