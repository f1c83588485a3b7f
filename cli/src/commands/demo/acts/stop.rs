//! Commands that have to be stopped: one by a person, one by its run timeout.

use std::time::Duration;

use leasehold_producer::{AbortAnswer, FailureKind, StopCause, TaskRecord, TaskState};

use super::{GONE_WITHIN, STARTS_WITHIN, Scene, remains, seconds, told};
use crate::commands::demo::plan::CommandTask;
use crate::commands::demo::processes;
use crate::commands::demo::summary::Scenario;
use crate::error::Result;

/// Between TERM and KILL of the command that is aborted.
const GRACE: Duration = Duration::from_secs(1);

/// Aborts a command that ignores SIGTERM.
pub(crate) async fn abort(scene: &Scene, command: &CommandTask) -> Result<Scenario> {
    let scenario = |happened: String, ok| {
        Scenario {
        name: "abort",
        expected: "an aborted command that ignores TERM is aborting at once, aborted when its grace of 1 s is over, \
                   and no process of it is left"
            .to_owned(),
        happened,
        ok,
    }
    };
    let id = command.id()?;
    let Some((_, family)) = scene.start(command).await? else {
        return Ok(scenario("it did not start".to_owned(), false));
    };
    let handle = scene.producer.task(scene.queue.clone(), id.clone());
    let answer = handle.abort_with(Some(GRACE), "leasehold demo", "to show it").await?;
    let asked = scene.record(&id).await?;
    let state = asked.as_ref().map_or("gone", |record| record.state.as_str());
    scene.show.say(&format!("asked a command that ignores TERM to abort: it is {state}"));
    let at_once = matches!(answer, AbortAnswer::Requested { .. })
        && asked.as_ref().is_some_and(|r| matches!(r.state, TaskState::Aborting | TaskState::Aborted));
    let ended = scene.ended(&id, STARTS_WITHIN).await?;
    let alive = processes::gone(&family, GONE_WITHIN).await;
    let took = ended.as_ref().and_then(|record| lasted(record, StopCause::Abort));
    let in_time = took.is_some_and(|ms| ms + 100 >= millis(GRACE));
    let ok = at_once && in_time && alive.is_empty() && is(ended.as_ref(), TaskState::Aborted);
    let after =
        took.map_or_else(|| told(ended.as_ref()), |ms| format!("ended {} after the abort", seconds(ms)));
    if ok {
        scene.show.say(&format!("aborted: {after}, killed; {}", remains(&alive)));
    }
    let end = ended.as_ref().map_or("not ended", |record| record.state.as_str());
    Ok(scenario(format!("{state} at once; {end}, {after}; {}", remains(&alive)), ok))
}

/// Lets a command run into its run timeout.
pub(crate) async fn timeout(scene: &Scene, command: &CommandTask) -> Result<Scenario> {
    let scenario = |happened: String, ok| Scenario {
        name: "run_timeout",
        expected:
            "a command that takes longer than its run timeout of 1.5 s ends timed_out, and no process of it \
                   is left"
                .to_owned(),
        happened,
        ok,
    };
    let id = command.id()?;
    let Some((_, family)) = scene.start(command).await? else {
        return Ok(scenario("it did not start".to_owned(), false));
    };
    let ended = scene.ended(&id, STARTS_WITHIN).await?;
    let alive = processes::gone(&family, GONE_WITHIN).await;
    let took = ended.as_ref().and_then(|record| Some(record.ended_ms?.saturating_sub(record.started_ms?)));
    let kind = ended.as_ref().and_then(|record| record.failure_kind);
    let ok = is(ended.as_ref(), TaskState::TimedOut)
        && kind == Some(FailureKind::RunTimeout)
        && took.is_some_and(|ms| ms >= 1400)
        && alive.is_empty();
    let after = took.map_or_else(|| told(ended.as_ref()), |ms| format!("ended after {}", seconds(ms)));
    if ok {
        scene.show.say(&format!("a command ran into its run timeout of 1.5 s: {after}"));
    }
    let end = ended.as_ref().map_or("not ended", |record| record.state.as_str());
    Ok(scenario(format!("{end}, {after}; {}", remains(&alive)), ok))
}

fn is(record: Option<&TaskRecord>, state: TaskState) -> bool {
    record.is_some_and(|record| record.state == state)
}

/// From the stop to the end.
fn lasted(record: &TaskRecord, cause: StopCause) -> Option<u64> {
    let stop = record.stop.as_ref().filter(|stop| stop.cause == cause)?;
    Some(record.ended_ms?.saturating_sub(stop.at_ms))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
