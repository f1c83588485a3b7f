//! How long single script calls take under load: what SLOWLOG and INFO latencystats saw while ours worked.
//!
//! Only on a Redis of the benchmark's own: elsewhere neither may be reset, and others' calls are among them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use redis::Value;

use crate::error::Result;
use crate::server::Server;

/// What SLOWLOG notes, in microseconds.
const SLOW_US: u64 = 5000;

/// Calls under one kind of load.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Calls {
    /// All of them.
    pub(crate) all: u64,
    /// Those over 5 ms.
    pub(crate) slow: u64,
    /// The longest.
    pub(crate) longest_us: f64,
    /// The largest 99.9th percentile of a stretch.
    pub(crate) p999_us: f64,
}

impl Calls {
    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            slow: self.slow + other.slow,
            longest_us: self.longest_us.max(other.longest_us),
            p999_us: self.p999_us.max(other.p999_us),
        }
    }
}

/// The watch over a server.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    calls: Mutex<BTreeMap<&'static str, Calls>>,
}

impl Latency {
    /// Sets the server up for it.
    pub(crate) async fn prepare(&self, server: &Server) -> Result<()> {
        if server.own {
            let slow = SLOW_US.to_string();
            server.ask::<()>(&["CONFIG", "SET", "slowlog-log-slower-than", &slow]).await?;
            server.ask::<()>(&["CONFIG", "SET", "slowlog-max-len", "4096"]).await?;
            server
                .ask::<()>(&["CONFIG", "SET", "latency-tracking-info-percentiles", "50 99 99.9 100"])
                .await?;
        }
        Ok(())
    }

    /// A stretch of load begins.
    pub(crate) async fn begin(&self, server: &Server) -> Result<()> {
        if server.own {
            server.ask::<()>(&["CONFIG", "RESETSTAT"]).await?;
            server.ask::<()>(&["SLOWLOG", "RESET"]).await?;
        }
        Ok(())
    }

    /// The stretch ends; `load` says what it was.
    pub(crate) async fn end(&self, server: &Server, load: &'static str) -> Result<()> {
        if !server.own {
            return Ok(());
        }
        let entries: Vec<Vec<Value>> = server.ask(&["SLOWLOG", "GET", "-1"]).await?;
        let calls = server.script_calls().await?;
        let stats = server.info("latencystats").await?;
        let percentiles = stats.text("latency_percentiles_usec_evalsha");
        let seen = Calls {
            all: calls,
            slow: entries.iter().filter(|entry| is_script(entry)).count() as u64,
            longest_us: percentile(percentiles, "p100"),
            p999_us: percentile(percentiles, "p99.9"),
        };
        let mut sums = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = sums.entry(load).or_default();
        *sum = sum.and(seen);
        Ok(())
    }

    /// All stretches so far, by the kind of their load.
    pub(crate) fn calls(&self) -> BTreeMap<&'static str, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether an entry of SLOWLOG (id, time, duration, words, ..) is a script called by a client.
fn is_script(entry: &[Value]) -> bool {
    let Some(Value::Array(words)) = entry.get(3) else { return false };
    let word: String = words.first().and_then(|w| redis::from_redis_value_ref(w).ok()).unwrap_or_default();
    let word = word.to_lowercase();
    word.starts_with("eval") || word.starts_with("fcall")
}

/// A percentile of `p50=1.003,p99=2.007`.
fn percentile(text: &str, name: &str) -> f64 {
    let found = text.split(',').filter_map(|part| part.split_once('=')).find(|(n, _)| *n == name);
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::{is_script, percentile};

    #[test]
    fn only_scripts_of_clients_count_as_slow() {
        let words = |name: &str| Value::Array(vec![Value::BulkString(name.into()), Value::Int(1)]);
        let entry = |name| vec![Value::Int(1), Value::Int(2), Value::Int(6000), words(name)];
        assert!(is_script(&entry("EVALSHA")) && is_script(&entry("fcall")));
        assert!(!is_script(&entry("UNLINK")) && !is_script(&[]));
    }

    #[test]
    fn percentiles_are_found_by_name() {
        let text = "p50=20.095,p99=301.055,p99.9=1003.519,p100=2007.039";
        assert_eq!(percentile(text, "p99.9"), 1003.519);
        assert_eq!(percentile(text, "p1"), 0.0);
    }
}
