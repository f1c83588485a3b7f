//! Was the lane ever stuck, doubled or out of order? Pure: what happened in, problems and the last line out.

use std::collections::BTreeMap;

use leasehold_common::state::TaskState;
use leasehold_producer::Reconciled;
use serde::Serialize;

use super::effects::Effects;
use crate::commands::demo::accounts;
use crate::commands::demo::summary::{Doctor, LeftOver, Scenario};

/// The version of the JSON document.
pub(super) const FORMAT: u32 = 1;

/// All that is claimed. Durations end in `_ms`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Wedge {
    /// Of this document: 1.
    pub(super) format: u32,
    /// The namespace that all keys were in.
    pub(super) namespace: String,
    /// The queue that all turns were in.
    pub(super) queue: String,
    /// The lane, too.
    pub(super) lane: String,
    /// The lease T.
    pub(super) lease_ms: u64,
    /// From the first turn to the end of the last.
    pub(super) took_ms: u64,
    /// Every turn in the order of the lane, as Redis tells it.
    pub(super) turns: Vec<TurnRow>,
    /// What was shown, and how it came out.
    pub(super) acts: Vec<Scenario>,
    /// What really ran, as the commands told outside Redis.
    pub(super) effects: Effects,
    /// The verdict on the queue's invariants.
    pub(super) doctor: Doctor,
    /// What was still there after everything was ended.
    pub(super) left_over: LeftOver,
    /// Why it did not come out as it should; empty when it did.
    pub(super) problems: Vec<String>,
    /// No problems.
    pub(super) ok: bool,
    /// The last line of stdout.
    pub(super) line: String,
}

/// One turn.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TurnRow {
    /// Its id.
    pub(super) id: String,
    /// The state it was to end in.
    pub(super) expected: TaskState,
    /// The state it was last seen in; none when there was no such task.
    pub(super) state: Option<TaskState>,
    /// How often it was claimed.
    pub(super) attempt: u64,
    /// Workers that it lost.
    pub(super) reclaims: u64,
    /// The worker of its last run.
    pub(super) worker: Option<String>,
    /// How the end of a run was decided for it.
    pub(super) reconciled: Option<Reconciled>,
}

/// Fills in all that follows from the rest.
pub(super) fn close(mut wedge: Wedge) -> Wedge {
    let found = problems(&wedge);
    wedge.problems.extend(found);
    wedge.ok = wedge.problems.is_empty();
    wedge.line = line(&wedge);
    wedge
}

fn problems(wedge: &Wedge) -> Vec<String> {
    let mut found = wedge.effects.problems.clone();
    found.extend(wedge.turns.iter().filter_map(|turn| wrong_end(turn, &wedge.effects)));
    found.extend(wrong_order(wedge));
    let failed = wedge.acts.iter().filter(|act| !act.ok);
    found.extend(failed.map(|act| format!("{}: expected {}; {}", act.name, act.expected, act.happened)));
    found.extend(accounts::breaches(&wedge.doctor));
    found.extend(accounts::left_over(&wedge.left_over, &wedge.namespace));
    found
}

/// The record and the file agree on how often it ran to its end: once, in its last attempt; or never, when aborted.
fn wrong_end(turn: &TurnRow, effects: &Effects) -> Option<String> {
    let state = turn.state.map_or("missing", TaskState::as_str);
    if turn.state != Some(turn.expected) {
        return Some(format!("{} is {state} instead of {}", turn.id, turn.expected));
    }
    let ends = effects.runs.iter().filter(|run| run.task == turn.id && run.ended).map(|run| run.attempt);
    let ends: Vec<u64> = ends.collect();
    let expected = if turn.expected == TaskState::Completed { vec![turn.attempt] } else { Vec::new() };
    (ends != expected).then(|| {
        format!(
            "{} is {state} after attempt {}, and its commands ended in attempts {ends:?}",
            turn.id, turn.attempt
        )
    })
}

/// A turn never begins when a later one has begun, and of a turn never an earlier attempt.
fn wrong_order(wedge: &Wedge) -> Option<String> {
    let places: BTreeMap<&str, usize> =
        wedge.turns.iter().enumerate().map(|(at, turn)| (turn.id.as_str(), at)).collect();
    let key = |at: usize| wedge.effects.runs.get(at).map(|run| (places.get(run.task.as_str()), run.attempt));
    let wrong = (1..wedge.effects.runs.len()).find(|at| key(*at) <= key(at - 1))?;
    let (before, run) = (&wedge.effects.runs[wrong - 1], &wedge.effects.runs[wrong]);
    Some(format!("out of order: {} began before attempt {} of {}", before.task, run.attempt, run.task))
}

fn line(wedge: &Wedge) -> String {
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for turn in &wedge.turns {
        *states.entry(turn.state.map_or("missing", TaskState::as_str)).or_default() += 1;
    }
    let counted = accounts::states().filter_map(|state| Some(format!("{} {state}", states.get(state)?)));
    let verdict = if wedge.ok { "one at a time, in order, never stuck" } else { "NOT AS IT SHOULD BE" };
    let (turns, lane) = (wedge.turns.len(), &wedge.lane);
    format!("wedge: {turns} turns of {lane}: {}; {verdict}", counted.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::wedge::effects::read;

    fn wedge(text: &str) -> Wedge {
        let turn = |id: &str, attempt| TurnRow {
            id: id.to_owned(),
            expected: TaskState::Completed,
            state: Some(TaskState::Completed),
            attempt,
            reclaims: attempt - 1,
            worker: None,
            reconciled: None,
        };
        Wedge {
            format: FORMAT,
            namespace: "n".to_owned(),
            queue: "q".to_owned(),
            lane: "l".to_owned(),
            lease_ms: 2000,
            took_ms: 1,
            turns: vec![turn("a", 2), turn("b", 1)],
            acts: Vec::new(),
            effects: read(text),
            doctor: Doctor { clean: true, findings: Vec::new() },
            left_over: LeftOver::default(),
            problems: Vec::new(),
            ok: false,
            line: String::new(),
        }
    }

    const GOOD: &str = "a 1 begin 1\na 1 step 2\na 2 begin 3\na 2 end 4\nb 1 begin 5\nb 1 end 6\n";

    #[test]
    fn a_lane_that_went_on_in_order_is_in_order() {
        let closed = close(wedge(GOOD));
        assert_eq!((closed.ok, closed.problems.len()), (true, 0));
        assert_eq!(closed.line, "wedge: 2 turns of l: 2 completed; one at a time, in order, never stuck");
    }

    #[test]
    fn each_way_to_be_wrong_is_told() {
        let told = |wedge: Wedge| {
            let closed = close(wedge);
            assert!(!closed.ok && closed.line.ends_with("NOT AS IT SHOULD BE"), "{}", closed.line);
            closed.problems.join("\n")
        };
        let stuck = Wedge { turns: with(|turns| turns[1].state = Some(TaskState::Waiting)), ..wedge(GOOD) };
        assert_eq!(told(stuck), "b is waiting instead of completed");
        let missing = Wedge { turns: with(|turns| turns[1].state = None), ..wedge(GOOD) };
        assert_eq!(told(missing), "b is missing instead of completed");
        let early = "b 1 begin 1\nb 1 end 2\na 1 begin 3\na 2 begin 4\na 2 end 5\n";
        assert_eq!(told(wedge(early)), "out of order: b began before attempt 1 of a");
        let doubled = GOOD.replace("a 1 step 2", "a 1 end 2");
        assert_eq!(
            told(wedge(&doubled)),
            "a is completed after attempt 2, and its commands ended in attempts [1, 2]"
        );
        let at_once = GOOD.replace("a 2 end 4", "a 1 step 4\na 2 end 4");
        assert_eq!(
            told(wedge(&at_once)),
            "two ran at once: attempt 1 of a still ran when attempt 2 of a had begun"
        );
        let act = Scenario { name: "x", expected: "y".to_owned(), happened: "z".to_owned(), ok: false };
        assert_eq!(told(Wedge { acts: vec![act], ..wedge(GOOD) }), "x: expected y; z");
        let doctor = Doctor { clean: false, findings: Vec::new() };
        assert_eq!(told(Wedge { doctor, ..wedge(GOOD) }), "the doctor did not find the queue clean");
    }

    fn with(change: impl FnOnce(&mut Vec<TurnRow>)) -> Vec<TurnRow> {
        let mut turns = wedge(GOOD).turns;
        change(&mut turns);
        turns
    }
}
