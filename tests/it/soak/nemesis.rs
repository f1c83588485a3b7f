//! Who breaks things, by a seed, and heals each.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leasehold_tests::let_time_pass;
use leasehold_tests::trail::now_ns;

use super::crew::{Crew, REAPERS, WORKERS};
use super::plan::Dice;

/// When and what, to be read beside the trail.
macro_rules! say {
    ($($what:tt)+) => {
        eprintln!("nemesis at {:.3}: {}", now_ns() as f64 / 1e6, format!($($what)+))
    };
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillWorker,
    FreezeWorker,
    DrainWorker,
    PauseRedis,
    FlushScripts,
    KillClients,
    KillReaper,
    FreezeReaper,
}

use Fault::{
    DrainWorker, FlushScripts, FreezeReaper, FreezeWorker, KillClients, KillReaper, KillWorker, PauseRedis,
};

/// As often as they stand here.
const FAULTS: [Fault; 14] = [
    KillWorker,
    KillWorker,
    KillWorker,
    FreezeWorker,
    FreezeWorker,
    FreezeWorker,
    PauseRedis,
    PauseRedis,
    FlushScripts,
    KillClients,
    DrainWorker,
    DrainWorker,
    KillReaper,
    FreezeReaper,
];

/// How often each was done.
pub(super) type Deeds = BTreeMap<&'static str, u64>;

pub(super) struct Nemesis {
    dice: Dice,
    lease: Duration,
    done: Deeds,
}

impl Nemesis {
    pub(super) fn new(dice: Dice, lease: Duration) -> Self {
        Self { dice, lease, done: Deeds::new() }
    }

    /// Breaks one thing after another until `until`, and leaves everything whole.
    pub(super) fn rage(mut self, crew: &mut Crew, until: Instant) -> Deeds {
        while Instant::now() < until {
            let_time_pass("between two faults", self.dice.ms(200, 1500));
            let fault = self.dice.of_these(&FAULTS);
            self.strike(fault, crew);
            crew.look_for_deserters();
            crew.revive();
        }
        self.done
    }

    fn count(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    /// Half a lease, a lease, three leases.
    fn hold(&mut self) -> Duration {
        self.lease * self.dice.of_these(&[1, 2, 6]) / 2
    }

    fn strike(&mut self, fault: Fault, crew: &mut Crew) {
        let (worker, reaper) = (self.dice.index(WORKERS), WORKERS + self.dice.index(REAPERS));
        let hold = self.hold();
        match fault {
            KillWorker => self.kill(crew, worker, "kills of workers"),
            KillReaper => self.kill(crew, reaper, "kills of reapers"),
            FreezeWorker => self.freeze(crew, worker, hold, "freezes of workers"),
            FreezeReaper => self.freeze(crew, reaper, hold, "freezes of reapers"),
            DrainWorker => {
                self.count("drains");
                say!("drain {}", crew.name(worker));
                crew.drain(worker);
            }
            PauseRedis => {
                self.count("pauses of Redis");
                say!("pause Redis");
                crew.redis.pause();
                let rest = self.second_strike(crew, hold, &[KillWorker, FreezeWorker, KillReaper]);
                let_time_pass("Redis stands still", rest);
                crew.redis.resume();
                crew.redis_is_back();
                Self::thaw_all(crew);
            }
            FlushScripts => {
                self.count("script flushes");
                say!("flush scripts");
                crew.redis.command::<()>(&["SCRIPT", "FLUSH"]);
            }
            KillClients => {
                self.count("client kills");
                say!("kill clients");
                for kind in ["normal", "pubsub"] {
                    crew.redis.command::<i64>(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
                }
            }
        }
    }

    /// It stays dead for up to three leases: started at once it reclaims its own runs, later a reaper has.
    fn kill(&mut self, crew: &mut Crew, number: usize, what: &'static str) {
        say!("kill {}", crew.name(number));
        if crew.kill(number) {
            self.count(what);
        }
        if self.dice.once_in(2) {
            let dead = self.hold();
            let_time_pass("it stays dead", dead);
        }
    }

    fn freeze(&mut self, crew: &mut Crew, number: usize, hold: Duration, what: &'static str) {
        self.count(what);
        say!("freeze {} for {hold:?}", crew.name(number));
        crew.freeze(number);
        let rest = self.second_strike(crew, hold, &[KillWorker, FlushScripts, KillClients, KillReaper]);
        let_time_pass("it stands still", rest);
        Self::thaw_all(crew);
    }

    /// A fault within a fault, now and then: at some time of `hold`. Returns what is left of it.
    fn second_strike(&mut self, crew: &mut Crew, hold: Duration, faults: &[Fault]) -> Duration {
        if !self.dice.once_in(3) {
            return hold;
        }
        let before = hold * u32::try_from(self.dice.within(0, 9)).expect("a small number") / 10;
        let_time_pass("before a second fault", before);
        let (worker, reaper) = (self.dice.index(WORKERS), WORKERS + self.dice.index(REAPERS));
        match self.dice.of_these(faults) {
            KillWorker | DrainWorker => {
                say!("meanwhile kill {}", crew.name(worker));
                if crew.kill(worker) {
                    self.count("kills of workers");
                }
            }
            KillReaper | FreezeReaper => {
                say!("meanwhile kill {}", crew.name(reaper));
                if crew.kill(reaper) {
                    self.count("kills of reapers");
                }
            }
            FreezeWorker | PauseRedis => {
                say!("meanwhile freeze {}", crew.name(worker));
                self.count("freezes of workers");
                crew.freeze(worker);
            }
            quick @ (FlushScripts | KillClients) => self.strike(quick, crew),
        }
        hold.saturating_sub(before)
    }

    fn thaw_all(crew: &Crew) {
        for number in 0..WORKERS + REAPERS {
            crew.thaw(number);
        }
    }
}
