//! The protocol as plain data: what every call answers, and what it makes of a queue.
//!
//! This is the definition that the scripts are held against. It knows neither keys nor Redis: tasks are rows, a ready
//! stream is a list, a lane is a list with a limit, time is a number that moves when it is told to. Each file has one
//! subject; read `task` for what there is, `place` for where tasks lie, `ending` for what becomes of a run.
//!
//! What it leaves out, since no call of [`words`](crate::words) shows it: the wake marker and who watches due times,
//! events, totals and histories, owners, output and progress, and the sizes that bound a batch. Worlds are smaller
//! than any page of a script.

mod abort;
mod again;
mod backoff;
mod beat;
mod bounds;
mod claim;
mod ending;
mod enqueue;
mod finish;
mod lane;
mod level;
mod place;
mod pulse;
mod rules;
mod seen;
mod stop;
mod sweep;
mod task;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::words::{Answer, Call, Oracle, Seen, TaskNo, World};
use claim::Hand;
use lane::Lane;
use level::Level;
use pulse::Pulse;
use rules::Rules;
use task::Task;

/// The first moment of every model, ms.
pub const START: u64 = 1_700_000_000_000;

/// An id is remembered for so long after its removal, ms.
const GONE_MS: u64 = 60_000;

/// A queue, everything in it, and the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    rules: Arc<Rules>,
    now: u64,
    tasks: BTreeMap<TaskNo, Task>,
    /// The queued tasks of each level, the next one first.
    ready: BTreeMap<Level, Vec<TaskNo>>,
    /// Lanes by their text.
    lanes: BTreeMap<String, Lane>,
    /// When ids were removed, in the last minute.
    gone: BTreeMap<TaskNo, u64>,
    /// What is remembered of each incarnation's claims.
    hands: Vec<Hand>,
    pulse: Pulse,
    /// How many runs were started: every eighth is taken lowest first.
    started: u64,
}

impl Model {
    /// An empty queue at [`START`].
    #[must_use]
    pub fn new(world: &World) -> Self {
        Self {
            rules: Arc::new(Rules::of(world)),
            now: START,
            tasks: BTreeMap::new(),
            ready: BTreeMap::new(),
            lanes: BTreeMap::new(),
            gone: BTreeMap::new(),
            hands: vec![Hand::default(); world.workers],
            pulse: Pulse::new(START),
            started: 0,
        }
    }

    /// A task that is there.
    fn task(&self, no: TaskNo) -> &Task {
        &self.tasks[&no]
    }

    fn task_mut(&mut self, no: TaskNo) -> &mut Task {
        self.tasks.get_mut(&no).expect("a task that is there")
    }

    /// Was a task of this id removed less than a minute ago?
    fn is_gone(&self, no: TaskNo) -> bool {
        self.gone.contains_key(&no)
    }

    /// Tasks with a time that has come, the earliest first, then in the order of their ids.
    fn due(&self, time: impl Fn(&Task) -> Option<u64>) -> Vec<TaskNo> {
        let mut rows: Vec<(u64, String, TaskNo)> = Vec::new();
        for (no, task) in &self.tasks {
            if let Some(at) = time(task).filter(|at| *at <= self.now) {
                rows.push((at, format!("t{no}"), *no));
            }
        }
        rows.sort();
        rows.into_iter().map(|(_, _, no)| no).collect()
    }
}

impl Oracle for Model {
    fn play(&mut self, call: &Call) -> Answer {
        match call {
            Call::Enqueue(tasks) => {
                Answer::Enqueued(tasks.iter().map(|no| self.enqueue(*no, false)).collect())
            }
            Call::EnqueueOther(task) => Answer::Enqueued(vec![self.enqueue(*task, true)]),
            Call::Claim { worker, number, want, closing } => self.claim(*worker, *number, *want, *closing),
            Call::Finish { worker, run, outcome, before_stop } => {
                Answer::Finished(self.finish(*worker, *run, outcome, *before_stop))
            }
            // That a worker stops a run by itself only makes Redis look at the record, as the model always does.
            Call::Beat { worker, runs, stopping: _ } => {
                Answer::Beats(runs.iter().map(|run| self.beat(*worker, *run)).collect())
            }
            Call::Phase { worker, run, number, name, timeout } => {
                Answer::Told(self.enter_phase(*worker, *run, *number, name, *timeout))
            }
            Call::Spend { worker, run, number, charge } => {
                Answer::Spent(self.spend(*worker, *run, *number, *charge))
            }
            Call::Checkpoint { worker, run, number } => {
                Answer::Told(self.leave_checkpoint(*worker, *run, *number))
            }
            Call::Unkillable { worker, run } => Answer::Told(self.tell_unkillable(*worker, *run)),
            Call::Abort { task, request, grace, abandon } => {
                Answer::Aborted(self.abort(*task, *request, *grace, *abandon))
            }
            Call::Retry { task, rev, mode } => Answer::Retried(self.retry(*task, *rev, *mode)),
            Call::Delete { task, rev } => Answer::Deleted(self.delete(*task, *rev)),
            Call::Limit { task, limit } => Answer::Limited(self.set_limit(*task, *limit)),
            Call::Sweep => self.sweep(),
            Call::Cleanup => Answer::Cleaned(self.clean_up()),
            Call::DeclareDead { worker } => Answer::Declared(self.declare_dead(*worker)),
            Call::Pass { ms } => {
                self.now += ms;
                self.gone.retain(|_, at| self.now - *at < GONE_MS);
                Answer::Passed
            }
        }
    }

    fn seen(&self) -> Seen {
        self.see()
    }

    fn now(&self) -> u64 {
        self.now
    }
}
