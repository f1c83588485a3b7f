//! The tasks of the lane: turns of a session, each a command that tells of itself outside Redis.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_producer::{Enqueue, ExecPayload, Lane, Producer, RawOutput, TaskId};

use crate::commands::demo::job::QUEUE;
use crate::error::Result;

/// The lane: a session of an agent.
pub(super) const LANE: &str = "agent-7";

/// Turns of one act: one that is held, and those that wait behind it.
pub(super) const PER_ACT: usize = 4;

/// Between TERM and KILL.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// Where the command finds its effects file.
const EFFECTS_VARIABLE: &str = "EFFECTS";

/// Steps of a turn, of a tenth of a second each.
const STEPS: u32 = 5;
/// Steps of a held turn once it is started again: long enough that a stale run can come back in between.
const STEPS_AGAIN: u32 = 15;

/// Notes its begin, every step and its end, each with the time in ns; `>>` appends, so that the order of the lines is
/// the order in which things happened. The first run of a turn that is `held` has a grandchild and ends from outside.
const SCRIPT: &str = r#"note() { echo "$LEASEHOLD_TASK_ID $LEASEHOLD_ATTEMPT $1 $(date +%s%N)" >>"$EFFECTS"; }
note begin
left=$1
if [ "$2" = held ] && [ "$LEASEHOLD_ATTEMPT" = 1 ]; then left=6000; sleep 600 & echo "pids $$ $!"; fi
while [ "$left" -gt 0 ]; do sleep 0.1; note step; left=$((left - 1)); done
note end"#;

/// What a turn is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Its first run ends from outside only.
    Held,
    /// Comes after another.
    Follows,
}

/// Makes turns.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    /// The lane that all of them are in.
    pub(super) lane: Lane,
    /// The file that they write to.
    pub(super) effects: PathBuf,
}

impl Turns {
    /// A turn, ready to be enqueued.
    pub(super) fn enqueue(&self, producer: &Producer, id: &TaskId, part: Part) -> Enqueue<RawOutput> {
        let (steps, part) = match part {
            Part::Held => (STEPS_AGAIN, "held"),
            Part::Follows => (STEPS, ""),
        };
        let argv = ["sh", "-c", SCRIPT, "sh", &steps.to_string(), part].map(str::to_owned).to_vec();
        let effects = self.effects.to_string_lossy().into_owned();
        let env = BTreeMap::from([(EFFECTS_VARIABLE.to_owned(), effects)]);
        let payload = ExecPayload { argv, env, ..ExecPayload::default() };
        producer
            .exec(QUEUE, payload)
            .id(id.clone())
            .lane(self.lane.clone())
            .run_timeout(Duration::from_secs(120))
            .stop_grace(GRACE)
    }
}

/// `turn-1` and so on.
pub(super) fn id(number: usize) -> Result<TaskId> {
    Ok(TaskId::new(format!("turn-{number}"))?)
}
