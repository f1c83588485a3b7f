//! The end of the show, for people: every turn, every act, what the commands told, and the last line.

use super::verdict::Wedge;
use crate::commands::demo::acts::seconds;
use crate::commands::demo::report;
use crate::error::Result;
use crate::output::{self, Output, Rows};

/// Prints it on stdout; problems go to stderr.
pub(super) fn print(output: Output, wedge: &Wedge) -> Result<()> {
    for problem in &wedge.problems {
        output::important(&format!("problem: {problem}"));
    }
    if output.is_json() {
        return output::json(wedge);
    }
    output::rows(turns(wedge))?;
    output::line("")?;
    report::scenarios(&wedge.acts)?;
    output::line("")?;
    output::line(&facts(wedge).join("\n"))?;
    output::line(&wedge.line)
}

fn turns(wedge: &Wedge) -> Rows {
    let mut rows = Rows::new(&["TURN", "STATE", "ATTEMPTS", "RECLAIMS", "WORKER", "RECONCILED"]);
    for turn in &wedge.turns {
        let reconciled = turn.reconciled.as_ref().map(|r| format!("by {}: {}", r.by, r.reason));
        rows.add([
            turn.id.clone(),
            turn.state.map_or("missing", |state| state.as_str()).to_owned(),
            turn.attempt.to_string(),
            turn.reclaims.to_string(),
            turn.worker.clone().unwrap_or_default(),
            reconciled.unwrap_or_default(),
        ]);
    }
    rows
}

fn facts(wedge: &Wedge) -> Vec<String> {
    let effects = &wedge.effects;
    let (runs, lines) = (effects.runs.len(), effects.lines);
    let ended = effects.runs.iter().filter(|run| run.ended).count();
    let once = if effects.problems.is_empty() { "no two at once" } else { "NOT as they should be" };
    let mut facts = vec![format!(
        "effects: {runs} runs wrote {lines} lines outside Redis, {ended} to their own end; {once}"
    )];
    facts.extend(effects.longest_gap().map(|(ms, run)| {
        let before = format!("attempt {} of {}", run.attempt, run.task);
        format!(
            "longest standstill of the lane: {}, before {before} (lease {})",
            seconds(ms),
            seconds(wedge.lease_ms)
        )
    }));
    facts.extend(report::doctor(&wedge.doctor));
    facts.push(format!("took: {}", seconds(wedge.took_ms)));
    facts
}
