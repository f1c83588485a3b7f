//! What of a view the shared vocabulary tells.

use leasehold_common::keys::LEVELS;
use leasehold_common::state::TaskState;

use super::{Record, View};
use crate::words::{Seen, SeenTask, TaskNo, WorkerNo};

/// For so long after its removal an id is remembered, ms.
const GONE_MS: u64 = 60_000;

/// The number in a name of one letter and a number: `t0` of a task, `w0` of a worker.
fn number(name: &str) -> usize {
    name.get(1..).and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{name} has no number"))
}

/// The task of an id.
pub(crate) fn task_no(id: &str) -> TaskNo {
    number(id)
}

/// The worker of an incarnation, `inc-w0`.
fn worker_no(inc: &str) -> WorkerNo {
    number(inc.strip_prefix("inc-").unwrap_or_else(|| panic!("{inc} is none of ours")))
}

fn ms(n: f64) -> u64 {
    n as u64
}

impl View {
    /// As the shared vocabulary tells it.
    ///
    /// # Panics
    /// When a record cannot be read.
    pub fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        for (id, record) in self.records() {
            let record = record.unwrap_or_else(|problem| panic!("the record of {id}: {problem}"));
            seen.tasks.insert(task_no(&id), self.seen_task(&id, &record));
        }
        for level in LEVELS {
            let tasks: Vec<TaskNo> = self.ready(level).iter().map(|(_, id)| task_no(id)).collect();
            if !tasks.is_empty() {
                seen.ready.insert(level, tasks);
            }
        }
        for (hash, row) in self.pairs("lanes") {
            let (limit, text) = row.split_once(' ').unwrap_or_else(|| panic!("the lane {hash} is {row:?}"));
            let members: Vec<TaskNo> =
                self.scores(&format!("lane:{hash}")).map(|(id, _)| task_no(&id)).collect();
            // Behind it may stand how many were let go before it fell.
            let limit = limit.split('<').next().and_then(|n| n.parse().ok()).expect("a limit");
            if limit != 1 || !members.is_empty() {
                seen.lanes.insert(text.to_owned(), (limit, members));
            }
        }
        let now = self.now();
        let gone = self.scores("gone").filter(|(_, at)| now.saturating_sub(ms(*at)) < GONE_MS);
        seen.gone = gone.map(|(id, _)| task_no(&id)).collect();
        seen.gone.sort_unstable();
        seen
    }

    fn seen_task(&self, id: &str, record: &Record) -> SeenTask {
        let (state, rare) = (record.state, &record.rare);
        SeenTask {
            state,
            rev: record.rev,
            attempt: record.attempt,
            failures: record.failures,
            reclaims: record.reclaims,
            owner: state.has_run().then(|| worker_no(&record.inc)),
            due: (state == TaskState::Scheduled).then_some(record.at),
            ended: state.is_terminal().then_some(record.at),
            deadline: rare.dl.map(ms),
            stop: rare.sp.as_ref().map(|stop| (stop.c, ms(stop.at), ms(stop.he))),
            failure: rare.fk,
            spent: rare.bu.get("calls").map(|(_, spent)| ms(*spent)),
            phase: rare.ph.as_ref().map(|phase| (phase.n.clone(), ms(phase.at))),
            checkpoint: rare.ck.is_some(),
            suspected: rare.ml.is_some(),
            lease_until: self.lease_until(id, record),
        }
    }
}
