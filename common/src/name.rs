//! Validated names and ids: what is not of the accepted form never reaches Redis.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Longest queue, worker, schedule and task name, in bytes.
pub const NAME_BYTES: usize = 64;
/// Longest caller's task id, in bytes.
pub const ID_BYTES: usize = 64;
/// Longest owner, in bytes.
pub const TEXT_BYTES: usize = 256;

fn check_name(field: &'static str, name: &str) -> Result<()> {
    let fits = (1..=NAME_BYTES).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if fits {
        return Ok(());
    }
    Err(Error::invalid(
        field,
        format!("{} is not 1 to {NAME_BYTES} characters of A-Z a-z 0-9 . _ -", shown(name)),
    ))
}

fn check_text(field: &'static str, text: &str, most: usize) -> Result<()> {
    let fits = (1..=most).contains(&text.len()) && !text.chars().any(is_unprintable);
    if fits {
        return Ok(());
    }
    Err(Error::invalid(
        field,
        format!("{} is not 1 to {most} bytes of text without control characters", shown(text)),
    ))
}

/// Control characters, and those that turn the direction of text around.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// A value as an error may quote it: short, and without control characters.
fn shown(value: &str) -> String {
    let short: String = value.chars().take(40).flat_map(char::escape_debug).collect();
    let more = if value.chars().nth(40).is_some() { ".." } else { "" };
    format!("{short:?}{more}").replace("\\\\", "\\")
}

macro_rules! text_type {
    ($(#[$doc:meta])* $type:ident, $field:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Checks the form.
            ///
            /// # Errors
            /// [`Error::Invalid`] naming the field and what is accepted.
            pub fn new(text: impl Into<String>) -> Result<Self> {
                let text = text.into();
                let check: fn(&str) -> Result<()> = $check;
                check(&text)?;
                Ok(Self(text))
            }

            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $type {
            type Error = Error;
            fn try_from(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.0
            }
        }
    };
}

text_type!(
    /// The name of a queue: `[A-Za-z0-9._-]{1,64}`.
    QueueName, "queue", |t| check_name("queue", t)
);
text_type!(
    /// The name of a kind of task: `[A-Za-z0-9._-]{1,64}`.
    TaskName, "task name", |t| check_name("task name", t)
);
text_type!(
    /// The stable name of a worker: `[A-Za-z0-9._-]{1,64}`.
    WorkerName, "worker", |t| check_name("worker", t)
);
text_type!(
    /// The first part of every key, `lh` by default: `[A-Za-z0-9._-]{1,64}`.
    Namespace, "namespace", |t| check_name("namespace", t)
);
text_type!(
    /// A task's id within its queue: a UUIDv7, or the caller's, at most 64 bytes of text without control characters.
    TaskId, "task id", |t| check_text("task id", t, ID_BYTES)
);
text_type!(
    /// The name of a stage of a run: `[A-Za-z0-9._-]{1,64}`.
    PhaseName, "phase", |t| check_name("phase", t)
);
text_type!(
    /// The name of something that a task may spend: `[A-Za-z0-9._-]{1,64}`.
    BudgetName, "budget", |t| check_name("budget", t)
);
text_type!(
    /// What a task takes its turn in (a session, a customer): at most 256 bytes of text without control characters.
    Lane, "lane", |t| check_text("lane", t, TEXT_BYTES)
);
text_type!(
    /// Whom a task belongs to (a session, a user): at most 256 bytes of text without control characters.
    Owner, "owner", |t| check_text("owner", t, TEXT_BYTES)
);
text_type!(
    /// One claim of a task: the level and stream entry it was claimed from. Only ever compared for equality.
    RunId, "run id", |t| check_text("run id", t, TEXT_BYTES)
);
text_type!(
    /// One start of a worker process: fresh each time.
    Incarnation, "incarnation", |t| check_name("incarnation", t)
);

impl TaskId {
    /// A fresh id: a UUIDv7, so that ids sort by the time they were made.
    #[must_use]
    pub fn fresh() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }
}

impl Incarnation {
    /// A fresh incarnation: 20 random hex digits.
    #[must_use]
    pub fn fresh() -> Self {
        let mut text = uuid::Uuid::new_v4().simple().to_string();
        text.truncate(20);
        Self(text)
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("lh".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{QueueName, TaskId, TaskName};

    #[test]
    fn case_39_names_as_weapons_are_refused_naming_the_field() {
        for bad in
            ["", "a:b", "{x}", "}{", "*", "[a]*", "a b", "a\nb", "../x/", "%2e", "a\0b", "\u{202e}x", "é"]
        {
            let error = QueueName::new(bad).unwrap_err().to_string();
            assert!(error.starts_with("invalid queue:") && error.contains("1 to 64"), "{error}");
            assert!(!error.chars().any(char::is_control), "{error:?}");
        }
        assert!(TaskName::new("a".repeat(64)).is_ok() && TaskName::new("a".repeat(65)).is_err());
        for good in ["-rf", "123", "..", "a.b_c-d"] {
            assert_eq!(QueueName::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn case_39_ids_are_text_without_control_characters() {
        for bad in ["", "a\nb", "a\0b", "\u{202e}x", &"é".repeat(33)] {
            assert!(TaskId::new(bad).is_err(), "{bad:?}");
        }
        for good in ["a:b", "{x}", "a b", "é", "e\u{301}"] {
            assert_eq!(TaskId::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn fresh_ids_differ_and_fit() {
        assert_ne!(TaskId::fresh(), TaskId::fresh());
        assert_eq!(TaskId::fresh().as_str().len(), 36);
    }
}
