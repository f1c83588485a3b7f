//! What a look means for a task's lane, its deadline and its owner.

use super::{Moment, Places, SLACK_MS, TaskRecord, TaskState, Verdict, ms};
use crate::time::display_time;

/// What mends it.
const REPAIR: &str = "`leasehold doctor --repair` puts it right";

/// The first `limit` members of a lane do not wait; whoever is behind them does, unless it was let go before the limit
/// fell. None that waits is in front of one that does not.
pub(super) fn judge(record: &TaskRecord, p: &Places) -> Vec<Verdict> {
    if record.lane.is_none() {
        return Vec::new();
    }
    let state = record.state;
    let member = match state {
        TaskState::Waiting | TaskState::Queued | TaskState::Running | TaskState::Aborting => true,
        // One that has run keeps its place.
        TaskState::Scheduled if record.attempt > 0 => true,
        TaskState::Completed | TaskState::Failed | TaskState::TimedOut | TaskState::Aborted => false,
        TaskState::Scheduled => return Vec::new(),
    };
    let found = match (member, p.lane_rank) {
        (true, None) => Some((
            "missing-from-lane",
            format!("it is {state}, but has no place in its lane, where others may go instead: {REPAIR}"),
        )),
        (false, Some(_)) => Some((
            "ended-in-lane",
            format!("it is {state}, but its lane waits for it: a sweep lets the next one go"),
        )),
        (true, Some(rank)) if state == TaskState::Waiting && rank < p.lane_limit => Some((
            "held-back",
            format!(
                "it waits, but {rank} are before it in its lane, of which {} may run: a sweep lets it go, or {REPAIR}",
                p.lane_limit
            ),
        )),
        (true, Some(_)) if state != TaskState::Waiting && p.behind_waiting => Some((
            "behind-waiting",
            format!("it is {state}, but the member of its lane in front of it waits: {REPAIR}"),
        )),
        (true, Some(rank)) if state != TaskState::Waiting && rank >= p.lane_most => Some((
            "over-limit",
            format!(
                "it is {state}, with {rank} before it in its lane, of which {} may run: rows of the lane were lost; it comes \
                 right as they end, and --repair notes that it was seen",
                p.lane_most
            ),
        )),
        _ => None,
    };
    let mut found: Vec<Verdict> =
        found.into_iter().map(|(code, message)| Verdict::breach(code, message)).collect();
    if member && p.lane_rank.is_some() && !p.lane_row {
        let message = format!(
            "its lane is not listed: nothing looks after it and its limit is lost, which is 1 now; {REPAIR}"
        );
        found.push(Verdict::breach("lane-not-listed", message));
    }
    found
}

/// Rows that stand for what the record says.
pub(super) fn indexes(moment: &Moment, record: &TaskRecord, p: &Places) -> Vec<Verdict> {
    let mut found = Vec::new();
    let due = record.deadline_ms.filter(|_| !record.state.is_terminal());
    match (due, p.deadline) {
        (Some(_), None) => {
            let message = format!("the list of deadlines lacks its row, so nothing would end it: {REPAIR}");
            found.push(Verdict::breach("deadline-row", message));
        }
        (None, Some(_)) => {
            let message = "the list of deadlines has a row of it: it goes when it is due";
            found.push(Verdict::breach("deadline-row", message));
        }
        (Some(at), Some(row)) if !is_deadline_right(moment, record, ms(at), row) => {
            let by = if row > at as f64 { "later" } else { "sooner" };
            let message = format!(
                "the list of deadlines has it {by} than its record says ({}): {REPAIR}",
                display_time(at)
            );
            found.push(Verdict::breach("deadline-differs", message));
        }
        _ => {}
    }
    if record.owner.is_some() && !p.owned {
        let message = format!("the list of its owner does not name it: {REPAIR}");
        found.push(Verdict::breach("missing-from-owner", message));
    }
    found
}

/// The row lies behind the deadline while a run that is past it is asked to end; a little behind that, for the next look.
fn is_deadline_right(moment: &Moment, record: &TaskRecord, at: i64, row: f64) -> bool {
    if row == at as f64 {
        return true;
    }
    let hard_end = record.stop.as_ref().map_or(0, |stop| ms(stop.hard_end_ms));
    let latest = hard_end.max(moment.now) + moment.lease + moment.beat() + SLACK_MS;
    record.state.has_run() && at <= moment.now && row <= latest as f64
}
