//! The verdict: what was asked and answered, what really ran and what Redis says in the end must agree. Zero
//! tolerance: each row is a list of what breaks it.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_common::record::FailureKind;
use leasehold_common::state::TaskState;
use leasehold_producer::AbortAnswer;
use leasehold_tests::queue::{Move, illegal_moves};

use super::ledger::{Abort, End, Entry};
use super::plan::Queue;
use super::runs::{Attempt, Attempts, crowds, describe};

/// What is judged, gathered after the end.
pub(super) struct Evidence {
    /// In the order of their enqueueing.
    pub(super) entries: Vec<Entry>,
    /// As the records stand at last; none where there is no record.
    pub(super) last: BTreeMap<String, Option<Last>>,
    pub(super) attempts: Attempts,
    /// All transitions, entry by entry, of each queue.
    pub(super) moves: Vec<Vec<Vec<Move>>>,
    /// From the trail's clock to ms since 1970: add this many nanoseconds.
    pub(super) clock_offset: i128,
}

/// A record at last.
#[derive(Debug, Clone)]
pub(super) enum Last {
    Ended(End),
    /// Not ended: told as it stands.
    Open(String),
}

/// A row of the verdict and what breaks it.
pub(super) type Row = (&'static str, Vec<String>);

impl Evidence {
    pub(super) fn judge(&self) -> Vec<Row> {
        vec![
            ("lost (accepted, and no record)", self.lost()),
            ("stuck (not ended after the drain)", self.stuck()),
            ("ran and was never enqueued", self.strangers()),
            ("lane overlaps", self.lane_overlaps()),
            ("overlaps of attempts of one task", self.task_overlaps()),
            ("out of order in a lane", self.out_of_order()),
            ("doubled (more starts than attempts)", self.doubled()),
            ("started again although it must not be", self.once_twice()),
            ("budgets exceeded", self.overspent()),
            ("aborts that the end belies", self.belied()),
            ("ends that changed", self.changed()),
            ("ran after its end", self.ghosts()),
            ("completed without its work", self.unearned()),
            ("ends that should not be", self.odd_ends()),
            (
                "transitions that are not legal",
                self.moves.iter().flat_map(|of_queue| illegal_moves(of_queue)).collect(),
            ),
        ]
    }

    /// Ended tasks, with their ends as they stand at last.
    pub(super) fn ended(&self) -> impl Iterator<Item = (&Entry, &End)> {
        self.entries.iter().filter_map(|entry| match self.last.get(&entry.planned.id) {
            Some(Some(Last::Ended(end))) => Some((entry, end)),
            _ => None,
        })
    }

    fn of(&self, entry: &Entry) -> impl Iterator<Item = &Attempt> {
        self.attempts.get(&entry.planned.id).into_iter().flat_map(BTreeMap::values)
    }

    fn lost(&self) -> Vec<String> {
        let ids = self.entries.iter().map(|entry| &entry.planned.id);
        ids.filter(|id| !matches!(self.last.get(*id), Some(Some(_)))).cloned().collect()
    }

    fn stuck(&self) -> Vec<String> {
        let open = self.last.values().filter_map(|last| match last {
            Some(Last::Open(told)) => Some(told.clone()),
            _ => None,
        });
        open.collect()
    }

    fn strangers(&self) -> Vec<String> {
        self.attempts.keys().filter(|id| !self.last.contains_key(*id)).cloned().collect()
    }

    /// Tasks of each lane.
    fn lanes(&self) -> BTreeMap<(Queue, &str), Vec<&Entry>> {
        let mut lanes: BTreeMap<_, Vec<&Entry>> = BTreeMap::new();
        for entry in &self.entries {
            if let Some(lane) = &entry.planned.lane {
                lanes.entry((entry.planned.queue, lane.as_str())).or_default().push(entry);
            }
        }
        lanes
    }

    fn lane_overlaps(&self) -> Vec<String> {
        let crowd = |((queue, lane), entries): ((Queue, &str), Vec<&Entry>)| {
            let limit = entries[0].planned.limit();
            let attempts: Vec<&Attempt> = entries.iter().flat_map(|entry| self.of(entry)).collect();
            let found = crowds(&attempts, limit).into_iter();
            found.map(|what| format!("{} {lane}: {what}", queue.name())).collect::<Vec<_>>()
        };
        self.lanes().into_iter().flat_map(crowd).collect()
    }

    fn task_overlaps(&self) -> Vec<String> {
        let mut found = Vec::new();
        for of_task in self.attempts.values() {
            let in_turn: Vec<&Attempt> = of_task.values().collect();
            for pair in in_turn.windows(2) {
                if pair[1].first <= pair[0].last {
                    found.push(format!("{}; {}", describe(pair[0]), describe(pair[1])));
                }
            }
        }
        found
    }

    /// Those that were due when they were enqueued come to their first start in that order.
    fn out_of_order(&self) -> Vec<String> {
        let mut found = Vec::new();
        for ((queue, lane), entries) in self.lanes() {
            let due =
                entries.iter().filter(|entry| entry.planned.limit() == 1 && entry.planned.delay.is_none());
            let firsts: Vec<&Attempt> = due.filter_map(|entry| self.of(entry).next()).collect();
            for pair in firsts.windows(2).filter(|pair| pair[1].first < pair[0].first) {
                let (one, other) = (describe(pair[0]), describe(pair[1]));
                found.push(format!("{} {lane}: {one}; {other}", queue.name()));
            }
        }
        found
    }

    fn doubled(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (entry, end) in self.ended() {
            for attempt in self.of(entry) {
                if attempt.starts != 1 || attempt.number > end.attempt {
                    let starts = attempt.starts;
                    found.push(format!(
                        "{}: {starts} starts, of {} attempts",
                        describe(attempt),
                        end.attempt
                    ));
                }
            }
        }
        found
    }

    /// These do not fail by themselves: one start is all that they may have.
    fn once_twice(&self) -> Vec<String> {
        let once = self.ended().filter(|(entry, _)| entry.planned.once());
        let bad = once.filter(|(entry, end)| {
            let lost = end.kind == Some(FailureKind::LeaseExpired) || end.state == TaskState::Aborted;
            self.of(entry).count() > 1 || (end.reclaims > 0 && !lost)
        });
        bad.map(|(entry, end)| format!("{} {end:?}", entry.planned.id)).collect()
    }

    fn overspent(&self) -> Vec<String> {
        let bad = self.ended().filter(|(entry, end)| {
            let told: u64 = self.of(entry).map(|attempt| attempt.spent).sum();
            let (spent, most) = end.spent;
            spent > most || told > spent
        });
        bad.map(|(entry, end)| format!("{} {end:?}", entry.planned.id)).collect()
    }

    fn belied(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (entry, end) in self.ended() {
            for Abort { answer, answered_at } in &entry.aborts {
                let silent = self.of(entry).all(|attempt| attempt.last < *answered_at);
                let held = match answer {
                    AbortAnswer::Ended(state) => {
                        *state == TaskState::Aborted && end.state == *state && silent
                    }
                    AbortAnswer::Already(state) => end.state == *state && silent,
                    AbortAnswer::Requested { .. } => {
                        matches!(end.state, TaskState::Aborted | TaskState::Completed)
                    }
                    AbortAnswer::NotFound | AbortAnswer::Corrupt => false,
                };
                if !held {
                    let attempts: Vec<String> = self.of(entry).map(describe).collect();
                    let at = *answered_at as f64 / 1e6;
                    found.push(format!("{} {answer:?} at {at:.3}: {end:?} {attempts:?}", entry.planned.id));
                }
            }
        }
        found
    }

    fn changed(&self) -> Vec<String> {
        let both = self.ended().filter_map(|(entry, end)| Some((entry, entry.end.as_ref()?, end)));
        let changed = both.filter(|(_, first, last)| first != last);
        changed.map(|(entry, first, last)| format!("{}: {first:?}; {last:?}", entry.planned.id)).collect()
    }

    /// A line after the millisecond in which it ended.
    fn ghosts(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (entry, end) in self.ended() {
            let ended = i128::from(end.ended_ms.unwrap_or(0) + 1) * 1_000_000;
            for attempt in self.of(entry) {
                let after = i128::from(attempt.last) + self.clock_offset - ended;
                if after > 0 {
                    let ms = after as f64 / 1e6;
                    found.push(format!("{} ran for {ms:.3} ms after {end:?}", describe(attempt)));
                }
            }
        }
        found
    }

    fn unearned(&self) -> Vec<String> {
        let completed = self.ended().filter(|(_, end)| end.state == TaskState::Completed);
        let bad = completed.filter(|(entry, end)| {
            !self.of(entry).any(|attempt| attempt.number == end.attempt && attempt.ended)
        });
        bad.map(|(entry, end)| format!("{} {end:?}", entry.planned.id)).collect()
    }

    fn odd_ends(&self) -> Vec<String> {
        let all = self.moves.iter().flatten().flatten();
        let drained = all.filter(|step| step.to == TaskState::Aborted.as_str() && step.why == b"drain");
        let drained: BTreeSet<&str> = drained.map(|step| step.id.as_str()).collect();
        // A draining worker may not hand back what must not be started twice.
        let allowed = |entry: &Entry, end: &End| {
            let planned = &entry.planned;
            is_allowed(entry, end) || (planned.once() && drained.contains(planned.id.as_str()))
        };
        let bad = self.ended().filter(|(entry, end)| !allowed(entry, end));
        bad.map(|(entry, end)| format!("{} ({}): {end:?}", entry.planned.id, entry.planned.sort)).collect()
    }
}

fn is_allowed(entry: &Entry, end: &End) -> bool {
    let planned = &entry.planned;
    match end.state {
        TaskState::Completed => planned.ends.completed,
        TaskState::Aborted => !entry.aborts.is_empty(),
        TaskState::Failed if end.kind == Some(FailureKind::LeaseExpired) => {
            planned.once() || end.reclaims > u64::from(planned.policy.max_reclaims)
        }
        TaskState::Failed | TaskState::TimedOut => {
            end.kind.is_some_and(|kind| planned.ends.kinds.contains(&kind))
        }
        TaskState::Scheduled
        | TaskState::Waiting
        | TaskState::Queued
        | TaskState::Running
        | TaskState::Aborting => false,
    }
}
