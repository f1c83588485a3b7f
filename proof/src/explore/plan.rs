//! What may happen in a world, and how often.

use leasehold_common::store::Outcome;

use super::step::Step;
use crate::words::{TaskNo, World};

/// A world and the calls that are made in it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The world. Its last worker is the good one that only comes when faults have stopped.
    pub world: World,
    /// For people: what this world is for.
    pub about: &'static str,
    /// Its servers keep an append-only file, and are restarted.
    pub restarts: bool,
    /// How every path begins: what leads to where it gets interesting.
    pub begins: Vec<Step>,
    /// The longest path from there.
    pub depth: usize,
    /// The batches that are enqueued.
    pub batches: Vec<Vec<TaskNo>>,
    /// Another task is enqueued under an id.
    pub other: bool,
    /// How many tasks a claim asks for.
    pub wants: Vec<usize>,
    /// Workers make a closing claim.
    pub closing: bool,
    /// How runs end.
    pub outcomes: Vec<Outcome>,
    /// How many abort requests a task may get, with which grace, and whether they give up what cannot be killed.
    pub aborts: u32,
    /// The grace of the second one, ms.
    pub grace: Option<u64>,
    /// An abort may give up a run that cannot be killed.
    pub abandon: bool,
    /// How often tasks may be retried.
    pub retries: u8,
    /// How often tasks may be deleted.
    pub deletes: u8,
    /// The timeout of a phase, ms.
    pub phase: Option<u64>,
    /// A charge.
    pub charge: Option<u64>,
    /// Runs leave checkpoints.
    pub checkpoint: bool,
    /// Runs do not die.
    pub unkillable: bool,
    /// Limits that are set for the lane, and how often.
    pub limits: (Vec<u32>, u8),
    /// Jumps in time while nobody sweeps, ms.
    pub leaps: Vec<u64>,
    /// The reaper cleans up.
    pub cleanup: bool,
    /// Workers are declared dead.
    pub declares: bool,
    /// How many replies are lost and duplicates come late on one path.
    pub faults: u8,
    /// How often a replica takes over on one path.
    pub failovers: u8,
    /// How many steps can be lost then.
    pub window: u8,
}

impl Plan {
    /// A beat, ms: the step of time.
    pub fn beat_ms(&self) -> u64 {
        self.lease_ms() / 3
    }

    /// The lease, ms.
    pub fn lease_ms(&self) -> u64 {
        u64::try_from(self.world.settings.lease.as_millis()).expect("a lease of this age")
    }

    /// Ended tasks are alike once they are older than this, ms: past every retention, and past the time for which a
    /// removed one is remembered. Where nobody cleans up their age is nothing to anybody.
    pub fn oldest_end_ms(&self) -> i64 {
        if !self.cleanup {
            return 0;
        }
        let s = &self.world.settings;
        let kept = [s.retain_completed, s.retain_failed, s.retain_timed_out, s.retain_aborted];
        // What is kept for days is kept for longer than any path lasts.
        let within = kept.iter().map(std::time::Duration::as_millis).filter(|ms| *ms < 3_600_000);
        i64::try_from(within.max().unwrap_or_default().max(60_000)).expect("an hour at most") + 1
    }

    /// The workers that act while there are faults.
    pub fn workers(&self) -> usize {
        self.world.workers - 1
    }

    /// The worker that comes when faults have stopped.
    pub fn good_worker(&self) -> usize {
        self.world.workers - 1
    }
}
