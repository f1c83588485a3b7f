//! The server and the workers, as far as no queue is concerned.

use super::judge::Verdict;
use super::report::Severity;
use crate::store::{Check, CheckLevel, WorkerInfo};

/// What the checks of the server mean.
pub(super) fn judge(checks: &[Check]) -> Vec<Verdict> {
    let verdict = |check: &Check| match check.level {
        CheckLevel::Ok => None,
        CheckLevel::Warning => Some(Verdict::new(Severity::Warning, "server-warned", &check.message)),
        CheckLevel::Refused => Some(Verdict::breach("server-refused", &check.message)),
    };
    checks.iter().filter_map(verdict).collect()
}

/// Workers that say of themselves that they do not work.
pub(super) fn workers(workers: &[WorkerInfo]) -> Vec<Verdict> {
    let wedged = |worker: &&WorkerInfo| worker.status == "wedged";
    let verdict = |worker: &WorkerInfo| {
        let message = format!(
            "worker {} (pid {} on {}) keeps its leases, but its runtime does not answer: a handler blocks it; \
             restart it",
            worker.name, worker.pid, worker.host
        );
        Verdict::new(Severity::Warning, "worker-wedged", message)
    };
    workers.iter().filter(wedged).map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_server_is_a_breach() {
        let check = |level| Check { level, message: "m".to_owned() };
        let found = judge(&[check(CheckLevel::Refused), check(CheckLevel::Warning), check(CheckLevel::Ok)]);
        let found: Vec<_> = found.iter().map(|v| (v.severity, v.code)).collect();
        assert_eq!(found, [(Severity::Breach, "server-refused"), (Severity::Warning, "server-warned")]);
    }
}
