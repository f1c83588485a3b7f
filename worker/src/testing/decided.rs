//! What Redis makes of an end where the run had been asked to stop: the rules of `lua/lib/finish_rare.lua`.

use leasehold_common::record::{FailureDetail, StopCause};
use leasehold_common::store::Outcome;

use crate::executor::Ended;

/// What becomes of a run's end. A stop that came after its work was over, while cleanups ran, changes nothing.
pub(super) fn decided(ended: Ended) -> Outcome {
    let Some(cause) = ended.stopped_by.filter(|cause| *cause != StopCause::Drain) else {
        return ended.outcome;
    };
    match ended.outcome {
        // It was told at the charge that was refused: what it made of that is no result.
        Outcome::Completed(_) if cause == StopCause::BudgetExceeded => {
            let message = "the run went on after a charge was refused".to_owned();
            Outcome::Stopped { cause, message, detail: FailureDetail::default() }
        }
        Outcome::Failed { message, detail, .. } => Outcome::Stopped { cause, message, detail },
        Outcome::Snoozed(_) => {
            Outcome::Stopped { cause, message: String::new(), detail: FailureDetail::default() }
        }
        outcome @ (Outcome::Completed(_)
        | Outcome::Stopped { .. }
        | Outcome::Released
        | Outcome::Unknown { .. }) => outcome,
    }
}
