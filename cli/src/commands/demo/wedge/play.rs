//! The show from its first turn to its last, on a stage that stands.

use std::fs;

use leasehold_common::time::as_ms;
use leasehold_producer::{Lane, TaskState};
use tokio::time::Instant;

use super::act::Act;
use super::turns::{LANE, PER_ACT, Turns, id};
use super::verdict::{FORMAT, TurnRow, Wedge};
use super::{acts, effects};
use crate::commands::demo::acts::Scene;
use crate::commands::demo::opening;
use crate::commands::demo::role::LEASE;
use crate::commands::demo::show::Show;
use crate::commands::demo::stage::Stage;
use crate::commands::demo::summary::LeftOver;
use crate::error::{Failure, Result};

/// Acts.
const ACTS: usize = 3;

/// Plays it. What did not come out right is in what is returned; an error says that there is nothing to judge.
pub(super) async fn play(stage: &mut Stage, show: &Show) -> Result<Wedge> {
    let scene = opening::connect(stage, show).await?;
    let workers = ["wedge-1", "wedge-2"].map(str::to_owned);
    opening::start(stage, &scene, &workers).await?;
    let turns = Turns { lane: Lane::new(LANE)?, effects: stage.folder().join("effects") };
    let begun = Instant::now();

    show.say("act 1: the worker of a turn is killed");
    let killed = acts::killed(&Act::new(&scene, &turns, 0), &mut stage.crew).await?;
    // Only now, so that the lane went on with what was left.
    let third = "wedge-3".to_owned();
    stage.crew.start(&third, &format!("worker:{third}"))?;
    opening::ready(&mut stage.crew, &scene, std::slice::from_ref(&third)).await?;
    show.say(&format!(
        "act 2: the worker of a turn is frozen, and comes back ({third} took the dead one's place)"
    ));
    let frozen = acts::frozen(&Act::new(&scene, &turns, 1), &mut stage.crew).await?;
    show.say("act 3: a turn is aborted");
    let aborted = acts::aborted(&Act::new(&scene, &turns, 2), &mut stage.crew).await?;

    let text = fs::read_to_string(&turns.effects)
        .map_err(|error| Failure::io("cannot read what the commands wrote", &error))?;
    Ok(Wedge {
        format: FORMAT,
        namespace: stage.namespace.to_string(),
        queue: scene.queue.to_string(),
        lane: turns.lane.to_string(),
        lease_ms: as_ms(LEASE),
        took_ms: as_ms(begun.elapsed()),
        turns: rows(&scene).await?,
        acts: vec![killed, frozen, aborted],
        effects: effects::read(&text),
        doctor: scene.examine().await?,
        left_over: LeftOver::default(),
        problems: Vec::new(),
        ok: false,
        line: String::new(),
    })
}

/// What became of every turn.
async fn rows(scene: &Scene) -> Result<Vec<TurnRow>> {
    let mut rows = Vec::new();
    for number in 1..=ACTS * PER_ACT {
        let id = id(number)?;
        let record = scene.record(&id).await?;
        let is_aborted = number == (ACTS - 1) * PER_ACT + 1;
        rows.push(TurnRow {
            id: id.to_string(),
            expected: if is_aborted { TaskState::Aborted } else { TaskState::Completed },
            state: record.as_ref().map(|record| record.state),
            attempt: record.as_ref().map_or(0, |record| record.attempt),
            reclaims: record.as_ref().map_or(0, |record| record.reclaims),
            worker: record.as_ref().and_then(|record| record.worker.as_ref()).map(ToString::to_string),
            reconciled: record.and_then(|record| record.reconciled),
        });
    }
    Ok(rows)
}
