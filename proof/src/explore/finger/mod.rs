//! The fingerprint of a state: two states with the same one go on alike.
//!
//! Left out is what no script ever compares: events, statistics, totals (which are checked at each step), who was told
//! what, error texts, when a task was enqueued or a run that is over began. Replaced are:
//!
//! - **times** by their distance from now, or by whether they have passed where no script asks for more;
//! - **run ids** by which places name the same one: scripts compare them for equality alone;
//! - **tokens** by nothing: they only grow, which each step checks;
//! - **`rev`** by its distance from those that a client has named, `attempt` by nothing: a number that is given once is
//!   never given again (but after writes were lost, where distances above zero are kept);
//! - **numbers of claims** by their distance from the one that Redis remembers;
//! - **places in a stream or a lane** by their order;
//! - **the watch clock** by the distances to it.

mod clients;
mod keys;

use std::hash::{DefaultHasher, Hasher as _};

use clients::mind;
use keys::Scribe;

use super::plan::Plan;
use super::state::State;
use crate::view::View;

/// 128 bits that stand for a state.
pub type Finger = u128;

/// Later than any bound of a world, ms: what is further away is infinitely far away.
const FAR_MS: i64 = 3_600_000;

/// Collects what a fingerprint is made of.
#[derive(Default)]
struct Ink(Vec<u8>);

impl Ink {
    fn number(&mut self, n: i64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    fn count(&mut self, n: usize) {
        self.number(i64::try_from(n).expect("a small count"));
    }

    fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn finger(self) -> Finger {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(salt);
            hasher.write(&self.0);
            u128::from(hasher.finish())
        };
        half(1) << 64 | half(2)
    }
}

fn whole(n: f64) -> i64 {
    n as i64
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).expect("a time")
}

/// The fingerprint of a state.
///
/// # Panics
/// When a record cannot be read: the step that made it has been refused before.
pub fn finger(plan: &Plan, state: &State) -> Finger {
    let mut ink = Ink::default();
    let now = state.view.now();
    let mut views = vec![&state.view];
    views.extend(state.mark.as_ref().map(|mark| &mark.view));
    for view in &views {
        Scribe::new(&mut ink, view, now).write(plan);
    }
    mind(&mut ink, &state.mind, &views);
    ink.number(state.mark_age().map_or(-1, i64::from));
    ink.finger()
}

/// The fingerprint of the keys alone: of a state in which the clients are silent.
pub fn finger_of_keys(plan: &Plan, view: &View) -> Finger {
    let mut ink = Ink::default();
    Scribe::new(&mut ink, view, view.now()).write(plan);
    ink.finger()
}
