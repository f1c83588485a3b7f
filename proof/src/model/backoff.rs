//! How long a task waits before its next attempt: exponential, capped, with full jitter.
//!
//! The protocol promises anything between 0 and the ceiling. Under a driven clock the scripts' dice depend on nothing but
//! the id and the count of failures, so the model throws the same ones (Redis's own `drand48`), and a policy's backoff can
//! be compared to the millisecond.

use super::Model;
use super::rules::ms;
use crate::words::TaskNo;

/// The delay before the next attempt, of what policies allow.
const MOST_MS: f64 = 315_360_000_000.0;

impl Model {
    /// By the policy of a task, after its failures so far.
    pub(super) fn backoff(&self, no: TaskNo) -> u64 {
        let backoff = self.rules.body(no).policy.backoff;
        let failures = self.task(no).failures;
        if backoff.base.is_zero() {
            return 0;
        }
        let growth = backoff.factor.max(1.0).powi(i32::try_from(failures.min(1001)).unwrap_or(1001) - 1);
        let ceiling = (ms(backoff.base) as f64 * growth).min(ms(backoff.cap) as f64).min(MOST_MS);
        (dice(&format!("t{no}"), failures) * ceiling + 0.5).floor() as u64
    }
}

/// A number from 0 to 1.
fn dice(id: &str, failures: u64) -> f64 {
    const MODULUS: u64 = 2_147_483_647;
    let seed = id.bytes().fold(failures, |seed, byte| (seed * 31 + u64::from(byte)) % MODULUS);
    let first = (seed << 16) | 0x330E;
    let next = first.wrapping_mul(0x5_DEEC_E66D).wrapping_add(11) & 0xFFFF_FFFF_FFFF;
    ((next >> 17) % MODULUS) as f64 / MODULUS as f64
}
