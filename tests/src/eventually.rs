//! Waiting in tests: poll until a probe is satisfied or a deadline passes, and say what was seen last.
//!
//! A probe answers `Ok(value)` when done and `Err(seen)` otherwise; `seen` goes into the panic message. Tests
//! sleep nowhere else (`tests/clippy.toml` sees to it): where time itself is the stimulus, as in "three leases
//! later", [`let_time_pass`] says so by its name.

use std::fmt::Display;
use std::future::Future;
use std::panic::Location;
use std::time::{Duration, Instant};

/// The first pause between two looks; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// No look is further from the last than this.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Polls until `probe` answers `Ok`; after `within` it panics with `what` and the last `Err`.
#[track_caller]
pub fn eventually<T, S: Display>(what: &str, within: Duration, mut probe: impl FnMut() -> Result<T, S>) -> T {
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match probe() {
            Ok(value) => return value,
            Err(seen) if started.elapsed() >= within => {
                panic!("not within {within:?}: {what}\n  last seen: {seen}")
            }
            Err(_) => sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// [`eventually`] for an async probe: `eventually_async("..", limit, async || ..).await`.
#[track_caller]
pub fn eventually_async<T, S: Display>(
    what: &str,
    within: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, S>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            match probe().await {
                Ok(value) => return value,
                Err(seen) if started.elapsed() >= within => {
                    panic!("{caller}: not within {within:?}: {what}\n  last seen: {seen}")
                }
                Err(_) => sleep_async(pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Polls like [`eventually`], and tells whether it came true instead of panicking.
pub fn comes_true(within: Duration, mut probe: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if probe() {
            return true;
        }
        if started.elapsed() >= within {
            return false;
        }
        sleep(LONGEST_PAUSE.min(within));
    }
}

/// Looks again and again for the whole of `during`; panics at once when `probe` answers `Err`.
///
/// For "nothing may change": a state that must hold for a while, where one look at the end would miss a blink.
#[track_caller]
pub fn stays<S: Display>(what: &str, during: Duration, mut probe: impl FnMut() -> Result<(), S>) {
    let started = Instant::now();
    loop {
        if let Err(seen) = probe() {
            panic!("after {:?} of {during:?} it no longer held: {what}\n  seen: {seen}", started.elapsed());
        }
        if started.elapsed() >= during {
            return;
        }
        sleep(LONGEST_PAUSE.min(during));
    }
}

/// [`stays`] for an async probe.
#[track_caller]
pub fn stays_async<S: Display>(
    what: &str,
    during: Duration,
    mut probe: impl AsyncFnMut() -> Result<(), S>,
) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let started = Instant::now();
        loop {
            if let Err(seen) = probe().await {
                let after = started.elapsed();
                panic!("{caller}: after {after:?} of {during:?} it no longer held: {what}\n  seen: {seen}");
            }
            if started.elapsed() >= during {
                return;
            }
            sleep_async(LONGEST_PAUSE.min(during)).await;
        }
    }
}

/// Lets time pass where time is the stimulus; `why` is for the reader (and the log of a failed test).
pub fn let_time_pass(why: &str, how_long: Duration) {
    eprintln!("letting {how_long:?} pass: {why}");
    sleep(how_long);
}

/// [`let_time_pass`] without blocking the runtime.
pub async fn let_time_pass_async(why: &str, how_long: Duration) {
    eprintln!("letting {how_long:?} pass: {why}");
    sleep_async(how_long).await;
}

#[expect(clippy::disallowed_methods, reason = "the one place that may sleep, on behalf of all polls")]
fn sleep(pause: Duration) {
    std::thread::sleep(pause);
}

#[expect(clippy::disallowed_methods, reason = "the one place that may sleep, on behalf of all polls")]
pub(crate) async fn sleep_async(pause: Duration) {
    tokio::time::sleep(pause).await;
}
