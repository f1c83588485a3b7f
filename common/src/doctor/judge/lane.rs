//! What a look means for a task's lane, its deadline and its owner.

use super::{Places, TaskRecord, TaskState, Verdict};

/// The first `limit` members of a lane do not wait; whoever is behind them does, unless it was let go before the limit
/// fell.
pub(super) fn judge(record: &TaskRecord, p: &Places) -> Option<Verdict> {
    record.lane.as_ref()?;
    let state = record.state;
    let member = match state {
        TaskState::Waiting | TaskState::Queued | TaskState::Running | TaskState::Aborting => true,
        TaskState::Completed | TaskState::Failed | TaskState::TimedOut | TaskState::Aborted => false,
        // One that has run keeps its place.
        TaskState::Scheduled => return None,
    };
    match (member, p.lane_rank) {
        (true, None) => {
            let message = format!("it is {state}, but has no place in its lane: abort it, then retry it");
            Some(Verdict::breach("missing-from-lane", message))
        }
        (false, Some(_)) => {
            let message = format!("it is {state}, but its lane waits for it: a sweep lets the next one go");
            Some(Verdict::breach("ended-in-lane", message))
        }
        (true, Some(rank)) if state == TaskState::Waiting && rank < p.lane_limit => {
            let message = format!(
                "it waits, but {rank} are before it in its lane, of which {} may run: a sweep lets it go",
                p.lane_limit
            );
            Some(Verdict::breach("held-back", message))
        }
        _ => None,
    }
}

/// Rows that stand for what the record says.
pub(super) fn indexes(record: &TaskRecord, p: &Places) -> Vec<Verdict> {
    let mut found = Vec::new();
    let due = record.deadline_ms.is_some() && !record.state.is_terminal();
    if due != p.deadline.is_some() {
        let what = if due {
            "lacks its row: it would not end it"
        } else {
            "has a row of it: it goes when it is due"
        };
        found.push(Verdict::breach("deadline-row", format!("the list of deadlines {what}")));
    }
    if record.owner.is_some() && !p.owned {
        found.push(Verdict::breach("missing-from-owner", "the list of its owner does not name it"));
    }
    found
}
