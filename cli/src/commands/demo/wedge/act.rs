//! One act: a turn runs, others wait behind it, something happens to it, and the lane goes on.

use std::fs;
use std::time::Duration;

use leasehold_common::time::display_time;
use leasehold_producer::{TaskId, TaskRecord};

use super::effects::{self, Run};
use super::lane;
use super::turns::{PER_ACT, Part, Turns, id};
use crate::commands::demo::acts::{STARTS_WITHIN, Scene, seconds};
use crate::commands::demo::crew::Crew;
use crate::commands::demo::processes::Watched;
use crate::error::Result;

/// How long a reclaim may take on a machine that is busy; on an idle one it is lease and beat and a little more.
const RECLAIMED_WITHIN: Duration = Duration::from_secs(15);

/// Steps of work that a run has behind it before anything happens to it, or beside it.
const STEPS_BEFORE: usize = 5;

/// How long the rest of an act may take once the lane goes on.
const EMPTY_WITHIN: Duration = Duration::from_secs(30);

/// One act.
#[derive(Debug)]
pub(super) struct Act<'a> {
    pub(super) scene: &'a Scene,
    pub(super) turns: &'a Turns,
    /// The number of its first turn.
    first: usize,
}

/// A turn that runs, and will not end by itself.
#[derive(Debug)]
pub(super) struct Held {
    /// The task.
    pub(super) id: TaskId,
    /// Its record, running.
    pub(super) record: TaskRecord,
    /// The worker that runs it.
    pub(super) worker: String,
    /// The processes of its command.
    pub(super) family: Vec<Watched>,
}

impl<'a> Act<'a> {
    /// The act of this number, from 0.
    pub(super) fn new(scene: &'a Scene, turns: &'a Turns, number: usize) -> Self {
        Self { scene, turns, first: number * PER_ACT + 1 }
    }

    /// Its turns in order.
    fn ids(&self) -> Result<Vec<TaskId>> {
        (self.first..self.first + PER_ACT).map(id).collect()
    }

    /// The turn behind the held one.
    pub(super) async fn next(&self) -> Result<Option<TaskRecord>> {
        self.scene.record(&id(self.first + 1)?).await
    }

    /// Enqueues the turns, and shows the lane once the first runs and the others wait. None if it did not come to that.
    pub(super) async fn open(&self) -> Result<Option<Held>> {
        let Scene { producer, show, .. } = self.scene;
        let ids = self.ids()?;
        let (held, follow) = (&ids[0], &ids[1..]);
        let begun = self.scene.begin(held, self.turns.enqueue(producer, held, Part::Held)).await?;
        let Some((record, family)) = begun else { return Ok(None) };
        let Some(worker) = record.worker.as_ref().map(ToString::to_string) else { return Ok(None) };
        for id in follow {
            self.turns.enqueue(producer, id, Part::Follows).await?;
        }
        if !self.works(&record).await? {
            return Ok(None);
        }
        show.say(&lane::look(self.scene, &self.turns.lane).await?);
        Ok(Some(Held { id: held.clone(), record, worker, family }))
    }

    /// Waits until the command of this run has told of some work; false if it does not.
    pub(super) async fn works(&self, record: &TaskRecord) -> Result<bool> {
        let look = async || {
            // The file is there once the first command has written.
            let effects = effects::read(&fs::read_to_string(&self.turns.effects).unwrap_or_default());
            let is_this = |run: &Run| run.task == record.id.as_str() && run.attempt == record.attempt;
            Ok(effects.runs.iter().any(|run| is_this(run) && run.steps >= STEPS_BEFORE).then_some(()))
        };
        Ok(self.scene.until(STARTS_WITHIN, look).await?.is_some())
    }

    /// Waits until the held turn is started again, and tells what its record says of that. None if that took too long.
    pub(super) async fn recovered(
        &self,
        held: &Held,
        since_ms: u64,
        what: &str,
    ) -> Result<Option<TaskRecord>> {
        let mut suspected = false;
        let look = async || {
            let Some(record) = self.scene.record(&held.id).await? else { return Ok(None) };
            if record.suspected && !suspected {
                suspected = true;
                let after = seconds(self.scene.producer.now_ms().await?.saturating_sub(since_ms));
                self.scene.show.say(&format!(
                    "{after} after {what}: {} has no lease; a suspicion, no proof yet: the lane waits",
                    held.id
                ));
            }
            Ok((record.attempt > held.record.attempt).then_some(record))
        };
        let again = self.scene.until(RECLAIMED_WITHIN, look).await?;
        if let Some(record) = &again {
            self.scene.show.say(&format!("{}\n{}", runs_again(record, since_ms, what), reconciled(record)));
        }
        Ok(again)
    }

    /// Waits until every turn of the act has ended, and tells each. Those that have not come back.
    pub(super) async fn emptied(&self, crew: &mut Crew) -> Result<Vec<TaskRecord>> {
        let mut open = self.ids()?;
        let mut last = Vec::new();
        let look = async || {
            crew.check()?;
            let seen = self.scene.producer.records(&self.scene.queue, &open).await?;
            last = seen.into_iter().flatten().collect::<Result<_, _>>()?;
            let ended: Vec<&TaskRecord> = last.iter().filter(|record| record.state.is_terminal()).collect();
            for record in &ended {
                self.scene.show.say(&format!("  {}", end(record)));
            }
            open.retain(|id| !ended.iter().any(|record| record.id == *id));
            Ok(open.is_empty().then_some(()))
        };
        self.scene.until(EMPTY_WITHIN, look).await?;
        last.retain(|record| !record.state.is_terminal());
        if !last.is_empty() {
            self.scene.show.say(&lane::look(self.scene, &self.turns.lane).await?);
        }
        Ok(last)
    }
}

fn runs_again(record: &TaskRecord, since_ms: u64, what: &str) -> String {
    let after = seconds(record.started_ms.map_or(0, |ms| ms.saturating_sub(since_ms)));
    let worker = record.worker.as_ref().map_or("nobody", |worker| worker.as_str());
    format!("{after} after {what}: {} runs again on {worker}, attempt {}", record.id, record.attempt)
}

/// That a run's end was decided by others, as the record keeps it.
fn reconciled(record: &TaskRecord) -> String {
    record.reconciled.as_ref().map_or_else(
        || "  its record does not say that it was reconciled".to_owned(),
        |r| {
            format!(
                "  its record: reconciled_at {}, reconciled_by {}, reconciled_reason {:?}, reclaims {}",
                display_time(r.at_ms),
                r.by,
                r.reason,
                record.reclaims
            )
        },
    )
}

/// How a turn ended.
fn end(record: &TaskRecord) -> String {
    let worker = record.worker.as_ref().map_or("nobody", |worker| worker.as_str());
    let ran = record.started_ms.zip(record.ended_ms);
    let ran =
        ran.map_or_else(String::new, |(from, to)| format!(", ran {}", seconds(to.saturating_sub(from))));
    format!("{} {} on {worker}, attempt {}{ran}", record.id, record.state, record.attempt)
}

/// What is left of an act's turns, in words.
pub(super) fn rest(open: &[TaskRecord]) -> String {
    match open {
        [] => "every turn behind it ended".to_owned(),
        open => {
            let open: Vec<String> = open.iter().map(|r| format!("{} is {}", r.id, r.state)).collect();
            format!("the lane did not go on: {}", open.join(", "))
        }
    }
}
