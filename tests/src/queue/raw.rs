//! Script calls as bytes: what a broken or hostile client could send.

use leasehold_common::script::ScriptSpec;
use redis::Value;

use super::Queue;

/// The format that raw calls speak, as text.
pub const V: &str = digit(&[b'0' + FORMAT_BYTE]);
/// The format of a release to come.
pub const NEWER_V: &str = digit(&[b'0' + FORMAT_BYTE + 1]);
/// The format as the byte that records begin with.
pub const FORMAT_BYTE: u8 = {
    assert!(leasehold_common::FORMAT < 9, "the next format needs more than a digit");
    leasehold_common::FORMAT as u8
};

const fn digit(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a digit is text"),
    }
}

/// Arguments from text.
pub fn args(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// The answer of one script call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its elements as text; nested lists are left out.
    pub parts: Vec<String>,
    per_item: (usize, usize),
}

/// Elements before the items, and elements of each item.
fn shape(script: &str) -> (usize, usize) {
    match script {
        "enqueue" | "finish" | "retry" | "delete" => (2, 2),
        "repair" => (2, 3),
        "heartbeat" => (3, 4),
        "abort" => (2, 4),
        "update" => (2, 2),
        _ => (usize::MAX, 1),
    }
}

/// One answer may stand for all items: then it is repeated for each.
fn spread(
    script: &ScriptSpec,
    words: &[Vec<u8>],
    mut parts: Vec<String>,
    (skip, step): (usize, usize),
) -> Vec<String> {
    let fields = match script.name {
        "enqueue" if words.get(1).is_some_and(|form| form == b"short") => 3,
        "enqueue" => 5,
        "finish" => 4,
        "heartbeat" => 2,
        _ => return parts,
    };
    if parts.len() == skip + step {
        let one = parts[skip..].to_vec();
        for _ in 1..(words.len() - 2) / fields {
            parts.extend(one.clone());
        }
    }
    parts
}

impl Answer {
    /// Its first element.
    pub fn tag(&self) -> &str {
        &self.parts[0]
    }

    /// The tag of each item.
    pub fn items(&self) -> Vec<&str> {
        let (skip, step) = self.per_item;
        self.parts.iter().skip(skip).step_by(step).map(String::as_str).collect()
    }
}

impl Queue {
    /// Runs a script with exactly these arguments. `Err` is an error of Redis or of Lua: never an answer.
    pub fn try_script(&self, script: &ScriptSpec, words: &[Vec<u8>]) -> redis::RedisResult<Answer> {
        let mut command = redis::cmd("EVAL");
        command.arg(script.source()).arg(2).arg(self.key("config")).arg(self.key("never"));
        for word in words {
            command.arg(&word[..]);
        }
        let values: Vec<Value> = command.query(&mut *self.connection.borrow_mut())?;
        let parts = values.into_iter().map(|value| match value {
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Value::SimpleString(text) => text,
            Value::Int(n) => n.to_string(),
            _ => String::new(),
        });
        let per_item = shape(script.name);
        Ok(Answer { parts: spread(script, words, parts.collect(), per_item), per_item })
    }

    /// As [`try_script`](Self::try_script), with text, and panicking on an error.
    #[track_caller]
    pub fn script(&self, script: &ScriptSpec, words: &[&str]) -> Answer {
        self.try_script(script, &args(words)).unwrap_or_else(|e| panic!("{} {words:?}: {e}", script.name))
    }
}
