//! How much of a case runs: a tenth of its loops and times in `make test`, all of them in `make cases`.

use std::time::Duration;

/// Whether whole loops and times were asked for (`LEASEHOLD_CASES=full`).
pub fn whole_cases() -> bool {
    std::env::var("LEASEHOLD_CASES").is_ok_and(|value| value == "full")
}

/// How many of a case's loops to run, at least one.
pub fn loops(whole: usize) -> usize {
    if whole_cases() { whole } else { whole.div_ceil(10) }
}

/// How much of a case's time to let pass. Not for times that the case compares with a lease.
pub fn span(whole: Duration) -> Duration {
    if whole_cases() { whole } else { whole / 10 }
}
