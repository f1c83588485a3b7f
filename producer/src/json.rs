//! Payloads and outputs as JSON: tasks travel as MessagePack; people and other languages write JSON.
//!
//! `docs/json-mapping.md` has the rules with examples. The mapping itself is `leasehold_common::json`, which workers
//! share for results that have to follow a JSON Schema.

use leasehold_common::json;
use serde_json::Value;

use crate::error::Result;

pub use json::{BYTES_KEY, Bytes, DEPTH};

/// Reads JSON text.
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) naming `field`, without quoting the text: no JSON, a key twice in an object,
/// nesting over [`DEPTH`], an integer that does not fit 64 bits, a number beyond the range of a float.
pub fn parse(field: &'static str, text: &str) -> Result<Value> {
    Ok(json::parse(field, text)?)
}

/// Encodes JSON as MessagePack.
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) for nesting that is too deep, or a `$bytes` object whose value is not
/// base64.
pub fn to_msgpack(value: &Value, bytes: Bytes) -> Result<Vec<u8>> {
    Ok(json::to_msgpack(value, bytes)?)
}

/// Reads MessagePack as JSON.
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) for what JSON has no form for, and for bytes that are no MessagePack.
pub fn from_msgpack(msgpack: &[u8], bytes: Bytes) -> Result<Value> {
    Ok(json::from_msgpack(msgpack, bytes)?)
}
