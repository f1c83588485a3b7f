//! The repository as text: its files, and Rust code without comments and test modules.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const SKIPPED: [&str; 4] = ["target", "node_modules", ".git", ".leasehold"];

/// A text file of the repository.
#[derive(Debug)]
pub(super) struct Source {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

/// The root of the repository.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate lies in the root").to_owned()
}

/// Every file below `folder` (`.` for all) whose name ends so, sorted by path.
pub(super) fn files(folder: &str, ending: &str) -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.join(folder)];
    while let Some(path) = open.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                open.extend(fs::read_dir(&path).expect("read a folder").flatten().map(|entry| entry.path()));
            }
        } else if name.ends_with(ending) && path.is_file() {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let path = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
            found.push(Source { path: path.trim_start_matches("./").to_owned(), text });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// One file of the root, which must exist.
pub(super) fn file(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of Rust code with their numbers: comments blanked, the test module at the end left out.
pub(super) fn code_lines(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut all = text.lines().enumerate().peekable();
    while let Some((index, line)) = all.next() {
        let test_module = line.trim() == "#[cfg(test)]"
            && all
                .peek()
                .is_some_and(|(_, next)| next.trim_start().starts_with("mod ") && next.contains('{'));
        if test_module {
            break;
        }
        lines.push((index + 1, without_comment(line)));
    }
    lines
}

/// A line up to its `//`, unless that stands in a string.
fn without_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let mut in_string = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' if at == 0 || bytes[at - 1] != b'\'' || in_string => in_string = !in_string,
            b'/' if !in_string && bytes.get(at + 1) == Some(&b'/') => return &line[..at],
            _ => {}
        }
        at += 1;
    }
    line
}

/// Whether `word` stands in `text` with no letter, digit or underscore beside it.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let part_of_name = |letter: Option<char>| letter.is_some_and(|l| l.is_alphanumeric() || l == '_');
    text.match_indices(word).any(|(at, _)| {
        !part_of_name(text[..at].chars().next_back()) && !part_of_name(text[at + word.len()..].chars().next())
    })
}

/// What a rule found, all of it, until it is judged.
#[derive(Debug, Default)]
pub(super) struct Offences(Vec<String>);

impl Offences {
    pub(super) fn add(&mut self, place: impl Display, problem: impl Display) {
        self.0.push(format!("{place}: {problem}"));
    }

    /// Panics with the rule and every offence, if there are any.
    #[track_caller]
    pub(super) fn judge(self, rule: &str) {
        assert!(self.0.is_empty(), "{rule}\n  {}\n", self.0.join("\n  "));
    }
}
