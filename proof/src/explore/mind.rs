//! What the clients believe and may still send: the part of a state that does not lie in Redis.

use leasehold_common::name::RunId;

use super::plan::Plan;
use super::step::Step;
use crate::caller::{Made, Runs};
use crate::words::{Call, Run, TaskNo, WorkerNo};

/// A run that a worker was told to be its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Holding {
    /// The run.
    pub run: Run,
    /// Its id.
    pub id: RunId,
    /// The outcome that it has sent, by its place in the plan: from then on it sends no other.
    pub said: Option<usize>,
    /// It was told that its end has arrived.
    pub over: bool,
    /// The number of the last answered phase, charge and checkpoint.
    pub told: [u64; 3],
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkerMind {
    /// The number of its last claim.
    pub number: u64,
    /// What that asked for: how many, and whether it was the closing one.
    pub asked: (usize, bool),
    /// That claim is not answered: nothing else is claimed before it is.
    pub open: bool,
    /// What it was told to run.
    pub held: Vec<Holding>,
}

/// All clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Mind {
    /// The workers.
    pub workers: Vec<WorkerMind>,
    /// Which tasks were enqueued. To enqueue one again is to repeat what got no answer.
    pub enqueued: Vec<bool>,
    /// Another task was enqueued under an id of these.
    pub other: bool,
    /// How many abort requests each task got.
    pub aborts: Vec<u32>,
    /// The `rev` that was named last in a retry or a delete.
    pub named_rev: Vec<Option<u64>>,
    /// What may still happen.
    pub retries: u8,
    /// The same.
    pub deletes: u8,
    /// The same.
    pub limits: u8,
    /// The same.
    pub faults: u8,
    /// The same.
    pub failovers: u8,
    /// Which workers were declared dead.
    pub dead: Vec<bool>,
}

impl Mind {
    /// At the begin.
    pub fn new(plan: &Plan) -> Self {
        let tasks = plan.world.tasks.len();
        Self {
            workers: vec![WorkerMind::default(); plan.world.workers],
            enqueued: vec![false; tasks],
            other: false,
            aborts: vec![0; tasks],
            named_rev: vec![None; tasks],
            retries: plan.retries,
            deletes: plan.deletes,
            limits: plan.limits.1,
            faults: plan.faults,
            failovers: plan.failovers,
            dead: vec![false; plan.world.workers],
        }
    }

    /// The runs as the workers know them.
    pub fn runs(&self) -> Runs {
        let all = self.workers.iter().enumerate();
        all.flat_map(|(no, worker)| worker.held.iter().map(move |h| ((no, h.run), h.id.clone()))).collect()
    }

    fn holding(&mut self, worker: WorkerNo, run: Run) -> Option<&mut Holding> {
        self.workers[worker].held.iter_mut().find(|holding| holding.run == run)
    }

    /// What the clients know after a step.
    pub fn learn(&mut self, plan: &Plan, step: &Step, made: Option<&Made>) {
        let Some(call) = step.call() else { return };
        let heard = matches!(step, Step::Heard(_));
        if self.is_fault(step) {
            self.faults = self.faults.saturating_sub(1);
        }
        match call {
            Call::Enqueue(tasks) => {
                for task in tasks {
                    self.enqueued[*task] = true;
                }
            }
            Call::EnqueueOther(_) => self.other = true,
            Call::Claim { worker, number, want, closing } => {
                let mind = &mut self.workers[*worker];
                if *number >= mind.number && (heard || *number > mind.number || mind.open) {
                    (mind.number, mind.asked, mind.open) = (*number, (*want, *closing), !heard);
                    if let (true, Some(made)) = (heard, made) {
                        made.handed_out.iter().for_each(|one| mind.take(one.run.1, one.id.clone()));
                    }
                }
            }
            Call::Finish { worker, run, outcome, .. } => {
                let said = plan.outcomes.iter().position(|known| known == outcome);
                if let Some(holding) = self.holding(*worker, *run) {
                    holding.said = holding.said.or(said);
                    holding.over |= heard;
                }
            }
            Call::Phase { worker, run, number, .. } => self.told(*worker, *run, 0, *number, heard),
            Call::Spend { worker, run, number, .. } => self.told(*worker, *run, 1, *number, heard),
            Call::Checkpoint { worker, run, number } => self.told(*worker, *run, 2, *number, heard),
            Call::Abort { task, request, .. } => self.aborts[*task] = self.aborts[*task].max(*request),
            Call::Retry { task, rev, .. } => {
                self.named_rev[*task] = Some(*rev);
                self.retries -= u8::from(heard && self.retries > 0);
            }
            Call::Delete { task, rev } => {
                self.named_rev[*task] = Some(*rev);
                self.deletes -= u8::from(heard && self.deletes > 0);
            }
            Call::Limit { .. } => self.limits = self.limits.saturating_sub(1),
            Call::DeclareDead { worker } => self.dead[*worker] = true,
            Call::Beat { .. } | Call::Unkillable { .. } | Call::Sweep | Call::Cleanup | Call::Pass { .. } => {
            }
        }
    }

    /// Does a step use up one of the faults that a path may have?
    fn is_fault(&self, step: &Step) -> bool {
        matches!(step, Step::Unheard(_))
    }

    fn told(&mut self, worker: WorkerNo, run: Run, kind: usize, number: u64, heard: bool) {
        if let (true, Some(holding)) = (heard, self.holding(worker, run)) {
            holding.told[kind] = holding.told[kind].max(number);
        }
    }
}

impl WorkerMind {
    /// A claim told it of a run. After writes were lost an attempt may have another run id: the later one stands.
    fn take(&mut self, run: Run, id: RunId) {
        if self.held.iter().any(|holding| holding.run == run && holding.id == id) {
            return;
        }
        self.held.retain(|holding| holding.run != run && !(holding.over && holding.run.task == run.task));
        self.held.push(Holding { run, id, said: None, over: false, told: [0; 3] });
    }
}

/// Finds the steps that may be next.
pub struct Menu<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The clients.
    pub mind: &'a Mind,
    /// Of each task, its `rev`, and whether it has ended.
    pub ends: &'a [Option<(u64, bool)>],
    /// How old the mark of the replica is.
    pub mark: Option<u8>,
    steps: Vec<Step>,
}

impl<'a> Menu<'a> {
    /// All steps that may be next.
    pub fn steps(
        plan: &'a Plan,
        mind: &'a Mind,
        ends: &'a [Option<(u64, bool)>],
        mark: Option<u8>,
    ) -> Vec<Step> {
        let mut menu = Self { plan, mind, ends, mark, steps: Vec::new() };
        menu.time();
        menu.producer();
        for worker in 0..plan.workers() {
            // Workers are alike: the second one begins after the first.
            if worker == 0 || mind.workers[worker - 1].number > 0 {
                menu.worker(worker);
            }
        }
        menu.person();
        menu.machine();
        menu.steps
    }

    fn heard(&mut self, call: Call) {
        self.steps.push(Step::Heard(call));
    }

    /// Lost, or late.
    fn unheard(&mut self, call: Call) {
        if self.mind.faults > 0 {
            self.steps.push(Step::Unheard(call));
        }
    }

    fn both(&mut self, call: Call) {
        self.heard(call.clone());
        self.unheard(call);
    }

    fn time(&mut self) {
        self.steps.push(Step::Tick);
        self.heard(Call::Sweep);
        for ms in &self.plan.leaps {
            self.heard(Call::Pass { ms: *ms });
        }
        if self.plan.cleanup {
            self.heard(Call::Cleanup);
        }
    }

    fn producer(&mut self) {
        for batch in &self.plan.batches {
            let is_new = |task: &TaskNo| !self.mind.enqueued[*task];
            if batch.iter().all(is_new) {
                self.heard(Call::Enqueue(batch.clone()));
            } else if !batch.iter().any(is_new) {
                self.unheard(Call::Enqueue(batch.clone()));
            }
        }
        if self.plan.other && !self.mind.other {
            self.heard(Call::EnqueueOther(0));
        }
    }

    fn worker(&mut self, no: WorkerNo) {
        let mind = &self.mind.workers[no];
        let claim = |number, (want, closing)| Call::Claim { worker: no, number, want, closing };
        if mind.open {
            self.both(claim(mind.number, mind.asked));
        } else {
            for want in &self.plan.wants {
                self.both(claim(mind.number + 1, (*want, false)));
            }
            if self.plan.closing && !mind.asked.1 {
                self.both(claim(mind.number + 1, (0, true)));
            }
            if mind.number > 0 {
                self.unheard(claim(mind.number, mind.asked));
            }
        }
        if mind.number > 1 {
            self.unheard(claim(mind.number - 1, (self.plan.wants[0], false)));
        }
        let live: Vec<Run> = mind.held.iter().filter(|h| !h.over).map(|h| h.run).collect();
        if !live.is_empty() {
            self.heard(Call::Beat { worker: no, runs: live, stopping: false });
        }
        for holding in &mind.held {
            self.run(no, holding);
        }
    }

    fn run(&mut self, worker: WorkerNo, holding: &Holding) {
        let run = holding.run;
        for (at, outcome) in self.plan.outcomes.iter().enumerate() {
            let finish = Call::Finish { worker, run, outcome: outcome.clone(), before_stop: false };
            if holding.over && holding.said == Some(at) {
                self.unheard(finish);
            } else if !holding.over && holding.said.is_none_or(|said| said == at) {
                self.both(finish);
            }
        }
        if holding.over {
            return self.unheard(Call::Beat { worker, runs: vec![run], stopping: false });
        }
        if let Some(ms) = self.plan.phase {
            let phase = |number| Call::Phase { worker, run, number, name: "p", timeout: Some(ms) };
            self.tell(holding.told[0], 1, phase);
        }
        if let Some(charge) = self.plan.charge {
            self.tell(holding.told[1], 2, |number| Call::Spend { worker, run, number, charge });
        }
        if self.plan.checkpoint {
            self.tell(holding.told[2], 1, |number| Call::Checkpoint { worker, run, number });
        }
        if self.plan.unkillable {
            self.heard(Call::Unkillable { worker, run });
        }
    }

    /// Something that is told up to `most` times by a run, each time under the next number.
    fn tell(&mut self, last: u64, most: u64, call: impl Fn(u64) -> Call) {
        if last < most {
            self.both(call(last + 1));
        }
        if last > 0 {
            self.unheard(call(last));
        }
    }

    fn person(&mut self) {
        for task in 0..self.plan.world.tasks.len() {
            let sent = self.mind.aborts[task];
            let grace = if sent > 0 { self.plan.grace } else { None };
            let abandon = self.plan.abandon && sent > 0;
            if sent < self.plan.aborts {
                self.heard(Call::Abort { task, request: sent + 1, grace, abandon });
            }
            if sent > 0 {
                self.unheard(Call::Abort { task, request: 1, grace: None, abandon: false });
            }
            self.ended(task);
        }
        if self.mind.limits > 0 {
            for limit in &self.plan.limits.0 {
                self.heard(Call::Limit { task: 0, limit: *limit });
            }
        }
    }

    fn ended(&mut self, task: TaskNo) {
        let mode = Default::default();
        if let Some((rev, true)) = self.ends[task] {
            if self.mind.retries > 0 {
                self.heard(Call::Retry { task, rev, mode });
            }
            if self.mind.deletes > 0 {
                self.heard(Call::Delete { task, rev });
            }
        }
        if let Some(rev) = self.mind.named_rev[task] {
            self.unheard(Call::Retry { task, rev, mode });
            if self.plan.deletes > 0 {
                self.unheard(Call::Delete { task, rev });
            }
        }
    }

    fn machine(&mut self) {
        if self.plan.declares {
            for worker in 0..self.plan.workers() {
                if self.mind.workers[worker].number > 0 && !self.mind.dead[worker] {
                    self.heard(Call::DeclareDead { worker });
                }
            }
        }
        if self.plan.restarts {
            self.steps.push(Step::Restart);
        }
        match self.mark {
            Some(_) => self.steps.push(Step::FailOver),
            None if self.mind.failovers > 0 => self.steps.push(Step::Lag),
            None => {}
        }
    }
}
