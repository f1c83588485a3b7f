//! What goes wrong, said at its begin, every ten seconds while it lasts, and at its end. Pure: time is passed in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leasehold_common::Error;
use leasehold_common::name::QueueName;

/// No two lines of one trouble are closer than this, its end apart.
const SAID_EVERY: Duration = Duration::from_secs(10);
/// No retry waits longer.
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
/// A queue of a newer format: somebody has to upgrade this process first.
const SKIPPED_FOR: Duration = Duration::from_secs(10);

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Redis cannot be asked, whatever the queue.
    Redis,
    /// The queue was written by a newer release.
    NewerFormat,
    /// The queue has keys that are not ours, or a script failed on them.
    Data,
    /// A gap before a sweep: suspicion is held back. It is no error.
    Gap,
    /// Rows that do not fit the protocol. They are no error.
    Odd,
}

impl Class {
    /// Those that an answer ends.
    pub(crate) const ERRORS: [Self; 3] = [Self::Redis, Self::NewerFormat, Self::Data];

    /// Of an error.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::NewerFormat { .. } => Self::NewerFormat,
            Error::Rejected(_) => Self::Redis,
            _ if error.is_retryable() => Self::Redis,
            _ => Self::Data,
        }
    }

    /// Does it concern all queues at once? Then it is said once for all.
    fn is_shared(self) -> bool {
        match self {
            Self::Redis | Self::Gap => true,
            Self::NewerFormat | Self::Data | Self::Odd => false,
        }
    }
}

/// How long to wait before the next try after the `failures`-th failure in a row.
pub(crate) fn backoff(class: Class, failures: u32) -> Duration {
    if class == Class::NewerFormat {
        return SKIPPED_FOR;
    }
    let doubled = FIRST_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(10));
    doubled.min(LONGEST_BACKOFF)
}

/// One line to be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    /// How often it happened since the last line, this time included.
    pub(crate) times: u64,
    /// Since it began.
    pub(crate) lasts: Duration,
}

#[derive(Debug)]
struct Trouble {
    began: Instant,
    said: Instant,
    unsaid: u64,
    /// It goes on; else it ended and is kept only to space the next one's lines.
    open: bool,
    /// Its begin was said, so its end will be.
    told: bool,
}

/// The troubles there are.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    known: BTreeMap<(Option<QueueName>, Class), Trouble>,
}

fn key(queue: Option<&QueueName>, class: Class) -> (Option<QueueName>, Class) {
    (queue.filter(|_| !class.is_shared()).cloned(), class)
}

impl Troubles {
    /// It happened to a queue, or to the list of queues. Answers the line to say, if it is time for one.
    pub(crate) fn happened(&mut self, now: Instant, queue: Option<&QueueName>, class: Class) -> Option<Line> {
        self.known.retain(|_, t| t.open || now.duration_since(t.said) < SAID_EVERY);
        let key = key(queue, class);
        let Some(trouble) = self.known.get_mut(&key) else {
            self.known.insert(key, Trouble { began: now, said: now, unsaid: 0, open: true, told: true });
            return Some(Line { times: 1, lasts: Duration::ZERO });
        };
        if !trouble.open {
            (trouble.began, trouble.open, trouble.told) = (now, true, false);
        }
        trouble.unsaid += 1;
        if now.duration_since(trouble.said) < SAID_EVERY {
            return None;
        }
        let line = Line { times: trouble.unsaid, lasts: now.duration_since(trouble.began) };
        (trouble.said, trouble.unsaid, trouble.told) = (now, 0, true);
        Some(line)
    }

    /// A call for a queue went well: the troubles of `classes` that end so, and how long each was.
    pub(crate) fn went_well(
        &mut self,
        now: Instant,
        queue: Option<&QueueName>,
        classes: &[Class],
    ) -> Vec<(Class, Duration)> {
        let mut ended = Vec::new();
        for &class in classes {
            if let Some(trouble) = self.known.get_mut(&key(queue, class))
                && trouble.open
            {
                trouble.open = false;
                if trouble.told {
                    ended.push((class, now.duration_since(trouble.began)));
                }
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::new(name).unwrap()
    }

    #[test]
    fn case_08_a_lasting_trouble_is_said_every_ten_seconds_and_at_its_end() {
        let (start, q) = (Instant::now(), queue("q"));
        let mut troubles = Troubles::default();
        let mut said = Vec::new();
        for tick in 0..300 {
            let at = start + Duration::from_millis(tick * 100);
            said.extend(troubles.happened(at, Some(&q), Class::Redis).map(|line| (tick, line.times)));
        }
        assert_eq!(said, [(0, 1), (100, 100), (200, 100)]);
        let end = start + Duration::from_secs(30);
        assert_eq!(
            troubles.went_well(end, Some(&q), &Class::ERRORS),
            [(Class::Redis, Duration::from_secs(30))]
        );
        assert_eq!(troubles.went_well(end, Some(&q), &Class::ERRORS), []);
    }

    #[test]
    fn case_08_a_trouble_that_comes_and_goes_is_no_flood() {
        let (start, mut troubles) = (Instant::now(), Troubles::default());
        let mut lines = 0;
        for tick in 0..200 {
            let at = start + Duration::from_millis(tick * 100);
            lines += usize::from(troubles.happened(at, Some(&queue("a")), Class::Redis).is_some());
            lines += troubles.went_well(at, Some(&queue("b")), &Class::ERRORS).len();
        }
        assert_eq!(lines, 4, "20 s: two begins, two ends");
    }

    #[test]
    fn what_concerns_redis_is_said_once_for_all_queues_and_what_concerns_a_queue_for_each() {
        let (now, mut troubles) = (Instant::now(), Troubles::default());
        let mut said = |name, class| troubles.happened(now, Some(&queue(name)), class).is_some();
        assert!(said("a", Class::Redis) && !said("b", Class::Redis));
        assert!(said("a", Class::Data) && said("b", Class::Data) && said("b", Class::NewerFormat));
    }

    #[test]
    fn retries_back_off_to_a_second() {
        let waits: Vec<u128> = (1..8).map(|n| backoff(Class::Redis, n).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff(Class::Data, u32::MAX), LONGEST_BACKOFF);
        assert_eq!(backoff(Class::NewerFormat, 1), SKIPPED_FOR);
    }

    #[test]
    fn errors_are_of_one_class_each() {
        let reason = String::new;
        for (error, class) in [
            (Error::Unreachable { url: reason(), reason: reason() }, Class::Redis),
            (Error::RetryLater { reason: reason() }, Class::Redis),
            (Error::OutcomeUnknown { reason: reason() }, Class::Redis),
            (Error::Rejected(reason()), Class::Redis),
            (Error::NewerFormat { what: reason(), found: 2, known: 1 }, Class::NewerFormat),
            (Error::ForeignData { key: reason() }, Class::Data),
            (Error::Protocol(reason()), Class::Data),
        ] {
            assert_eq!(Class::of(&error), class, "{error:?}");
        }
    }
}
