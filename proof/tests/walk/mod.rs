//! A walk: what its callers know, how the model takes a call, and how the scripts are held against it.

mod calls;
mod worlds;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use leasehold_proof::model::Model;
use leasehold_proof::real::Real;
use leasehold_proof::words::{Answer, Call, Oracle, Run, WorkerNo, World};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};

/// The model, and what those who call it were told.
#[derive(Clone)]
pub struct Walk {
    /// Which of the worlds.
    world_no: usize,
    world: World,
    model: Model,
    /// The answer to the last call.
    answer: Answer,
    /// The number of each worker's last claim.
    claims: Vec<u64>,
    /// Runs that claims have answered, the last one last.
    runs: Vec<(WorkerNo, Run)>,
    /// The number of the last word of a run.
    told: u64,
}

/// A failure shows where a walk began: the world's name says it all.
impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the world {:?}", self.world.name)
    }
}

/// One step.
#[derive(Debug, Clone)]
pub enum Step {
    /// A call.
    Make(Call),
    /// A call while something foreign lies in the place of a key: it is refused, and changes nothing.
    Spoilt(&'static str, Call),
}

impl Walk {
    fn start(world_no: usize) -> Self {
        let world = worlds::all().swap_remove(world_no);
        Self {
            world_no,
            model: Model::new(&world),
            answer: Answer::Passed,
            claims: vec![0; world.workers],
            runs: Vec::new(),
            told: 0,
            world,
        }
    }

    fn note(&mut self, call: &Call) {
        match (call, &self.answer) {
            (Call::Claim { worker, number, .. }, Answer::Claimed(starts)) => {
                self.claims[*worker] = (*number).max(self.claims[*worker]);
                for start in starts {
                    self.runs.retain(|known| *known != (*worker, start.run));
                    self.runs.push((*worker, start.run));
                }
            }
            (
                Call::Phase { number, .. } | Call::Spend { number, .. } | Call::Checkpoint { number, .. },
                _,
            ) => {
                self.told = (*number).max(self.told);
            }
            _ => {}
        }
    }
}

impl ReferenceStateMachine for Walk {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        (0..worlds::all().len()).prop_map(Self::start).boxed()
    }

    fn transitions(walk: &Self) -> BoxedStrategy<Step> {
        calls::any_of(walk)
    }

    fn apply(mut walk: Self, step: &Step) -> Self {
        if let Step::Make(call) = step {
            walk.answer = walk.model.play(call);
            walk.note(call);
        }
        walk
    }
}

thread_local! {
    /// A server for each world, kept from walk to walk.
    static SERVERS: RefCell<BTreeMap<usize, Real>> = const { RefCell::new(BTreeMap::new()) };
}

/// The real scripts beside the model.
pub struct Against {
    world_no: usize,
    real: Option<Real>,
}

impl Against {
    fn real(&mut self) -> &mut Real {
        self.real.as_mut().expect("a server until the walk ends")
    }
}

impl Drop for Against {
    fn drop(&mut self) {
        if let Some(real) = self.real.take() {
            SERVERS.with(|servers| servers.borrow_mut().insert(self.world_no, real));
        }
    }
}

impl StateMachineTest for Against {
    type SystemUnderTest = Self;
    type Reference = Walk;

    fn init_test(walk: &Walk) -> Self {
        let kept = SERVERS.with(|servers| servers.borrow_mut().remove(&walk.world_no));
        let mut real = kept.unwrap_or_else(|| Real::start(walk.world.clone()));
        real.reset();
        Self { world_no: walk.world_no, real: Some(real) }
    }

    fn apply(mut against: Self, walk: &Walk, step: Step) -> Self {
        let real = against.real();
        match &step {
            Step::Make(call) => {
                let answer = real.play(call);
                assert_eq!(answer, walk.answer, "scripts and model answer {call:?}");
            }
            Step::Spoilt(suffix, call) => spoil(real, suffix, call),
        }
        assert_eq!(real.seen(), walk.model.seen(), "scripts and model after {step:?}");
        assert_eq!(real.now(), walk.model.now());
        let mut broken = real.breaches();
        // The row of an id that may come again stays until the next sweep, and says nothing by itself.
        broken.retain(|breach| !breach.contains("remembered as gone"));
        assert!(broken.is_empty(), "after {step:?}: {broken:?}");
        against
    }

    fn teardown(mut against: Self, _: Walk) {
        let real = against.real();
        real.play(&Call::Sweep);
        real.check();
    }
}

/// Puts a foreign key in the place of one that all scripts look at, makes the call, and takes it away again.
fn spoil(real: &mut Real, suffix: &str, call: &Call) {
    let key = format!("{}{suffix}", real.caller_prefix());
    let aside = format!("{key}-aside");
    let command = |words: &[&str]| {
        let mut cmd = redis::cmd(words[0]);
        cmd.arg(&words[1..]);
        real.direct.command(&cmd)
    };
    let kept = command(&["RENAME", &key, &aside]).is_ok();
    command(&["SET", &key, "foreign"]).expect("a foreign key");
    let before = real.view();
    let refused = real.make(&real.runs, call).map(|made| made.answer);
    let after = real.view();
    command(&["DEL", &key]).expect("it goes");
    if kept {
        command(&["RENAME", &aside, &key]).expect("the key comes back");
    }
    assert!(refused.is_err(), "with a foreign {suffix} {call:?} was answered {refused:?}");
    assert!(before == after, "with a foreign {suffix} {call:?} was refused and changed something");
}
