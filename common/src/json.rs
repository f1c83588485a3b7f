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
//! | object | map with str keys, sorted: the same JSON in another order is the same payload |
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn both_ways(value: &Value, msgpack: &[u8]) {
        assert_eq!(to_msgpack(value, Bytes::Tagged).unwrap(), msgpack, "{value}");
        assert_eq!(from_msgpack(msgpack, Bytes::Tagged).unwrap(), *value);
    }

    fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
        match result {
            Err(Error::Invalid { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn every_json_value_has_one_form_and_comes_back() {
        both_ways(&json!(null), &[0xc0]);
        both_ways(&json!(true), &[0xc3]);
        both_ways(&json!(u64::MAX), &[0xcf, 255, 255, 255, 255, 255, 255, 255, 255]);
        both_ways(&json!(i64::MIN), &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        both_ways(&json!(9_007_199_254_740_993_u64), &[0xcf, 0, 0x20, 0, 0, 0, 0, 0, 1]);
        both_ways(&json!(1.0), &[0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);
        both_ways(&json!("é"), &[0xa2, 0xc3, 0xa9]);
        both_ways(&json!({"b": [1, "x"], "a": {}}), b"\x82\xa1a\x80\xa1b\x92\x01\xa1x");
        both_ways(&json!({"$bytes": "AP8="}), &[0xc4, 2, 0, 255]);
        both_ways(&json!({"$bytes": "AP8=", "more": 1}), b"\x82\xa6$bytes\xa4AP8=\xa4more\x01");
    }

    #[test]
    fn bytes_as_text_by_flag() {
        assert_eq!(from_msgpack(&[0xc4, 2, 0, 255], Bytes::Text).unwrap(), json!("AP8="));
        let object = json!({"$bytes": 7});
        let plain = to_msgpack(&object, Bytes::Text).unwrap();
        assert_eq!(from_msgpack(&plain, Bytes::Text).unwrap(), object);
        assert!(refused(to_msgpack(&object, Bytes::Tagged)).contains("$bytes holds no padded base64"));
    }

    #[test]
    fn nesting_is_bounded_in_every_direction() {
        let deepest: Value = parse("payload", &nested(DEPTH - 1)).unwrap();
        let msgpack = to_msgpack(&deepest, Bytes::Tagged).unwrap();
        assert_eq!(from_msgpack(&msgpack, Bytes::Tagged).unwrap(), deepest);
        assert!(refused(parse("payload", &nested(100_000))).contains("nested deeper than 128"));
        let deep = (0..DEPTH + 2).fold(json!(1), |inner, _| json!([inner]));
        assert!(refused(to_msgpack(&deep, Bytes::Tagged)).contains("nested deeper than 128"));
        let mut deep = vec![0x91; 100_000];
        deep.push(0xc0);
        assert!(refused(from_msgpack(&deep, Bytes::Tagged)).contains("nested deeper than 128"));
    }

    #[test]
    fn what_json_has_no_form_for_is_refused() {
        for (msgpack, why) in [
            (&[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0][..], "no number"),
            (&[0xca, 0x7f, 0x80, 0, 0], "no number"),
            (&[0x81, 0x01, 0x01], "no string"),
            (&[0x81, 0xc4, 0x01, 0x61, 0x01], "no string"),
            (&[0x82, 0xa1, 0x61, 0x01, 0xa1, 0x61, 0x02], "twice"),
            (&[0xd4, 0x01, 0x00], "extension"),
            (&[0xc1], "malformed"),
            (&[0xdd, 255, 255, 255, 255], "ends too early"),
            (&[0xc6, 255, 255, 255, 255, 1], "ends too early"),
            (&[], "ends too early"),
            (&[0x01, 0x01], "goes on"),
            (&[0x01, 0xc1], "goes on"),
        ] {
            let reason = refused(from_msgpack(msgpack, Bytes::Tagged));
            assert!(reason.contains(why), "{msgpack:x?}: {reason}");
        }
    }

    #[test]
    fn json_text_that_would_silently_change_is_refused() {
        for (text, why) in [
            (r#"{"a": 1, "a": 2}"#, "key twice"),
            ("18446744073709551616", "64 bits"),
            ("-9223372036854775809", "64 bits"),
            (r#"{"id": 123456789012345678901234567890}"#, "64 bits"),
            ("1e999", "out of range"),
            ("[1, 2", "too early"),
            ("NaN", "not JSON"),
            ("{'a': 1}", "not JSON"),
            ("1 2", "not JSON"),
            ("", "too early"),
        ] {
            let reason = refused(parse("payload", text));
            assert!(reason.contains(why), "{text}: {reason}");
        }
        for text in [
            r#""18446744073709551616""#,
            r#"{"99999999999999999999": "\\\""}"#,
            "1e300",
            "-0.5",
            "18446744073709551615",
        ] {
            parse("payload", text).unwrap();
        }
    }

    #[test]
    fn errors_never_quote_the_payload() {
        for text in [r#"{"secret": 1, "secret": 2}"#, r#"["secret" "#, r#"["secret" x]"#] {
            let reason = refused(parse("payload", text));
            assert!(!reason.contains("secret"), "{reason}");
        }
    }
}
