//! A [`Call`] as the typed API of the store takes it, and its answer without ids and tokens.

use std::collections::BTreeMap;

use leasehold_common::Result;
use leasehold_common::name::{Incarnation, QueueName, RunId, TaskId};
use leasehold_common::store::{
    AbortRequest, Beat, ClaimAnswer, ClaimRequest, ClaimedTask, Finish, NewTask, Store, Teller,
};
use leasehold_tests::queue::{Hand, budget, id, ms};

use crate::words::{Answer, Call, Run, Start, TaskNo, WorkerNo, World};

/// Which run id a worker knows a run by, as a claim answered it.
pub type Runs = BTreeMap<(WorkerNo, Run), RunId>;

/// Makes the calls of a world.
pub struct Caller {
    /// The world.
    pub world: World,
    /// Its queue.
    pub queue: QueueName,
    /// Its workers.
    pub hands: Vec<Hand>,
}

/// A run id that no claim ever answered.
fn nobodys() -> RunId {
    RunId::new("normal:1-1").expect("a run id")
}

/// What a claim handed out: the run's name, its id, its token.
pub struct HandedOut {
    /// The worker and the run.
    pub run: (WorkerNo, Run),
    /// Its id.
    pub id: RunId,
    /// Its token.
    pub token: u64,
}

/// The answer, and the runs that it told of.
pub struct Made {
    /// The answer.
    pub answer: Answer,
    /// Of a claim.
    pub handed_out: Vec<HandedOut>,
}

impl From<Answer> for Made {
    fn from(answer: Answer) -> Self {
        Self { answer, handed_out: Vec::new() }
    }
}

impl Caller {
    /// Of a world.
    ///
    /// # Panics
    /// When a task's id is not its place in the world.
    pub fn new(world: World) -> Self {
        for (no, task) in world.tasks.iter().enumerate() {
            assert_eq!(task.id.as_str(), format!("t{no}"), "ids are places in the world");
        }
        let hands = (0..world.workers).map(|no| Hand::new(&format!("w{no}"))).collect();
        Self { world, queue: QueueName::new("q").expect("a queue name"), hands }
    }

    fn id(&self, task: TaskNo) -> &TaskId {
        &self.world.tasks[task].id
    }

    fn inc(&self, worker: WorkerNo) -> &Incarnation {
        &self.hands[worker].inc
    }

    /// The same id with another payload.
    pub fn other(&self, task: TaskNo) -> NewTask {
        let mut other = self.world.tasks[task].clone();
        other.body.payload = vec![9; 10];
        other
    }

    /// Makes a call; the passing of time is not its business.
    ///
    /// # Errors
    /// Those of the store: a script that fails or answers what it may not.
    ///
    /// # Panics
    /// For the passing of time.
    pub async fn make(&self, store: &Store, runs: &Runs, call: &Call) -> Result<Made> {
        let q = &self.queue;
        let run_id = |worker: WorkerNo, run: Run| runs.get(&(worker, run)).cloned().unwrap_or_else(nobodys);
        Ok(match call {
            Call::Enqueue(tasks) => {
                let tasks: Vec<NewTask> = tasks.iter().map(|no| self.world.tasks[*no].clone()).collect();
                Answer::Enqueued(store.enqueue(q, &tasks).await?).into()
            }
            Call::EnqueueOther(task) => {
                Answer::Enqueued(store.enqueue(q, &[self.other(*task)]).await?).into()
            }
            Call::Claim { worker, number, want, closing } => {
                let request =
                    ClaimRequest { closing: *closing, ..self.hands[*worker].request(*number, *want) };
                claimed(*worker, store.claim(q, &request).await?)
            }
            Call::Finish { worker, run, outcome, before_stop } => {
                let id = self.id(run.task).clone();
                let (run, outcome) = (run_id(*worker, *run), outcome.clone());
                let finish = Finish { id, run, outcome, before_stop: *before_stop };
                Answer::Finished(store.finish(q, self.inc(*worker), &[finish]).await?.remove(0)).into()
            }
            Call::Beat { worker, runs, stopping } => {
                let beat = |run: &Run| Beat {
                    id: self.id(run.task).clone(),
                    run: run_id(*worker, *run),
                    stopping: *stopping,
                };
                let beats: Vec<Beat> = runs.iter().map(beat).collect();
                Answer::Beats(store.heartbeat(q, self.inc(*worker), &beats).await?.answers).into()
            }
            Call::Phase { .. } | Call::Spend { .. } | Call::Checkpoint { .. } | Call::Unkillable { .. } => {
                self.tell(store, runs, call).await?.into()
            }
            Call::Abort { task, request, grace, abandon } => {
                let request = AbortRequest {
                    request: format!("r{request}"),
                    grace: grace.map(ms),
                    abandon: *abandon,
                    ..AbortRequest::new(self.id(*task).clone(), "me", "why")
                };
                Answer::Aborted(store.abort(q, &[request]).await?.remove(0)).into()
            }
            Call::Retry { task, rev, mode } => {
                let seen = [(self.id(*task).clone(), *rev)];
                Answer::Retried(store.retry_with(q, &seen, *mode).await?.remove(0)).into()
            }
            Call::Delete { task, rev } => {
                let seen = [(self.id(*task).clone(), *rev)];
                Answer::Deleted(store.delete(q, &seen).await?.remove(0)).into()
            }
            Call::Limit { task, limit } => {
                let lane = self.world.tasks[*task].body.lane.as_ref().expect("a task of a lane");
                Answer::Limited(store.set_lane_limit(q, lane, *limit).await?).into()
            }
            Call::Sweep => {
                let s = store.sweep(q, 256).await?;
                Answer::Swept {
                    suspected: s.suspected,
                    reclaimed: s.reclaimed,
                    ended: s.ended,
                    stopped: s.stopped,
                    promoted: s.promoted,
                    gap: s.gap,
                }
                .into()
            }
            Call::Cleanup => Answer::Cleaned(store.cleanup(q, 256).await?.deleted).into(),
            Call::DeclareDead { worker } => {
                let (mut cursor, mut reclaimed) = (Some(0), 0);
                while let Some(at) = cursor {
                    let page = store.declare_dead(q, self.inc(*worker), at, 256).await?;
                    (cursor, reclaimed) = (page.more, reclaimed + page.reclaimed);
                }
                Answer::Declared(reclaimed).into()
            }
            Call::Pass { .. } => panic!("time passes in the config of the queue"),
        })
    }

    /// What a run tells of itself.
    async fn tell(&self, store: &Store, runs: &Runs, call: &Call) -> Result<Answer> {
        let (Call::Phase { worker, run, .. }
        | Call::Spend { worker, run, .. }
        | Call::Checkpoint { worker, run, .. }
        | Call::Unkillable { worker, run }) = call
        else {
            panic!("{call:?} tells nothing of a run")
        };
        let run_id = runs.get(&(*worker, *run)).cloned().unwrap_or_else(nobodys);
        let teller = |number: u64| Teller {
            incarnation: self.inc(*worker),
            id: self.id(run.task),
            run: &run_id,
            number,
        };
        let q = &self.queue;
        Ok(match call {
            Call::Phase { number, name, timeout, .. } => {
                let name = leasehold_common::name::PhaseName::new(*name).expect("the name of a phase");
                Answer::Told(store.enter_phase(q, &teller(*number), &name, timeout.map(ms)).await?)
            }
            Call::Spend { number, charge, .. } => {
                Answer::Spent(store.spend(q, &teller(*number), &budget("calls"), &[*charge]).await?)
            }
            Call::Checkpoint { number, .. } => {
                Answer::Told(store.set_checkpoint(q, &teller(*number), b"half").await?)
            }
            _ => Answer::Told(store.tell_unkillable(q, &teller(0), "17").await?),
        })
    }
}

/// A claim's answer.
fn claimed(worker: WorkerNo, answer: ClaimAnswer) -> Made {
    let claimed = match answer {
        ClaimAnswer::Claimed(claimed) => claimed,
        ClaimAnswer::Stale => return Answer::Stale.into(),
        ClaimAnswer::Closed => return Answer::Closed.into(),
        ClaimAnswer::Dead => return Answer::Dead.into(),
    };
    assert!(claimed.unreadable.is_empty(), "a claim handed out what cannot be read: {claimed:?}");
    let run = |task: &ClaimedTask| Run { task: no_of(&task.id), attempt: task.attempt };
    let start = |task: &ClaimedTask| Start {
        run: run(task),
        failures: task.failures,
        reclaims: task.reclaims,
        stop: task.stop,
    };
    let told =
        |task: &ClaimedTask| HandedOut { run: (worker, run(task)), id: task.run.clone(), token: task.token };
    Made {
        answer: Answer::Claimed(claimed.tasks.iter().map(start).collect()),
        handed_out: claimed.tasks.iter().map(told).collect(),
    }
}

fn no_of(id: &TaskId) -> TaskNo {
    crate::view::task_no(id.as_str())
}

/// The id of a task by its place in the world, `t0`.
pub fn task_id(task: TaskNo) -> TaskId {
    id(&format!("t{task}"))
}
