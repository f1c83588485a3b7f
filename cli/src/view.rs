//! How tasks and times look, for people and as JSON.

mod command;
mod document;
mod group;
mod task;

use std::time::Duration;

pub(crate) use leasehold_common::time::ago;

pub(crate) use document::{document, mapped, record};
pub(crate) use group::{note_unknown, or_dash, status_fields, status_lines, task_document, warn_unreadable};
pub(crate) use task::{notices, text};

/// Whole milliseconds, as JSON tells durations.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
    use super::Lines;

    #[test]
    fn values_are_aligned() {
        let mut lines = Lines::new();
        lines.add("id", "x");
        lines.add("state", "a\nb");
        assert_eq!(lines.text(), "id     x\nstate  a\n       b");
    }
}
