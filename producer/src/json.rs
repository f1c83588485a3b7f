//! Payloads and outputs as JSON.
//!
//! Tasks travel as MessagePack; people and other languages write JSON. `docs/json-mapping.md` has the rules with
//! examples:
//!
//! | JSON | MessagePack |
//! |---|---|
//! | null, true, false | nil, bool |
//! | number without point or exponent | integer, whole from -2^63 to 2^64 - 1; beyond that [`parse`] refuses it |
//! | other number | float 64 |
//! | string | str |
//! | array | array |
//! | object | map with str keys, in the order of the object |
//! | `{"$bytes": "BASE64"}` with [`Bytes::Tagged`] | bin |
//!
//! The way back is the same, with float 32 as a number, and refuses what JSON has no form for: NaN and infinity,
//! keys that are no strings, a key twice, extension types. With [`Bytes::Text`] bytes become their base64 as a
//! plain string (a reader has to know), and `{"$bytes": ..}` is an object like any other. Nesting is limited to
//! [`DEPTH`] in both directions.

mod from_msgpack;
mod parse;

use serde::Serialize as _;
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _};
use serde_json::Value;

use crate::base64;
use crate::error::{Error, Result};

pub use from_msgpack::from_msgpack;
pub use parse::parse;

/// Deepest nesting of arrays and objects.
pub const DEPTH: usize = 128;

/// The one key of an object that stands for bytes.
pub const BYTES_KEY: &str = "$bytes";

/// How bytes look in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bytes {
    /// `{"$bytes": "BASE64"}`, in both directions.
    #[default]
    Tagged,
    /// A plain string of base64 on the way out; on the way in nothing is taken for bytes.
    Text,
}

/// Encodes JSON as MessagePack.
///
/// # Errors
/// [`Error::Invalid`] for nesting that is too deep, or a `$bytes` object whose value is not base64.
pub fn to_msgpack(value: &Value, bytes: Bytes) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let node = Node { value, bytes, depth: 0 };
    let mut serializer = rmp_serde::Serializer::new(&mut out);
    node.serialize(&mut serializer).map_err(|error| Error::invalid("JSON", error.to_string()))?;
    Ok(out)
}

struct Node<'a> {
    value: &'a Value,
    bytes: Bytes,
    depth: usize,
}

impl serde::Serialize for Node<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.depth > DEPTH {
            return Err(S::Error::custom(format!("is nested deeper than {DEPTH}")));
        }
        let inner = |value| Node { value, bytes: self.bytes, depth: self.depth + 1 };
        match self.value {
            Value::Array(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    seq.serialize_element(&inner(item))?;
                }
                seq.end()
            }
            Value::Object(fields) => {
                if self.bytes == Bytes::Tagged
                    && fields.len() == 1
                    && let Some(tagged) = fields.get(BYTES_KEY)
                {
                    let decoded = tagged.as_str().and_then(base64::decode);
                    return serializer
                        .serialize_bytes(&decoded.ok_or_else(|| {
                            S::Error::custom(format!("{BYTES_KEY} holds no padded base64"))
                        })?);
                }
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, field) in fields {
                    map.serialize_entry(name, &inner(field))?;
                }
                map.end()
            }
            leaf => leaf.serialize(serializer),
        }
    }
}
