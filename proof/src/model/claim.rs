//! A worker claims: what is due becomes ready, and queued tasks start, each under a lease.

use std::collections::BTreeMap;

use super::Model;
use super::level::Level;
use super::task::Running;
use crate::words::{Answer, Run, Start, TaskNo, WorkerNo};

/// Every so many started tasks one is taken lowest first.
const LOWEST_EVERY: u64 = 8;

/// What is remembered of the last claim of an incarnation.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Hand {
    /// Its number.
    number: Option<u64>,
    /// What it handed out.
    handed_out: Vec<TaskNo>,
    /// It was its closing claim: none is answered after it but a repeat.
    closed: bool,
    /// The incarnation is declared dead: none is answered.
    pub dead: bool,
    /// The last run on its last chance that it was given.
    chance: Option<Run>,
}

/// A claim in progress.
struct Claim {
    worker: WorkerNo,
    starts: Vec<Start>,
    /// Entries of each level that this claim has not looked at, of those that were there when it began.
    unseen: BTreeMap<Level, usize>,
    /// Entries at the head of each level that it has left where they are.
    left: BTreeMap<Level, usize>,
}

impl Claim {
    fn levels_left(&self) -> usize {
        self.unseen.values().filter(|unseen| **unseen > 0).count()
    }
}

impl Model {
    /// One claim. The same number again is a repeat; a lower one comes too late.
    pub(super) fn claim(&mut self, worker: WorkerNo, number: u64, want: usize, closing: bool) -> Answer {
        let hand = &self.hands[worker];
        if hand.dead {
            return Answer::Dead;
        }
        if hand.closed && !closing {
            return Answer::Closed;
        }
        if hand.number.is_some_and(|last| number < last) {
            return Answer::Stale;
        }
        let starts = if hand.number == Some(number) {
            self.hand_out_again(worker)
        } else if closing {
            Vec::new()
        } else {
            self.hand_out(worker, want)
        };
        let hand = &mut self.hands[worker];
        hand.number = Some(number);
        hand.closed = closing;
        hand.handed_out = starts.iter().map(|start| start.run.task).collect();
        Answer::Claimed(starts)
    }

    /// Of the last answer, what this incarnation still owns, each with a fresh lease and its stop.
    fn hand_out_again(&mut self, worker: WorkerNo) -> Vec<Start> {
        let lease_end = self.now + self.rules.lease;
        let mut starts = Vec::new();
        for no in self.hands[worker].handed_out.clone() {
            let run = self.tasks.get_mut(&no).and_then(|task| task.run.as_mut());
            if let Some(run) = run.filter(|run| run.worker == worker) {
                run.missed = None;
                run.renewed_until = lease_end;
                starts.push(self.start_of(no));
            }
        }
        starts
    }

    /// Starts up to `want` tasks: the highest level first, each in its order, but every eighth of all starts of the queue
    /// the lowest first.
    fn hand_out(&mut self, worker: WorkerNo, want: usize) -> Vec<Start> {
        self.promote();
        let unseen = self.ready.iter().map(|(level, queued)| (*level, queued.len())).collect();
        let mut claim = Claim { worker, starts: Vec::new(), unseen, left: BTreeMap::new() };
        while claim.starts.len() < want && claim.levels_left() > 0 {
            let wanted = want - claim.starts.len();
            let until_lowest = LOWEST_EVERY - 1 - self.started % LOWEST_EVERY;
            if claim.levels_left() == 1 {
                self.take_up_to(wanted, Level::ALL, &mut claim);
            } else if until_lowest > 0 {
                self.take_up_to(wanted.min(until_lowest as usize), Level::ALL, &mut claim);
            } else {
                self.take_up_to(1, Level::LOWEST_FIRST, &mut claim);
            }
        }
        claim.starts
    }

    /// Starts up to `most` tasks of these levels.
    fn take_up_to(&mut self, most: usize, levels: [Level; 5], claim: &mut Claim) {
        let goal = claim.starts.len() + most;
        for level in levels {
            while claim.starts.len() < goal && claim.unseen.get(&level).is_some_and(|unseen| *unseen > 0) {
                self.take_page(goal - claim.starts.len(), level, claim);
            }
        }
    }

    /// Looks at one page of a level, `most` entries long. What this claim lets go from a lane may stand on a later page.
    fn take_page(&mut self, most: usize, level: Level, claim: &mut Claim) {
        let skipped = claim.left.get(&level).copied().unwrap_or_default();
        let page: Vec<TaskNo> =
            self.ready.get(&level).into_iter().flatten().skip(skipped).take(most).copied().collect();
        for no in &page {
            if self.task(*no).is_late(self.now) {
                self.end_late(*no);
            } else if self.is_on_last_chance(*no) && self.has_last_chance_in_hand(claim.worker) {
                *claim.left.entry(level).or_default() += 1;
            } else {
                self.start(*no, claim.worker);
                claim.starts.push(self.start_of(*no));
            }
        }
        let unseen = claim.unseen.entry(level).or_default();
        *unseen = if page.is_empty() { 0 } else { unseen.saturating_sub(page.len()) };
    }

    /// Has it lost as many workers as it may, and at least one? Such tasks share no worker.
    fn is_on_last_chance(&self, no: TaskNo) -> bool {
        let reclaims = self.task(no).reclaims;
        reclaims > 0 && reclaims >= u64::from(self.rules.body(no).policy.max_reclaims)
    }

    fn has_last_chance_in_hand(&self, worker: WorkerNo) -> bool {
        let chance = self.hands[worker].chance;
        chance.is_some_and(|run| self.tasks.get(&run.task).is_some_and(|task| task.is_owned(worker, run)))
    }

    fn start(&mut self, no: TaskNo, worker: WorkerNo) {
        let (now, lease) = (self.now, self.rules.lease);
        self.enter_run(no);
        self.started += 1;
        let task = self.task_mut(no);
        task.attempt += 1;
        task.phase = None;
        task.run = Some(Running::new(worker, now));
        let run = task.name_of_run(no);
        if self.is_on_last_chance(no) {
            self.hands[worker].chance = Some(run);
        }
        let next_look = self.nothing_due_until(no).min(now + lease);
        self.task_mut(no).running_mut().next_look = next_look;
    }

    fn start_of(&self, no: TaskNo) -> Start {
        let task = self.task(no);
        Start {
            run: task.name_of_run(no),
            failures: task.failures,
            reclaims: task.reclaims,
            stop: task.stop.as_ref().map(|stop| (stop.cause, stop.hard_end)),
        }
    }
}
