//! Repeating calls that may be repeated, until a deadline.

use std::future::Future;
use std::time::Duration;

use leasehold_common::Error as RedisError;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::{Error, Result};

/// The pause after the first failure; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// No pause is longer: an outage that ends is noticed soon.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The pauses between attempts: doubling, each between a half and the whole of its ceiling, so that many
/// producers do not come back as one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pauses {
    ceiling: Duration,
}

impl Pauses {
    pub(crate) const fn new() -> Self {
        Self { ceiling: FIRST_PAUSE }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let spread = uuid::Uuid::new_v4().as_bytes()[0];
        let pause = self.ceiling / 2 + self.ceiling * u32::from(spread) / 512;
        self.ceiling = (self.ceiling * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// What the attempts met so far. Once the outcome of one is unknown it stays so, whatever later ones meet.
#[derive(Debug, Default)]
pub(crate) struct Met {
    last: Option<RedisError>,
    in_flight: bool,
}

impl Met {
    /// An attempt begins.
    pub(crate) fn begin(&mut self) {
        self.in_flight = true;
    }

    /// The attempt failed so.
    pub(crate) fn failed(&mut self, error: RedisError) {
        self.in_flight = false;
        let known_before = !self.last.as_ref().is_some_and(RedisError::outcome_unknown);
        self.last = Some(match error {
            error if known_before || error.outcome_unknown() => error,
            error => RedisError::OutcomeUnknown { reason: format!("of an earlier attempt; then: {error}") },
        });
    }

    /// The error of a call whose time is up, between attempts or in the middle of one.
    pub(crate) fn deadline(&mut self, after: Duration) -> Error {
        if self.in_flight {
            let before =
                self.last.as_ref().map(|last| format!("; the attempt before: {last}")).unwrap_or_default();
            self.failed(RedisError::OutcomeUnknown { reason: format!("none came in time{before}") });
        }
        let not_sent = || RedisError::RetryLater { reason: "the calls before it took too long".into() };
        Error::Deadline { after, last: Box::new(self.last.take().unwrap_or_else(not_sent)) }
    }
}

/// Repeats `call` with growing pauses while its error is retryable, for `within` at most.
///
/// Only for calls that may be repeated after an unknown outcome, which are all of the protocol's.
pub(crate) async fn repeat<T, F>(within: Duration, mut call: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = leasehold_common::Result<T>>,
{
    let deadline = Instant::now() + within;
    let (mut pauses, mut met) = (Pauses::new(), Met::default());
    loop {
        met.begin();
        match timeout_at(deadline, call()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) if !error.is_retryable() => return Err(error.into()),
            Ok(Err(error)) => met.failed(error),
            Err(_) => return Err(met.deadline(within)),
        }
        let next = Instant::now() + pauses.next();
        if next >= deadline {
            return Err(met.deadline(within));
        }
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> RedisError {
        RedisError::Unreachable { url: String::new(), reason: "refused".into() }
    }

    #[test]
    fn pauses_grow_to_their_ceiling_and_differ() {
        let mut pauses = Pauses::new();
        let first = pauses.next();
        assert!((FIRST_PAUSE / 2..=FIRST_PAUSE).contains(&first));
        let last = (0..20).map(|_| pauses.next()).last().unwrap();
        assert!((LONGEST_PAUSE / 2..=LONGEST_PAUSE).contains(&last));
    }

    #[test]
    fn an_unknown_outcome_stays_unknown() {
        let mut met = Met::default();
        met.failed(RedisError::OutcomeUnknown { reason: "cut".into() });
        met.failed(refused());
        let error = met.deadline(Duration::from_secs(1));
        assert!(error.outcome_unknown() && error.is_retryable());
        assert!(error.to_string().contains("refused"), "{error}");
    }

    #[tokio::test]
    async fn the_deadline_ends_it_and_caller_faults_end_it_at_once() {
        let within = Duration::from_millis(200);
        let mut attempts = 0;
        let failed = repeat(within, || {
            attempts += 1;
            async { Err::<(), _>(refused()) }
        })
        .await;
        assert!(matches!(failed, Err(Error::Deadline { .. })) && attempts > 2, "{attempts}");
        let mut attempts = 0;
        let failed = repeat(within, || {
            attempts += 1;
            async { Err::<(), _>(RedisError::Rejected("no".into())) }
        })
        .await;
        assert!(matches!(failed, Err(Error::Redis(_))) && attempts == 1, "{attempts}");
    }

    #[tokio::test]
    async fn a_call_without_an_answer_is_left_at_the_deadline_as_unknown() {
        let never = std::future::pending::<leasehold_common::Result<()>>;
        let failed = repeat(Duration::from_millis(20), never);
        assert!(failed.await.unwrap_err().outcome_unknown());
    }
}
