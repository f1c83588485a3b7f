//! What Redis makes of an end where the run had been asked to stop: the rules of `lua/lib/finish_rare.lua`.

use std::sync::{Arc, Mutex, PoisonError};

use leasehold_common::record::{FailureDetail, StopCause};
use leasehold_common::store::Outcome;

use crate::context::Context;

/// What a run had been asked when its work ended. What comes after that, while cleanups run, changes no outcome.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked(Arc<Mutex<Option<StopCause>>>);

/// Lives as long as the work of a run: through a result, a panic, and a future that is dropped.
pub(super) struct Work {
    context: Context,
    asked: Asked,
}

impl Asked {
    /// The work of a run begins.
    pub(super) fn of(&self, context: &Context) -> Work {
        Work { context: context.clone(), asked: self.clone() }
    }

    /// What becomes of an outcome.
    pub(super) fn decide(&self, outcome: Outcome) -> Outcome {
        let asked = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(cause) = asked.filter(|cause| *cause != StopCause::Drain) else { return outcome };
        match outcome {
            // It was told at the charge that was refused: what it made of that is no result.
            Outcome::Completed(_) if cause == StopCause::BudgetExceeded => {
                let message = "the run went on after a charge was refused".to_owned();
                Outcome::Stopped { cause, message, detail: FailureDetail::default() }
            }
            Outcome::Failed { message, detail, .. } => Outcome::Stopped { cause, message, detail },
            Outcome::Snoozed(_) => {
                Outcome::Stopped { cause, message: String::new(), detail: FailureDetail::default() }
            }
            Outcome::Completed(_) | Outcome::Stopped { .. } | Outcome::Released | Outcome::Unknown { .. } => {
                outcome
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        *self.asked.0.lock().unwrap_or_else(PoisonError::into_inner) = self.context.asked_to_stop();
    }
}
