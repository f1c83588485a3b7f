//! The end of the demo, for people: outcomes, scenarios, reclaims, the verdict, and the last line.

use std::path::Path;

use indicatif::HumanBytes;
use leasehold_common::text::printable;
use leasehold_common::time::display_duration;

use super::accounts;
use super::acts::{seconds, span};
use super::summary::{Doctor, Scenario, Summary, TaskRow};
use crate::error::Result;
use crate::output::{self, Output, Rows};

/// Prints it on stdout; problems go to stderr.
pub(super) fn print(output: Output, summary: &Summary, path: &Path) -> Result<()> {
    for problem in &summary.problems {
        output::important(&format!("problem: {problem}"));
    }
    if output.is_json() {
        return output::json(summary);
    }
    output::rows(outcomes(summary))?;
    output::line("")?;
    scenarios(&summary.scenarios)?;
    output::line("")?;
    output::line(&facts(summary, path).join("\n"))?;
    output::line(&summary.line)
}

/// Prints what was shown and how it came out.
pub(super) fn scenarios(scenarios: &[Scenario]) -> Result<()> {
    for scenario in scenarios {
        let mark = if scenario.ok { "ok" } else { "NOT AS EXPECTED" };
        output::line(&format!(
            "{}: {mark}\n  expected: {}\n  happened: {}",
            scenario.name, scenario.expected, scenario.happened
        ))?;
    }
    Ok(())
}

/// What the doctor said, in lines.
pub(super) fn doctor(doctor: &Doctor) -> Vec<String> {
    let verdict = match (doctor.clean, doctor.findings.is_empty()) {
        (true, true) => "doctor: every invariant holds",
        (true, false) => "doctor: every invariant holds; it remarks:",
        (false, _) => "doctor: NOT CLEAN:",
    };
    let findings = doctor.findings.iter().map(|finding| format!("  {finding}"));
    std::iter::once(verdict.to_owned()).chain(findings).collect()
}

fn outcomes(summary: &Summary) -> Rows {
    let mut rows = Rows::new(&["STATE", "TASKS", "ATTEMPTS", "FAILURES", "RECLAIMS"]);
    for state in accounts::states() {
        let Some(count) = summary.totals.by_state.get(state) else { continue };
        let sum = |number: fn(&TaskRow) -> u64| {
            let of_state = summary.tasks.iter().filter(|task| accounts::state_of(task) == state);
            of_state.map(number).sum::<u64>().to_string()
        };
        let (attempts, failures) = (sum(|task| task.attempt), sum(|task| task.failures));
        rows.add([state.to_owned(), count.to_string(), attempts, failures, sum(|task| task.reclaims)]);
    }
    rows
}

fn facts(summary: &Summary, path: &Path) -> Vec<String> {
    let totals = &summary.totals;
    let mut lines = vec![format!(
        "verified: {} results are those of their files ({}, {} compressed)",
        totals.verified,
        HumanBytes(totals.bytes),
        HumanBytes(totals.gzip_bytes)
    )];
    for (why, skipped) in &summary.skipped {
        lines.push(format!("skipped: {} {} ({} ..)", skipped.count, why.as_str(), printable(&skipped.first)));
    }
    lines.push(totals.reclaim_ms.map_or_else(
        || "reclaimed: nothing".to_owned(),
        |(least, most)| {
            let lease = std::time::Duration::from_millis(summary.lease_ms);
            format!(
                "reclaimed: {} runs of the killed worker, {} after the kill (lease {})",
                summary.reclaims.len(),
                span(least, most),
                display_duration(lease)
            )
        },
    ));
    lines.extend(doctor(&summary.doctor));
    lines.push(format!("took: {}; details: {}", seconds(summary.took_ms), path.display()));
    lines
}
