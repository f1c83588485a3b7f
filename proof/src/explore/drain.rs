//! When faults have stopped, everything ends: a good worker and a reaper go on alone, and after so many beats no task is
//! left that has not ended.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use leasehold_common::store::Outcome;

use super::finger::{Finger, finger_of_keys};
use super::plan::Plan;
use super::session::{Packed, Session};
use super::state::State;
use super::step::Step;
use crate::words::{Call, Run};

/// More than all bounds of a world together, twice, for two tasks that go one after the other: a lease and a gap (6), a
/// hard end (5), what is unkillable (4), a delay (1).
pub const MOST_BEATS: usize = 40;

/// Everything has ended.
pub struct Drained;

/// Lets everything end. `known` holds how many beats it took from states that were met before.
///
/// # Errors
/// The further steps, and what is broken then.
pub fn drain(
    session: &mut Session,
    plan: &Plan,
    mut state: State,
    known: &Mutex<HashMap<Finger, usize>>,
) -> Result<Drained, (Vec<Step>, Vec<String>)> {
    let known = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut steps, mut met) = (Vec::new(), Vec::new());
    // The replica that lags is given up, and the clients are silent: what they know is no part of what comes.
    state.mark = None;
    let mut left = None;
    for _ in 0..=MOST_BEATS {
        if all_ended(&state) {
            left = Some(0);
            break;
        }
        let finger = finger_of_keys(plan, &state.view);
        if let Some(beats) = known().get(&finger) {
            left = Some(*beats);
            break;
        }
        met.push(finger);
        state = beat(session, plan, state, &mut steps).map_err(|problems| (steps.clone(), problems))?;
    }
    match left {
        Some(beats) if beats + met.len() <= MOST_BEATS => {
            let mut known = known();
            let beats = beats + met.len();
            known.extend(met.into_iter().enumerate().map(|(at, finger)| (finger, beats - at)));
            Ok(Drained)
        }
        _ => Err((steps, vec![format!("stuck: not everything has ended after {MOST_BEATS} beats")])),
    }
}

fn all_ended(state: &State) -> bool {
    state.view.records().values().all(|record| record.as_ref().is_ok_and(|record| record.state.is_terminal()))
}

/// A beat: the reaper sweeps, and the good worker does all it can get.
fn beat(
    session: &mut Session,
    plan: &Plan,
    state: State,
    steps: &mut Vec<Step>,
) -> Result<State, Vec<String>> {
    let mut take = |state: State, step: Step, steps: &mut Vec<Step>| {
        let packed = Packed::of(&state, &session.prefix());
        steps.push(step);
        session.take(&packed, steps.last().expect("a step"))
    };
    let worker = plan.good_worker();
    let state = take(state, Step::Tick, steps)?;
    let number = state.mind.workers[worker].number + 1;
    let claim = Call::Claim { worker, number, want: 8, closing: false };
    let mut state = take(state, Step::Heard(claim), steps)?;
    let mine: Vec<Run> = state.mind.workers[worker].held.iter().filter(|h| !h.over).map(|h| h.run).collect();
    for run in mine {
        let outcome = Outcome::Completed(b"done".to_vec());
        state = take(state, Step::Heard(Call::Finish { worker, run, outcome, before_stop: true }), steps)?;
    }
    Ok(state)
}
