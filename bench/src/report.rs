//! What came out: as a table, as JSON, and in one line.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::error::Result;
use crate::figure::{Detail, Figure, Unit, Verdict};
use crate::lab::Lab;
use crate::plan::Plan;
use crate::rows::Found;

/// The figures of one run, and what they were measured on.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The table.
    pub figures: Vec<Figure>,
    /// Absolute numbers beside it.
    pub details: Vec<Detail>,
    /// What to know when reading them.
    pub warnings: Vec<String>,
    /// Name and version of the server.
    pub server: String,
    /// Whether the server was the benchmark's own.
    pub own: bool,
    /// Processors that this process may use.
    pub cores: usize,
    /// What was asked for.
    pub plan: Plan,
}

impl Report {
    pub(crate) async fn of(lab: &Lab<'_>, found: Found) -> Result<Self> {
        let info = lab.server.info("server").await?;
        let server = match info.text("valkey_version") {
            "" => format!("Redis {}", info.text("redis_version")),
            valkey => format!("Valkey {valkey}"),
        };
        Ok(Self {
            figures: found.figures,
            details: found.details,
            warnings: lab.warnings(),
            server,
            own: lab.server.own,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            plan: lab.plan.clone(),
        })
    }

    /// The figures whose bar is not met.
    pub fn unmet(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| figure.verdict() == Verdict::NotMet)
    }

    /// All of it as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let Plan { tasks, rounds, slots, .. } = self.plan;
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "server": self.server,
            "own_server": self.own,
            "cores": self.cores,
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "plan": {
                "tasks": tasks,
                "rounds": rounds,
                "slots": slots,
                "payload_bytes": crate::job::PAYLOAD,
                "full": self.plan.is_full(),
            },
            "figures": self.figures.iter().map(Figure::json).collect::<Vec<_>>(),
            "details": self.details.iter().map(Detail::json).collect::<Vec<_>>(),
            "warnings": self.warnings,
            "unmet": self.unmet().map(|figure| figure.name).collect::<Vec<_>>(),
        })
    }

    /// All of it as Markdown that can be read as it stands.
    #[must_use]
    pub fn text(&self) -> String {
        let figures = self.figures.iter().map(|figure| {
            let (bar, aim) = figure.goal.show(figure.unit);
            let (value, range) = (figure.unit.show(figure.value), figure.shown_range());
            [figure.title.clone(), value, range, bar, aim, figure.verdict().as_str().to_owned()]
        });
        let mut text = format!("{}\n\n", self.measured_on());
        text.push_str(&table(["figure", "median", "range", "bar", "aim", "verdict"], figures));
        if !self.details.is_empty() {
            let shown = |unit: Unit, value: Option<f64>| value.map(|v| unit.show(v)).unwrap_or_default();
            let details =
                self.details.iter().map(|d| [d.title.clone(), shown(d.unit, d.ours), shown(d.unit, d.raw)]);
            text.push_str("\nAbsolute numbers, of this machine only (CPU and calls per task):\n\n");
            text.push_str(&table(["number", "Leasehold", "raw"], details));
        }
        for warning in &self.warnings {
            // Writing to a string never fails.
            let _ = write!(text, "\nNote: {warning}.\n");
        }
        text
    }

    fn measured_on(&self) -> String {
        let Plan { tasks, rounds, slots, .. } = self.plan;
        let cores = if self.cores == 1 { "1 core".to_owned() } else { format!("{} cores", self.cores) };
        let whose =
            if self.own { ", a private server without persistence" } else { ", not the benchmark's own" };
        let rounds = if rounds == 1 { "1 round".to_owned() } else { format!("{rounds} rounds") };
        format!(
            "Leasehold {}, {}{whose}; {}, {}, {cores} for server and clients together; {rounds} of {tasks} \
             tasks, {slots} slots.",
            env!("CARGO_PKG_VERSION"),
            self.server,
            std::env::consts::OS,
            std::env::consts::ARCH,
        )
    }

    /// How many bars are met, in a line.
    #[must_use]
    pub fn summary(&self) -> String {
        let unmet: Vec<&str> = self.unmet().map(|figure| figure.name).collect();
        if unmet.is_empty() {
            return format!("{} of {} bars met", self.figures.len(), self.figures.len());
        }
        let met = self.figures.len() - unmet.len();
        format!("{met} of {} bars met; not met: {}", self.figures.len(), unmet.join(", "))
    }
}

/// A Markdown table whose columns are aligned for those who read it as text.
fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = rows.into_iter().collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let padded: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!(" {cell:<width$} ")).collect();
        format!("|{}|\n", padded.join("|"))
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let mut text = line(head);
    let _ = writeln!(text, "|{}|", rule.join("|"));
    for row in &rows {
        text.push_str(&line(std::array::from_fn(|column| row[column].as_str())));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Report, table};
    use crate::figure::{Detail, Figure, Goal, Unit};
    use crate::plan::{Plan, Row};
    use crate::spread::Spread;

    fn report() -> Report {
        let cpu = Spread { median: 3.4, low: 3.1, high: 3.9 };
        let title = "Redis CPU per task / raw, result kept";
        Report {
            figures: vec![
                Figure::new(
                    Row::Cpu,
                    "redis-cpu-kept",
                    title,
                    Unit::Ratio,
                    cpu,
                    Goal::AtMost(5.0, Some(3.5)),
                ),
                Figure::new(
                    Row::Idle,
                    "idle-commands",
                    "idle",
                    Unit::PerSecond,
                    Spread::only(3.0),
                    Goal::AtMost(2.0, None),
                ),
            ],
            details: vec![Detail::both(Row::Cpu, "Redis CPU, enqueue", Unit::Us, 4.0, 1.25)],
            warnings: vec!["other traffic".to_owned()],
            server: "Redis 7.0.15".to_owned(),
            own: false,
            cores: 2,
            plan: Plan::quick(),
        }
    }

    #[test]
    fn a_table_is_aligned_and_has_a_verdict_for_each_figure() {
        let text = report().text();
        for line in [
            "| figure                                | median | range       | bar    | aim | verdict |",
            "|---------------------------------------|--------|-------------|--------|-----|---------|",
            "| Redis CPU per task / raw, result kept | 3.40   | 3.10 - 3.90 | <= 5   | 3.5 | aim met |",
            "| idle                                  | 3.00/s |             | <= 2/s |     | NOT MET |",
            "| Redis CPU, enqueue | 4.00 us   | 1.25 us |",
            "Note: other traffic.",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}\nin\n{text}");
        }
        assert!(text.starts_with("Leasehold ") && text.contains("2 cores"), "{text}");
    }

    #[test]
    fn json_names_what_is_unmet() {
        let json = report().json();
        assert_eq!(json["unmet"], serde_json::json!(["idle-commands"]));
        assert_eq!(json["figures"][0]["value"], 3.4);
        assert_eq!(json["figures"][1]["aim"], serde_json::Value::Null);
        assert_eq!(json["details"][0]["raw"], 1.25);
        assert_eq!(report().summary(), "1 of 2 bars met; not met: idle-commands");
    }

    #[test]
    fn an_empty_table_still_has_its_head() {
        assert_eq!(table(["a", "bc"], []), "| a | bc |\n|---|----|\n");
    }
}
