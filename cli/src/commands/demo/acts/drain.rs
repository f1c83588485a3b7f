//! A worker is told to stop while it holds a long command: it hands the command back at no cost.

use leasehold_producer::TaskState;

use super::{GONE_WITHIN, STARTS_WITHIN, Scene, remains, told};
use crate::commands::demo::crew::Crew;
use crate::commands::demo::plan::CommandTask;
use crate::commands::demo::processes;
use crate::commands::demo::summary::Scenario;
use crate::error::Result;

/// Stops the worker that runs the command.
pub(crate) async fn drain(scene: &Scene, crew: &mut Crew, command: &CommandTask) -> Result<Scenario> {
    let scenario = |happened: String, ok| Scenario {
        name: "drain",
        expected:
            "a worker that gets SIGTERM exits with 0 and hands back what does not finish: it runs again \
                   elsewhere, and neither a failure nor a reclaim is counted"
                .to_owned(),
        happened,
        ok,
    };
    let id = command.id()?;
    let Some((record, family)) = scene.start(command).await? else {
        return Ok(scenario("its command did not start".to_owned(), false));
    };
    let Some(worker) = record.worker.as_ref().map(ToString::to_string) else {
        return Ok(scenario("nobody knows which worker its command runs on".to_owned(), false));
    };
    scene.show.say(&format!("told {worker} to stop while it runs a long command"));
    let stopped = crew.terminate(&worker).await;
    let alive = processes::gone(&family, GONE_WITHIN).await;
    let ended = scene.ended(&id, STARTS_WITHIN).await?;
    let elsewhere =
        ended.as_ref().and_then(|r| r.worker.as_ref()).is_some_and(|name| name.as_str() != worker);
    let free = ended.as_ref().is_some_and(|r| {
        r.state == TaskState::Completed && r.attempt > record.attempt && r.failures == 0 && r.reclaims == 0
    });
    let ok = stopped.is_ok() && alive.is_empty() && elsewhere && free;
    let how = match &stopped {
        Ok(()) => format!("{worker} exited with 0"),
        Err(failure) => failure.text(),
    };
    let counted = ended.as_ref().map_or_else(String::new, |r| {
        let on = r.worker.as_ref().map_or("nobody", |name| name.as_str());
        format!(" on {on}, {} failures, {} reclaims", r.failures, r.reclaims)
    });
    if ok {
        scene.show.say(&format!("handed back, and run again{counted}"));
    }
    Ok(scenario(format!("{how}; {}; {}{counted}", remains(&alive), told(ended.as_ref())), ok))
}
