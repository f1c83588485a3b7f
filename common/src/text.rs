//! Text that may be shown to a person: nothing in it moves the cursor or hides itself.

use crate::name::is_unprintable;

/// `text` with control and direction characters as visible escapes; line ends and tabs included.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// As [`printable`], but line ends and tabs stay: for the output of commands and long messages.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) && !matches!(c, '\n' | '\t') {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// A word as a shell takes it, for command lines that a person may copy.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The longest head of `text` that has at most `bytes` bytes, cut at a character border.
#[must_use]
pub fn head(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::{head, printable, printable_lines, shell_word};

    #[test]
    fn escapes_never_reach_a_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}\n"), "a\\u{1b}[2Jb\\u{202e}\\u{a}");
        assert_eq!(printable_lines("a\n\tb\x07"), "a\n\tb\\u{7}");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(shell_word("a-b/c.d"), "a-b/c.d");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn cuts_at_characters() {
        assert_eq!(head("€€", 4), "€");
        assert_eq!(head("abc", 9), "abc");
    }
}
