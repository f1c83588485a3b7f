//! One atomic look at a queue and at the places of some tasks, for the doctor.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reply::{Refusal, Reply};
use super::{Store, unexpected};
use crate::error::Result;
use crate::name::{QueueName, TaskId};
use crate::record::TaskRecord;
use crate::script;
use crate::state::TaskState;
use crate::transport::ScriptCall;

/// Facts of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueFacts {
    numbers: BTreeMap<String, i64>,
    /// Shared keys of a wrong type.
    pub wrong_types: Vec<String>,
}

impl QueueFacts {
    /// A fact by its name in `lua/inspect.lua`; 0 where there is none.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        self.numbers.get(name).copied().unwrap_or_default()
    }

    /// A counter of `Q:totals`.
    #[must_use]
    pub fn total(&self, name: &str) -> i64 {
        self.number(&format!("totals.{name}"))
    }

    /// Entries of all ready streams.
    #[must_use]
    pub fn queued(&self) -> i64 {
        crate::keys::LEVELS.iter().map(|level| self.number(&format!("ready:{level}"))).sum()
    }

    /// Tasks that have ended and are kept.
    #[must_use]
    pub fn ended(&self) -> i64 {
        TaskState::ALL.iter().filter(|s| s.is_terminal()).map(|s| self.number(&format!("done:{s}"))).sum()
    }

    /// When the oldest entry of the ready streams was made, ms.
    #[must_use]
    pub fn oldest_queued_ms(&self) -> Option<u64> {
        u64::try_from(self.number("oldest_queued_ms")).ok().filter(|ms| *ms > 0)
    }
}

/// Where a task is, whatever its record says.
#[derive(Debug, Clone)]
pub struct Places {
    /// The task.
    pub id: TaskId,
    /// Its record: none when there is none; an error when it cannot be read.
    pub record: Option<Result<TaskRecord>>,
    /// The Redis type of its body key, `none` without one.
    pub body_type: String,
    /// The lease's value.
    pub lease: Option<String>,
    /// The lease's time to live: -1 for none set, -2 for no lease.
    pub lease_ms: i64,
    /// Score in `Q:running`.
    pub running: Option<f64>,
    /// Score in `Q:scheduled`.
    pub scheduled: Option<f64>,
    /// The states under which it is indexed as ended.
    pub done: Vec<TaskState>,
    /// It is remembered as removed.
    pub gone: bool,
    /// Score in `Q:waiting`.
    pub waiting: Option<f64>,
    /// Score in `Q:deadlines`.
    pub deadline: Option<f64>,
    /// It is among the tasks of its owner.
    pub owned: bool,
    /// How many members of its lane have their place before it; none if it has no place.
    pub lane_rank: Option<u64>,
    /// How many tasks of its lane may run at a time.
    pub lane_limit: u64,
    /// How many tasks of its lane may have been let go: its limit, or more where that has fallen since.
    pub lane_most: u64,
    /// The queue lists its lane.
    pub lane_row: bool,
    /// The member of its lane in front of it waits.
    pub behind_waiting: bool,
    /// The entry that its record names is there.
    pub entry: bool,
    /// The incarnation of its run is recorded dead.
    pub owner_dead: bool,
}

/// One look.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// Redis's time, ms.
    pub now_ms: u64,
    /// The queue's lease T.
    pub lease: Duration,
    /// Of the queue.
    pub facts: QueueFacts,
    /// Of each task asked for.
    pub tasks: Vec<Places>,
}

fn facts(mut list: Reply) -> Result<QueueFacts> {
    let mut facts = QueueFacts::default();
    while list.has_more() {
        let (name, value) = (list.shown()?, list.shown()?);
        if name == "wrongtype" {
            facts.wrong_types.push(value);
        } else if let Ok(n) = value.parse::<f64>() {
            facts.numbers.insert(name, n as i64);
        }
    }
    Ok(facts)
}

/// What the scripts leave alone is not read here either.
fn unreadable(id: &TaskId) -> crate::Error {
    crate::Error::Protocol(format!("the record of task {id} cannot be read"))
}

fn places(mut list: Reply) -> Result<Places> {
    let id: TaskId = list.parsed()?;
    let raw = list.bytes()?;
    let record = (!raw.is_empty()).then(|| TaskRecord::decode(&id, &raw));
    let body_type = list.text()?;
    let lease = Some(list.shown()?).filter(|l| !l.is_empty());
    let lease_ms = list.signed()?;
    let mut score = || Ok::<_, crate::Error>(list.text()?.parse::<f64>().ok());
    let (running, scheduled) = (score()?, score()?);
    let ended = [TaskState::Completed, TaskState::Failed, TaskState::TimedOut, TaskState::Aborted];
    let mut done = Vec::new();
    for state in ended {
        if score()?.is_some() {
            done.push(state);
        }
    }
    let gone = score()?.is_some();
    let (waiting, deadline, owned) = (score()?, score()?, score()?.is_some());
    let lane_rank = list.text()?.parse().ok();
    let (lane_limit, lane_most) = (list.number()?, list.number()?);
    let mut flag = || Ok::<_, crate::Error>(list.number()? > 0);
    let (lane_row, behind_waiting, entry) = (flag()?, flag()?, flag()?);
    let (readable, owner_dead) = (flag()?, flag()?);
    Ok(Places {
        record: record.map(|record| record.and_then(|r| if readable { Ok(r) } else { Err(unreadable(&id)) })),
        id,
        body_type,
        lease,
        lease_ms,
        running,
        scheduled,
        done,
        gone,
        waiting,
        deadline,
        owned,
        lane_rank,
        lane_limit,
        lane_most,
        lane_row,
        behind_waiting,
        entry,
        owner_dead,
    })
}

impl Store {
    /// Looks at a queue and at up to 100 of its tasks at one moment. Nothing is changed: none for a queue that is
    /// not registered.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn inspect(&self, queue: &QueueName, ids: &[TaskId]) -> Result<Option<Inspection>> {
        let mut call = ScriptCall::new(&script::INSPECT, &self.keys(queue));
        for id in ids.iter().take(100) {
            call.push(id.as_str());
        }
        let mut reply = match Reply::open(&script::INSPECT, self.run(call).await?)? {
            Ok(reply) => reply,
            Err(Refusal::Unregistered) => return Ok(None),
            Err(refusal) => return Err(unexpected(&script::INSPECT, &refusal)),
        };
        let now_ms = reply.number()?;
        let lease = Duration::from_millis(reply.number()?);
        let facts = facts(reply.list()?)?;
        let mut tasks = Vec::new();
        while reply.has_more() {
            tasks.push(places(reply.list()?)?);
        }
        Ok(Some(Inspection { now_ms, lease, facts, tasks }))
    }
}
