//! How the search and the start tell a person what they do.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmation {
    /// Go on.
    Yes,
    /// Do not.
    No,
    /// There is nobody to ask, which means "do not" and deserves another message.
    NoTerminal,
}

/// Receives each step as one line, and answers the one question that may come up (may sudo be used?).
pub(crate) trait Reporter: Send + Sync {
    /// Shows one line.
    fn say(&self, line: &str);

    /// Asks a yes-or-no question and waits for the answer.
    fn confirm(&self, question: &str) -> Confirmation;
}

/// Writes lines to stderr and asks only where stdin and stderr are terminals.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StderrReporter;

impl Reporter for StderrReporter {
    fn say(&self, line: &str) {
        // A closed stderr is no reason to fail.
        let _ = writeln!(io::stderr(), "{}", printable(line));
    }

    fn confirm(&self, question: &str) -> Confirmation {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Confirmation::NoTerminal;
        }
        let _ = write!(io::stderr(), "{} [y/N] ", printable(question));
        let mut answer = String::new();
        match io::stdin().lock().read_line(&mut answer) {
            Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Confirmation::Yes,
            Ok(_) | Err(_) => Confirmation::No,
        }
    }
}

/// `text` without control characters other than line breaks, since it may come from a log file.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}
