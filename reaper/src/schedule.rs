//! Which queue is swept next. Pure: time is passed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use leasehold_common::name::QueueName;

/// Queues by when their next sweep is due. The longest due comes first, so that none starves.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    due: BTreeSet<(Instant, u64, QueueName)>,
    /// Grows with every row: those due at the same moment come in the order they were put back.
    rows: u64,
    /// Every queue, with its failures in a row.
    failures: BTreeMap<QueueName, u32>,
}

impl Schedule {
    /// Takes a queue in, due at once, if it is new.
    pub(crate) fn add(&mut self, now: Instant, queue: &QueueName) {
        if !self.failures.contains_key(queue) {
            self.failures.insert(queue.clone(), 0);
            self.again_in(now, Duration::ZERO, queue.clone());
        }
    }

    /// Takes the queue that has been due for longest. It is back with [`again_in`](Self::again_in).
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<QueueName> {
        let first = self.due.first().filter(|(due, _, _)| *due <= now)?.clone();
        self.due.remove(&first);
        Some(first.2)
    }

    /// When the next queue is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _, _)| *due)
    }

    /// Puts a queue back.
    pub(crate) fn again_in(&mut self, now: Instant, pause: Duration, queue: QueueName) {
        self.rows += 1;
        self.due.insert((now + pause, self.rows, queue));
    }

    /// Notes a failure; answers how many there were in a row.
    pub(crate) fn failed(&mut self, queue: &QueueName) -> u32 {
        let failures = self.failures.entry(queue.clone()).or_default();
        *failures = failures.saturating_add(1);
        *failures
    }

    /// Notes that it went well.
    pub(crate) fn went_well(&mut self, queue: &QueueName) {
        self.failures.insert(queue.clone(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::new(name).unwrap()
    }

    #[test]
    fn a_busy_queue_starves_no_other() {
        let (now, mut schedule) = (Instant::now(), Schedule::default());
        for name in ["a", "b", "c"] {
            schedule.add(now, &queue(name));
        }
        let later = now + Duration::from_millis(1);
        let mut order = Vec::new();
        for _ in 0..6 {
            let next = schedule.take_due(later).unwrap();
            order.push(next.to_string());
            // Each says that more is due at once.
            schedule.again_in(later, Duration::ZERO, next);
        }
        assert_eq!(order, ["a", "b", "c", "a", "b", "c"].map(str::to_owned));
    }

    #[test]
    fn a_queue_is_swept_when_it_is_due_and_taken_in_once() {
        let (now, mut schedule) = (Instant::now(), Schedule::default());
        schedule.add(now, &queue("a"));
        let taken = schedule.take_due(now).unwrap();
        schedule.add(now, &taken);
        assert_eq!(schedule.take_due(now), None, "it is being swept");
        schedule.again_in(now, Duration::from_secs(1), taken);
        assert_eq!(schedule.take_due(now), None);
        assert_eq!(schedule.next_due(), Some(now + Duration::from_secs(1)));
        assert_eq!(schedule.take_due(now + Duration::from_secs(1)), Some(queue("a")));
    }

    #[test]
    fn failures_in_a_row_are_counted() {
        let mut schedule = Schedule::default();
        assert_eq!([schedule.failed(&queue("a")), schedule.failed(&queue("a"))], [1, 2]);
        schedule.went_well(&queue("a"));
        assert_eq!(schedule.failed(&queue("a")), 1);
    }
}
