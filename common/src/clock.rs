//! The time of day of this machine: for tests without a Redis, and to refuse early what Redis's clock decides for good.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 by this machine's clock. Nothing that is shared may follow from it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that asks this machine's clock")]
pub fn wall_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
