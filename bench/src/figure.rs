//! One figure: what was measured, what it should be, and whether it is.

use serde_json::{Value, json};

use crate::plan::Row;
use crate::spread::Spread;

/// What a value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Ours divided by raw, or deep by shallow.
    Ratio,
    /// Calls per task.
    Calls,
    /// Bytes.
    Bytes,
    /// Hundredths.
    Percent,
    /// Commands per second.
    PerSecond,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Tasks per second.
    Rate,
    /// A plain number.
    Count,
}

impl Unit {
    /// Its name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::Calls => "calls per task",
            Self::Bytes => "bytes",
            Self::Percent => "percent",
            Self::PerSecond => "commands per second",
            Self::Ms => "ms",
            Self::Us => "us",
            Self::Rate => "tasks per second",
            Self::Count => "count",
        }
    }

    /// A value as a person reads it.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.2}"),
            Self::Calls => format!("{value:.3}"),
            Self::Bytes => format!("{value:.0} B"),
            Self::Percent => format!("{} %", plain(value, 3)),
            Self::PerSecond => format!("{value:.2}/s"),
            Self::Ms => format!("{value:.2} ms"),
            Self::Us => format!("{value:.2} us"),
            Self::Rate => format!("{value:.0}/s"),
            Self::Count => format!("{value:.0}"),
        }
    }

    /// A bound, without the zeros that a measured value has.
    #[must_use]
    pub fn bound(self, value: f64) -> String {
        match self {
            Self::Ratio | Self::Calls | Self::Count => plain(value, 3),
            Self::Bytes => format!("{value:.0} B"),
            Self::Percent => format!("{} %", plain(value, 3)),
            Self::PerSecond | Self::Rate => format!("{}/s", plain(value, 3)),
            Self::Ms => format!("{} ms", plain(value, 3)),
            Self::Us => format!("{} us", plain(value, 3)),
        }
    }
}

/// At most so many decimals, no zeros at the end.
fn plain(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Which values are good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// Small ones: the bar, and the aim if there is one.
    AtMost(f64, Option<f64>),
    /// Large ones.
    AtLeast(f64, Option<f64>),
}

/// Whether a figure is good enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Even the aim is reached.
    AimMet,
    /// The bar is.
    Met,
    /// It is not.
    NotMet,
}

impl Verdict {
    /// As tables and JSON have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AimMet => "aim met",
            Self::Met => "met",
            Self::NotMet => "NOT MET",
        }
    }
}

impl Goal {
    /// What a value is worth.
    #[must_use]
    pub fn judge(self, value: f64) -> Verdict {
        let (bar, aim) = match self {
            Self::AtMost(bar, aim) => (value <= bar, aim.is_some_and(|aim| value <= aim)),
            Self::AtLeast(bar, aim) => (value >= bar, aim.is_some_and(|aim| value >= aim)),
        };
        match (bar, aim) {
            (true, true) => Verdict::AimMet,
            (true, false) => Verdict::Met,
            (false, _) => Verdict::NotMet,
        }
    }

    /// The bar with its sign, and the aim.
    #[must_use]
    pub fn show(self, unit: Unit) -> (String, String) {
        let (sign, bar, aim) = match self {
            Self::AtMost(bar, aim) => ("<=", bar, aim),
            Self::AtLeast(bar, aim) => (">=", bar, aim),
        };
        (format!("{sign} {}", unit.bound(bar)), aim.map(|aim| unit.bound(aim)).unwrap_or_default())
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The row it belongs to.
    pub row: Row,
    /// Its stable name.
    pub name: &'static str,
    /// What it is, for people.
    pub title: String,
    /// What its values count.
    pub unit: Unit,
    /// The median of the rounds.
    pub value: f64,
    /// The lowest and the highest of the rounds.
    pub range: (f64, f64),
    /// What it should be.
    pub goal: Goal,
}

impl Figure {
    pub(crate) fn new(
        row: Row,
        name: &'static str,
        title: impl Into<String>,
        unit: Unit,
        spread: Spread,
        goal: Goal,
    ) -> Self {
        let range = (spread.low, spread.high);
        Self { row, name, title: title.into(), unit, value: spread.median, range, goal }
    }

    /// Whether it is what it should be.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.goal.judge(self.value)
    }

    /// The range as a person reads it; nothing where there was one measurement.
    pub(crate) fn shown_range(&self) -> String {
        let (low, high) = self.range;
        if low == high {
            String::new()
        } else {
            format!("{} - {}", self.unit.show(low), self.unit.show(high))
        }
    }

    pub(crate) fn json(&self) -> Value {
        let (direction, bar, aim) = match self.goal {
            Goal::AtMost(bar, aim) => ("at most", bar, aim),
            Goal::AtLeast(bar, aim) => ("at least", bar, aim),
        };
        json!({
            "row": self.row.as_str(),
            "name": self.name,
            "title": self.title,
            "unit": self.unit.as_str(),
            "value": self.value,
            "low": self.range.0,
            "high": self.range.1,
            "goal": direction,
            "bar": bar,
            "aim": aim,
            "verdict": self.verdict().as_str(),
        })
    }
}

/// An absolute number beside the figures: worth something on this machine only.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    /// The row it belongs to.
    pub row: Row,
    /// What it is.
    pub title: String,
    /// What its values count.
    pub unit: Unit,
    /// Of Leasehold, if it has it.
    pub ours: Option<f64>,
    /// Of raw streams, if they have it.
    pub raw: Option<f64>,
}

impl Detail {
    pub(crate) fn both(row: Row, title: impl Into<String>, unit: Unit, ours: f64, raw: f64) -> Self {
        Self { row, title: title.into(), unit, ours: Some(ours), raw: Some(raw) }
    }

    pub(crate) fn ours(row: Row, title: impl Into<String>, unit: Unit, ours: f64) -> Self {
        Self { row, title: title.into(), unit, ours: Some(ours), raw: None }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "row": self.row.as_str(),
            "title": self.title,
            "unit": self.unit.as_str(),
            "ours": self.ours,
            "raw": self.raw,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Goal, Unit, Verdict};

    #[test]
    fn a_bar_itself_is_met_and_an_aim_is_more() {
        let low = Goal::AtMost(5.0, Some(3.5));
        assert_eq!([3.5, 5.0, 5.01].map(|v| low.judge(v)), [Verdict::AimMet, Verdict::Met, Verdict::NotMet]);
        let high = Goal::AtLeast(0.15, Some(0.25));
        assert_eq!(
            [0.25, 0.15, 0.1].map(|v| high.judge(v)),
            [Verdict::AimMet, Verdict::Met, Verdict::NotMet]
        );
        assert_eq!(Goal::AtMost(2.0, None).judge(0.0), Verdict::Met);
    }

    #[test]
    fn values_are_shown_with_their_unit() {
        assert_eq!(Unit::Ratio.show(3.456), "3.46");
        assert_eq!(Unit::Percent.show(99.9), "99.9 %");
        assert_eq!(Unit::Percent.show(100.0), "100 %");
        assert_eq!(Goal::AtMost(5.0, Some(3.5)).show(Unit::Ratio), ("<= 5".into(), "3.5".into()));
        assert_eq!(Goal::AtLeast(99.9, None).show(Unit::Percent), (">= 99.9 %".into(), String::new()));
    }
}
