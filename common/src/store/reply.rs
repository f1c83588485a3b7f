//! Reading script answers: an unknown tag or shape is an error, never a default.

use redis::Value;

use crate::error::{Error, Result};
use crate::script::ScriptSpec;

/// The elements of an answer after its tag, read in order.
#[derive(Debug)]
pub(super) struct Reply {
    items: std::vec::IntoIter<Value>,
    script: &'static str,
}

/// An answer whose tag is not `ok`.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The queue is not registered.
    Unregistered,
    /// A tag of this script's own.
    Tag(String),
}

impl Reply {
    /// Opens an answer. The common refusals become errors, the script's own tags a [`Refusal`].
    pub(super) fn open(script: &'static ScriptSpec, value: Value) -> Result<Result<Self, Refusal>> {
        let Value::Array(items) = value else {
            return Err(Error::Protocol(format!("{} answered {value:?}", script.name)));
        };
        let mut reply = Self { items: items.into_iter(), script: script.name };
        let tag = reply.text()?;
        if !script.tags.contains(&tag.as_str()) {
            return Err(Error::Protocol(format!("{} answered the unknown tag {tag:?}", script.name)));
        }
        match tag.as_str() {
            "ok" => Ok(Ok(reply)),
            "unregistered" => Ok(Err(Refusal::Unregistered)),
            "format" => Err(Error::NewerFormat {
                what: "the queue".into(),
                found: reply.text()?.parse().unwrap_or(u32::MAX),
                known: crate::FORMAT,
            }),
            "wrongtype" => Err(Error::ForeignData { key: reply.text()? }),
            "badargs" => {
                Err(Error::Protocol(format!("{} refused its arguments: {}", script.name, reply.text()?)))
            }
            _ => Ok(Err(Refusal::Tag(tag))),
        }
    }

    /// Is there more?
    pub(super) fn has_more(&self) -> bool {
        !self.items.as_slice().is_empty()
    }

    fn value(&mut self) -> Result<Value> {
        self.items.next().ok_or_else(|| Error::Protocol(format!("{} answered too little", self.script)))
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(bytes),
            Value::SimpleString(text) => Ok(text.into_bytes()),
            Value::Int(n) => Ok(n.to_string().into_bytes()),
            Value::Okay => Ok(b"OK".to_vec()),
            other => Err(Error::Protocol(format!("{} answered {other:?} for text", self.script))),
        }
    }

    pub(super) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?)
            .map_err(|_| Error::Protocol(format!("{} answered junk", self.script)))
    }

    /// Text that is only shown or compared: bytes that are none are replaced.
    pub(super) fn shown(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    pub(super) fn signed(&mut self) -> Result<i64> {
        let text = self.text()?;
        text.parse().map_err(|_| Error::Protocol(format!("{} answered {text:?} for a number", self.script)))
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        let n = self.signed()?;
        u64::try_from(n).map_err(|_| Error::Protocol(format!("{} answered {n} for a count", self.script)))
    }

    /// Parses a validated value; what does not fit is a protocol error.
    pub(super) fn parsed<T: std::str::FromStr>(&mut self) -> Result<T> {
        let text = self.text()?;
        text.parse().map_err(|_| Error::Protocol(format!("{} answered {text:?}", self.script)))
    }

    /// Reads the answers of `count` items with `read`, which is given the tag of each. One answer may stand for all.
    pub(super) fn for_each<T: Clone>(
        &mut self,
        count: usize,
        read: impl Fn(&mut Self, &str) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut answers = Vec::with_capacity(count);
        while self.has_more() {
            let tag = self.text()?;
            answers.push(read(self, &tag)?);
        }
        if let [answer] = &answers[..] {
            answers = vec![answer.clone(); count];
        }
        Ok(answers)
    }

    /// The next element, if it is a list.
    pub(super) fn list_if_next(&mut self) -> Result<Option<Self>> {
        if matches!(self.items.as_slice().first(), Some(Value::Array(_))) {
            self.list().map(Some)
        } else {
            Ok(None)
        }
    }

    /// A nested list.
    pub(super) fn list(&mut self) -> Result<Self> {
        match self.value()? {
            Value::Array(items) => Ok(Self { items: items.into_iter(), script: self.script }),
            other => Err(Error::Protocol(format!("{} answered {other:?} for a list", self.script))),
        }
    }

    pub(super) fn unknown_tag(&self, tag: &str) -> Error {
        Error::Protocol(format!("{} answered the unknown item tag {tag:?}", self.script))
    }
}
