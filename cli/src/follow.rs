//! Output of tasks as it comes: stdout to stdout, stderr to stderr, every byte as it was, unless it goes to a
//! terminal: there nothing moves the cursor.

use std::io::{self, IsTerminal as _};

use leasehold_common::text::printable_lines;
use leasehold_producer::{LogEntry, OutputStream};

use crate::error::Result;
use crate::output::{self, Output};

/// Prints the pieces of one task's log.
#[derive(Debug)]
pub(crate) struct Printer {
    output: Output,
    out: Option<Screen>,
    err: Option<Screen>,
    /// The attempt last seen, and where its next piece should begin.
    place: Option<(u64, u64)>,
}

impl Printer {
    /// For this process's stdout and stderr.
    pub(crate) fn new(output: Output) -> Self {
        Self {
            output,
            out: io::stdout().is_terminal().then(Screen::default),
            err: io::stderr().is_terminal().then(Screen::default),
            place: None,
        }
    }

    /// Prints a piece; says on stderr what is missing before it.
    pub(crate) fn print(&mut self, piece: &LogEntry) -> Result<()> {
        let expected = match self.place {
            Some((attempt, next)) if attempt == piece.attempt => next,
            Some(_) => {
                self.output.note(&format!("-- attempt {}", piece.attempt));
                0
            }
            None => 0,
        };
        if piece.offset > expected {
            self.output.note(&format!("-- {} bytes were dropped here", piece.offset - expected));
        }
        self.place = Some((piece.attempt, piece.offset + piece.text.len() as u64));
        match piece.stream {
            OutputStream::Out => match &mut self.out {
                Some(screen) => output::write_stdout(screen.safe(&piece.text).as_bytes()),
                None => output::write_stdout(&piece.text),
            },
            OutputStream::Err => {
                match &mut self.err {
                    Some(screen) => output::write_stderr_bytes(screen.safe(&piece.text).as_bytes()),
                    None => output::write_stderr_bytes(&piece.text),
                }
                Ok(())
            }
        }
    }
}

/// Bytes on their way to a terminal: a character that is cut waits for its rest.
#[derive(Debug, Default)]
struct Screen {
    rest: Vec<u8>,
}

impl Screen {
    fn safe(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let cut = self
            .rest
            .utf8_chunks()
            .last()
            .map_or(0, |last| if may_go_on(last.invalid()) { last.invalid().len() } else { 0 });
        let whole = self.rest.len() - cut;
        let rest = self.rest.split_off(whole);
        let text = printable_lines(&String::from_utf8_lossy(&self.rest));
        self.rest = rest;
        text
    }
}

/// Whether these bytes begin a character that may yet be whole.
fn may_go_on(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::Screen;

    #[test]
    fn characters_that_are_cut_come_whole_and_junk_comes_at_once() {
        let mut screen = Screen::default();
        let euro = "€".as_bytes();
        assert_eq!(screen.safe(&[b"a", &euro[..2]].concat()), "a");
        assert_eq!(screen.safe(&euro[2..]), "€");
        assert_eq!(screen.safe(&[0xff, b'x']), "\u{fffd}x");
        assert_eq!(screen.safe(&[0xff, 0xe2]), "\u{fffd}");
        assert_eq!(screen.safe(&[0x82, 0xac, b'\n']), "€\n");
        assert_eq!(screen.safe(b"\x1b[2J\r"), "\\u{1b}[2J\\u{d}");
    }
}
