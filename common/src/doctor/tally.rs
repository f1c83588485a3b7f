//! Gathering findings: each once, and of a kind that comes by the thousand only the first.

use std::collections::{BTreeMap, HashSet};

use super::judge::Verdict;
use super::report::{Finding, Severity};
use crate::name::{QueueName, TaskId};
use crate::store::Spot;

/// What makes a finding the same one.
type Same = (Option<QueueName>, &'static str, Option<TaskId>, String);

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    each: usize,
    told: Vec<Finding>,
    rows: Vec<(QueueName, Spot)>,
    seen: HashSet<Same>,
    counts: BTreeMap<(Option<QueueName>, &'static str), (Severity, usize)>,
}

impl Tally {
    /// Tells at most `each` findings of a code and queue one by one.
    pub(super) fn new(each: usize) -> Self {
        Self { each: each.max(1), ..Self::default() }
    }

    pub(super) fn add(&mut self, queue: Option<&QueueName>, verdict: Verdict) {
        let Verdict { severity, code, id, message, place, .. } = verdict;
        let same = (queue.cloned(), code, id.clone(), message.clone());
        if self.seen.contains(&same) {
            return;
        }
        let (gravest, count) = self.counts.entry((queue.cloned(), code)).or_insert((severity, 0));
        *gravest = severity.max(*gravest);
        *count += 1;
        if *count <= self.each {
            if let Some((queue, place)) = queue.zip(place) {
                self.rows.push((queue.clone(), Spot { id: id.clone(), place }));
            }
            self.told.push(Finding { severity, code, queue: queue.cloned(), id, message });
            self.seen.insert(same);
        }
    }

    /// All of them, gravest first, and the rows that they are about.
    pub(super) fn finish(mut self) -> (Vec<Finding>, Vec<(QueueName, Spot)>) {
        for ((queue, code), (severity, count)) in self.counts {
            if count > self.each {
                let message = format!("and {} more like these", count - self.each);
                self.told.push(Finding { severity, code, queue, id: None, message });
            }
        }
        // Stable: findings of one kind stay in the order they came in, their summary last.
        self.told.sort_by(|a, b| (b.severity, &a.queue, a.code).cmp(&(a.severity, &b.queue, b.code)));
        (self.told, self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_gravest_first_and_the_rest_counted() {
        let mut tally = Tally::new(2);
        let warn = |n: usize| Verdict::new(Severity::Warning, "w", format!("no {n}"));
        for n in [1, 1, 2, 3, 4] {
            tally.add(None, warn(n));
        }
        tally.add(None, Verdict::breach("b", "x"));
        let told: Vec<_> = tally.finish().0.into_iter().map(|f| f.message).collect();
        assert_eq!(told, ["x", "no 1", "no 2", "and 2 more like these"]);
    }
}
