//! The exhaustive explorer: every interleaving of calls, faults and time in a small world, to a stated depth, on the real
//! scripts.
//!
//! A state is all keys of the queue and all that the clients believe and may still send ([`mind`]). From each state every
//! step that may come next ([`step`]) is taken once, on a private Redis in which the state's keys were put ([`session`]).
//! After each step are judged: what must hold in every state ([`judge`](mod@judge)), what must hold of every step ([`safety`]), and
//! that the model, where there is one, gives the same answer and sees the same queue. From the ends of the paths a good
//! worker and a reaper go on alone until everything has ended ([`drain`](mod@drain)).
//!
//! **What stands for what.** A reply that is lost is a call of which the client learns nothing; a request that is lost is
//! a call that is not made. A late duplicate is a call that was made before, whose answer nobody waits for. A worker that
//! is frozen, or that crashed, is one that makes no call for a while, or ever. A lease expires as time passes. So these
//! need no steps of their own: all orders are taken.
//!
//! **States merge** by their fingerprint ([`finger`](mod@finger)): two states are the same when no script and no client can ever tell
//! them apart. Ids, tokens and absolute times are compared with each other alone, and only for equality, order or
//! distance; so their fingerprint is made of these. What it leaves out is told there, with the reason. A merge that is
//! wrong hides paths; it never makes a false alarm, for every judgement is made on real keys.
//!
//! **Left out on purpose:** the wake marker and the watch of due times, which only make sooner what a poll brings, are taken
//! away after each step, as if they had been lost.

pub mod drain;
pub mod finger;
pub mod judge;
pub mod mind;
pub mod plan;
pub mod safety;
pub mod search;
pub mod session;
pub mod state;
pub mod step;
pub mod worlds;

use std::sync::Arc;

use crate::model::Model;
pub use plan::Plan;
pub use search::{Breach, Limits, Report, search};
pub use session::{MakeShadow, Session};
pub use step::{Step, test_code};

/// The reference model.
pub fn with_model(plan: &Plan) -> Option<Box<dyn state::Shadow>> {
    Some(Box::new(Model::new(&plan.world)))
}

/// No model: what is judged is judged on the keys alone.
pub fn no_model(_: &Plan) -> Option<Box<dyn state::Shadow>> {
    None
}

/// Takes the steps of a path in the world of this name, and panics with what is broken.
///
/// # Panics
/// When a step breaks something, or there is no such world.
#[track_caller]
pub fn retrace(world: &str, steps: &[Step]) {
    let plan = worlds::named(world).unwrap_or_else(|| panic!("there is no world {world}"));
    if let Err(problems) = Session::start(Arc::new(plan), with_model).walk(steps) {
        panic!("the path through {world} breaks\n  {}", problems.join("\n  "));
    }
}
