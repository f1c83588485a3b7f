//! How tasks and times look, for people and as JSON.

mod command;
mod task;

use std::time::Duration;

use leasehold_common::time::display_duration;

pub(crate) use task::{document, next_step, record, text};

/// Whole milliseconds, as JSON tells durations.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How far a moment lies back, or ahead, of `now`, both in ms.
pub(crate) fn ago(ms: u64, now: u64) -> String {
    let apart = |from: u64, to: u64| display_duration(Duration::from_millis(rounded(to - from)));
    match ms {
        ms if ms <= now => format!("{} ago", apart(ms, now)),
        ms => format!("in {}", apart(now, ms)),
    }
}

/// Whole seconds from ten of them on: nobody reads the tenths.
fn rounded(ms: u64) -> u64 {
    if ms >= 10_000 { ms / 1000 * 1000 } else { ms }
}

/// `name  value` lines, aligned; a value of several lines is indented.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<(String, String)>);

impl Lines {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// All of them.
    pub(crate) fn text(&self) -> String {
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let indent = format!("\n{:width$}  ", "");
        let line = |(name, value): &(String, String)| {
            format!("{name:width$}  {}", value.trim_end().replace('\n', &indent))
        };
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{Lines, ago};

    #[test]
    fn times_are_told_from_now() {
        assert_eq!(ago(1_000, 13_300), "12s ago");
        assert_eq!(ago(1_000, 1_250), "250ms ago");
        assert_eq!(ago(61_000, 1_000), "in 1m");
    }

    #[test]
    fn values_are_aligned() {
        let mut lines = Lines::new();
        lines.add("id", "x");
        lines.add("state", "a\nb");
        assert_eq!(lines.text(), "id     x\nstate  a\n       b");
    }
}
