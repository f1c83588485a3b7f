//! Paths that the explorer printed, taken again: `leasehold-explore` prints such tests.

use leasehold_common::record::{FailureDetail, FailureKind};
use leasehold_common::store::{Outcome, RetryAdvice};
use leasehold_proof::explore::Step::{Heard, Tick, Unheard};
use leasehold_proof::explore::retrace;
use leasehold_proof::words::{Call, Run};

/// Printed with the fence comparison taken out of `finish`.
#[test]
#[rustfmt::skip]
fn the_path_found_in_one_breaks_nothing() {
    retrace(
        "one",
        &[
            Heard(Call::Enqueue(vec![0])),
            Heard(Call::Claim { worker: 0, number: 1, want: 1, closing: false }),
            Heard(Call::Finish { worker: 0, run: Run { task: 0, attempt: 1 }, outcome: Outcome::Failed { kind: FailureKind::Error, message: "it broke".to_owned(), retry: RetryAdvice::Policy, detail: FailureDetail::default() }, before_stop: false }),
            Unheard(Call::Claim { worker: 1, number: 1, want: 1, closing: false }),
            Unheard(Call::Finish { worker: 0, run: Run { task: 0, attempt: 1 }, outcome: Outcome::Failed { kind: FailureKind::Error, message: "it broke".to_owned(), retry: RetryAdvice::Policy, detail: FailureDetail::default() }, before_stop: false }),
        ],
    );
}

/// Printed without the second look of `sweep`.
#[test]
fn a_lease_that_lapsed_in_a_gap_is_suspected_and_no_more() {
    retrace(
        "one",
        &[
            Heard(Call::Enqueue(vec![0])),
            Unheard(Call::Claim { worker: 0, number: 1, want: 1, closing: false }),
            Heard(Call::Pass { ms: 3000 }),
            Tick,
        ],
    );
}
