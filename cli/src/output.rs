//! The one place that prints: data on stdout, everything else on stderr, nothing that moves a cursor.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use comfy_table::{ContentArrangement, Table, presets};
use leasehold_common::name::is_unprintable;
use leasehold_common::text::{printable, printable_lines};
use serde::Serialize;
use serde_json::Value;

use crate::error::{Failure, Result};

/// How a command tells its results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
}

/// Rows under a header, for people and for `cut`.
#[derive(Debug)]
pub(crate) struct Rows {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// No rows yet.
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; its cells are made printable.
    pub(crate) fn add<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| printable(cell.as_ref())).collect());
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Output {
    /// `json`: one JSON document in the place of text; `quiet`: no notes on stderr.
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet }
    }

    /// Whether JSON was asked for.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether nothing but warnings is wanted on stderr.
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// JSON if it was asked for, else lines for people.
    pub(crate) fn either(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        if self.is_json() { json(value) } else { line(&text()) }
    }

    /// Something to know that is no data; not with `--quiet`.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            write_stderr(&format!("{}\n", printable_lines(text)));
        }
    }

    /// Why the command failed.
    pub(crate) fn failure(self, failure: &Failure) {
        if failure.is_closed() {
            return;
        }
        if self.json {
            let document = serde_json::json!({ "error": failure.text(), "exit_code": failure.exit().code() });
            write_stderr(&format!("{}\n", escaped(&document.to_string())));
        } else {
            write_stderr(&format!("error: {}\n", failure.text()));
        }
    }
}

/// One line, or several, of data.
pub(crate) fn line(text: &str) -> Result<()> {
    write_stdout(format!("{}\n", printable_lines(text)).as_bytes())
}

/// A JSON document: in lines on a terminal, in one line elsewhere.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    let text = text.map_err(|error| Failure::failed(format!("cannot be told as JSON: {error}")))?;
    write_stdout(format!("{}\n", escaped(&text)).as_bytes())
}

/// A JSON document in one line, one of many.
pub(crate) fn json_line(value: &Value) -> Result<()> {
    write_stdout(format!("{}\n", escaped(&value.to_string())).as_bytes())
}

/// A table on a terminal, else the cells with tabs between them, header first.
pub(crate) fn rows(rows: Rows) -> Result<()> {
    if io::stdout().is_terminal() {
        let mut table = Table::new();
        // A cell that is cut over two lines cannot be copied: long lines are left to the terminal.
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(rows.header);
        table.add_rows(rows.rows);
        let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        return write_stdout(format!("{}\n", text.join("\n")).as_bytes());
    }
    let mut text = rows.header.join("\t");
    for row in rows.rows {
        text.push('\n');
        text.push_str(&row.join("\t"));
    }
    write_stdout(format!("{text}\n").as_bytes())
}

/// What a person must be told on stderr, `--quiet` or not.
pub(crate) fn important(text: &str) {
    write_stderr(&format!("{}\n", printable_lines(text)));
}

/// Something to worry about.
pub(crate) fn warn(text: &str) {
    write_stderr(&format!("warning: {}\n", printable_lines(text)));
}

/// Text made safe by the caller, as help and usage errors are.
pub(crate) fn rendered(text: &str, to_stdout: bool) {
    if to_stdout {
        // A reader that has gone needs no help.
        let _ = write_stdout(text.as_bytes());
    } else {
        write_stderr(text);
    }
}

/// Writes bytes to stdout, as they are.
pub(crate) fn write_stdout(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::closed(),
        _ => Failure::io("cannot write to stdout", &error),
    })
}

/// Writes bytes to stderr, as they are. A closed stderr is no reason to fail.
pub(crate) fn write_stderr_bytes(bytes: &[u8]) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
}

fn write_stderr(text: &str) {
    write_stderr_bytes(text.as_bytes());
}

/// JSON text in which every character that could move a cursor is escaped. Outside of strings JSON has none but
/// line ends, and within strings a line end is escaped already.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unprintable(c) && c != '\n' {
            // Writing to a string never fails.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn json_holds_no_control_characters_and_reads_back() {
        let text = "a\u{9b}2J\u{202e}\u{7f}\n\u{1b}é";
        let json = escaped(&serde_json::to_string_pretty(&[text]).unwrap());
        assert!(!json.chars().any(|c| leasehold_common::name::is_unprintable(c) && c != '\n'), "{json:?}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap()[0], text);
    }
}
