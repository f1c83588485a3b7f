//! The three acts: the worker of a turn is killed, is frozen and comes back, and a turn is aborted.

use std::time::Duration;

use leasehold_producer::{TaskRecord, TaskState};

use super::act::{Act, Held, rest};
use super::turns::GRACE;
use crate::commands::demo::acts::{GONE_WITHIN, remains, seconds};
use crate::commands::demo::crew::Crew;
use crate::commands::demo::processes::{gone, still};
use crate::commands::demo::summary::Scenario;
use crate::error::Result;

/// How long the guard of a frozen worker may take to stop its commands: the lease, and a busy machine.
const STILL_WITHIN: Duration = Duration::from_secs(10);

/// How long a worker that comes back may take to ask, and to be told.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// What a worker logs when it is told that a run is not its own any more.
const LOST: &str = "lease lost";

const NO_START: &str = "the turn that was to be held did not start";

/// SIGKILL to the worker.
pub(super) async fn killed(act: &Act<'_>, crew: &mut Crew) -> Result<Scenario> {
    let scenario = |happened: String, ok| Scenario {
        name: "killed",
        expected:
            "a worker killed with SIGKILL: its turn is reclaimed and runs again, and all behind it follow"
                .to_owned(),
        happened,
        ok,
    };
    let Some(held) = act.open().await? else { return Ok(scenario(NO_START.to_owned(), false)) };
    let since = act.scene.producer.now_ms().await?;
    let pid = crew.pid(&held.worker).unwrap_or_default();
    crew.kill(&held.worker)?;
    let alive = gone(&held.family, GONE_WITHIN).await;
    let killed = format!("{} (pid {pid}) was killed with SIGKILL; {}", held.worker, remains(&alive));
    act.scene.show.say(&killed);
    let again = act.recovered(&held, since, "the kill").await?;
    let open = act.emptied(crew).await?;
    let ok = alive.is_empty() && again.as_ref().is_some_and(is_reclaimed) && open.is_empty();
    Ok(scenario(format!("{killed}; {}; {}", after(again.as_ref(), since, "the kill"), rest(&open)), ok))
}

/// SIGSTOP to the worker, and SIGCONT while another runs its turn.
pub(super) async fn frozen(act: &Act<'_>, crew: &mut Crew) -> Result<Scenario> {
    let scenario = |happened: String, ok| {
        Scenario {
        name: "frozen",
        expected: "a worker frozen with SIGSTOP: its command stands still, its turn is reclaimed and runs again, and \
                   when it comes back its stale run is told so, changes nothing, and is killed"
            .to_owned(),
        happened,
        ok,
    }
    };
    let Some(held) = act.open().await? else { return Ok(scenario(NO_START.to_owned(), false)) };
    let since = act.scene.producer.now_ms().await?;
    let pid = crew.pid(&held.worker).unwrap_or_default();
    crew.freeze(&held.worker)?;
    let story = format!("{} (pid {pid}) was frozen with SIGSTOP", held.worker);
    act.scene.show.say(&story);
    let (moving, again) =
        tokio::join!(stands_still(act, &held, since), act.recovered(&held, since, "the freeze"));
    let (still_after, again) = (moving?, again?);
    let back = comes_back(act, &held, again.as_ref(), crew).await;
    // Whatever came of it: nobody else thaws it.
    crew.thaw(&held.worker)?;
    let back = back?;
    let open = act.emptied(crew).await?;
    let ok =
        still_after.is_some() && again.as_ref().is_some_and(is_reclaimed) && back.is_ok() && open.is_empty();
    let stood = still_after.map_or_else(
        || "its command did not stand still".to_owned(),
        |ms| format!("its command stood still {} later", seconds(ms)),
    );
    let back = back.unwrap_or_else(|problem| problem);
    let after = after(again.as_ref(), since, "the freeze");
    Ok(scenario(format!("{story}; {stood}; {after}; {back}; {}", rest(&open)), ok))
}

/// After how many ms no process of the command moved any more; none if one did for too long.
async fn stands_still(act: &Act<'_>, held: &Held, since: u64) -> Result<Option<u64>> {
    let moving = still(&held.family, STILL_WITHIN).await;
    let after = act.scene.producer.now_ms().await?.saturating_sub(since);
    if !moving.is_empty() {
        return Ok(None);
    }
    act.scene.show.say(&format!(
        "{} after the freeze: its guard has stopped the command of {}, which lives and stands still",
        seconds(after),
        held.id
    ));
    Ok(Some(after))
}

/// SIGCONT, once the turn runs elsewhere: what the stale run is told, and whether it left the record alone.
async fn comes_back(
    act: &Act<'_>,
    held: &Held,
    again: Option<&TaskRecord>,
    crew: &mut Crew,
) -> Result<Result<String, String>> {
    let (scene, worker) = (act.scene, &held.worker);
    let Some(again) = again else { return Ok(Err(format!("{} was not started again", held.id))) };
    // Both could work now: what the stale run did meanwhile would stand in the file of effects.
    if !act.works(again).await? {
        return Ok(Err(format!("{} was started again and did not work", held.id)));
    }
    let moving = still(&held.family, Duration::ZERO).await;
    crew.thaw(worker)?;
    scene.show.say(&format!("{worker} goes on (SIGCONT) while {} works elsewhere", held.id));
    let told = scene
        .until(TOLD_WITHIN, async || {
            let line = crew.logged(worker, &[LOST, held.id.as_str()]);
            // Without the fields that follow: they name the task and the run.
            let words = |line: String| line[line.find(LOST)?..].split(" task=").next().map(str::to_owned);
            Ok(line.and_then(words))
        })
        .await?;
    let Some(told) = told else { return Ok(Err(format!("{worker} was not told that its run is stale"))) };
    let alive = gone(&held.family, GONE_WITHIN).await;
    let now = scene.record(&held.id).await?;
    let owner = |r: &TaskRecord| (r.attempt, r.run.clone(), r.worker.clone(), r.failures, r.reclaims);
    let same = now.as_ref().is_some_and(|now| owner(now) == owner(again));
    scene.show.say(&format!(
        "{worker} asked and was told: {told:?}; {}; the record {}",
        remains(&alive),
        if same { "is as it was" } else { "has CHANGED" }
    ));
    if !moving.is_empty() {
        return Ok(Err("its command moved while the turn ran elsewhere".to_owned()));
    }
    let what = format!("it came back, was told {told:?}, {}", remains(&alive));
    Ok(match (same, alive.is_empty()) {
        (true, true) => Ok(format!("{what}, and changed nothing")),
        (true, false) => Err(what),
        (false, _) => Err(format!("{what}, and the record of {} CHANGED", held.id)),
    })
}

/// An abort of the turn that runs.
pub(super) async fn aborted(act: &Act<'_>, crew: &mut Crew) -> Result<Scenario> {
    let scenario = |happened: String, ok| {
        Scenario {
        name: "aborted",
        expected: "the abort of a running turn ends it, and the next one runs at once: nobody has to reclaim anything"
            .to_owned(),
        happened,
        ok,
    }
    };
    let Some(held) = act.open().await? else { return Ok(scenario(NO_START.to_owned(), false)) };
    let since = act.scene.producer.now_ms().await?;
    let handle = act.scene.producer.task(act.scene.queue.clone(), held.id.clone());
    handle.abort_with(Some(GRACE), "leasehold demo", "to show it").await?;
    act.scene.show.say(&format!("{} is asked to abort", held.id));
    let open = act.emptied(crew).await?;
    let (ended, next) = (act.scene.record(&held.id).await?, act.next().await?);
    let alive = gone(&held.family, GONE_WITHIN).await;
    let state = ended.as_ref().map_or("gone", |record| record.state.as_str());
    let alone = ended.as_ref().is_some_and(|r| r.state == TaskState::Aborted && r.reconciled.is_none());
    let moved = next.and_then(|next| next.started_ms).map(|ms| ms.saturating_sub(since));
    let moved = moved.map_or_else(
        || "the next did not start".to_owned(),
        |ms| format!("the next ran {} later", seconds(ms)),
    );
    act.scene.show.say(&format!("{} is {state}; {moved}; {}", held.id, remains(&alive)));
    let ok = alone && alive.is_empty() && open.is_empty();
    Ok(scenario(format!("{} is {state}; {moved}; {}; {}", held.id, remains(&alive), rest(&open)), ok))
}

/// Started again because somebody found its worker dead, and says so.
fn is_reclaimed(record: &TaskRecord) -> bool {
    record.reclaims > 0 && record.reconciled.as_ref().is_some_and(|r| r.by == "sweep" && !r.reason.is_empty())
}

fn after(again: Option<&TaskRecord>, since_ms: u64, what: &str) -> String {
    let started = again.and_then(|record| Some((record, record.started_ms?)));
    started.map_or_else(
        || "its turn did not run again in time".to_owned(),
        |(record, ms)| {
            let by = record.reconciled.as_ref().map_or("nobody", |r| r.by.as_str());
            let after = seconds(ms.saturating_sub(since_ms));
            format!("{} ran again {after} after {what}, reconciled by {by}", record.id)
        },
    )
}
