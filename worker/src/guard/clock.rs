//! The clock leases are measured with: one that goes on while the machine sleeps.

use std::time::Duration;

/// An instant of the boot clock, in nanoseconds.
///
/// On Linux this is `CLOCK_BOOTTIME`, which counts suspend and is the same for all
/// processes of the machine, so that worker and guard may exchange values of it.
/// `Instant` would not do: it stands still while the machine sleeps, and a lease does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootInstant(u64);

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: nix::time::ClockId = nix::time::ClockId::CLOCK_BOOTTIME;
// On macOS CLOCK_MONOTONIC counts sleep.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: nix::time::ClockId = nix::time::ClockId::CLOCK_MONOTONIC;

/// Two clocks at one moment.
#[derive(Debug, Clone, Copy)]
struct Driven {
    boot: BootInstant,
    tokio: tokio::time::Instant,
}

impl Driven {
    fn now(&self) -> BootInstant {
        self.boot.plus(self.tokio.elapsed())
    }
}

tokio::task_local! {
    static BY_TOKIO: Driven;
}

impl BootInstant {
    /// The present instant.
    #[must_use]
    pub fn now() -> Self {
        BY_TOKIO.try_with(|driven| driven.now()).unwrap_or_else(|_| Self::by_system())
    }

    /// Has `work` read this clock as tokio's goes on from here: for trials, in which that stands still or is advanced.
    pub(crate) async fn by_tokio<F: Future>(work: F) -> F::Output {
        let driven = Driven { boot: Self::by_system(), tokio: tokio::time::Instant::now() };
        BY_TOKIO.scope(driven, work).await
    }

    fn by_system() -> Self {
        // The call cannot fail for a clock that exists; zero would make every lease look
        // long, so the last resort is the far future: leases look lapsed, which is safe.
        nix::time::clock_gettime(CLOCK)
            .map_or(Self(u64::MAX), |spec| Self::from_nanos(Duration::from(spec).as_nanos() as u64))
    }

    /// The instant `nanos` nanoseconds after boot.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since boot.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant moved into the future by `by`, saturating.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long it is from `earlier` until this instant; zero when it lies before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_and_arithmetic_saturates() {
        let now = BootInstant::now();
        assert!(BootInstant::now() >= now);
        assert_eq!(now.plus(Duration::from_secs(2)).since(now), Duration::from_secs(2));
        assert_eq!(now.since(now.plus(Duration::from_secs(2))), Duration::ZERO);
        assert_eq!(BootInstant::from_nanos(u64::MAX - 1).plus(Duration::from_secs(9)).as_nanos(), u64::MAX);
    }
}
