//! MessagePack read as JSON.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{BYTES_KEY, Bytes, DEPTH};
use crate::base64;
use crate::error::{Error, Result};

/// Reads MessagePack as JSON.
///
/// # Errors
/// [`Error::Invalid`] for what JSON has no form for, and for bytes that are no MessagePack.
pub fn from_msgpack(msgpack: &[u8], bytes: Bytes) -> Result<Value> {
    let bad = |error: rmp_serde::decode::Error| Error::invalid("MessagePack", reason(&error));
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(msgpack);
    let value = Node { bytes, depth: 0 }.deserialize(&mut deserializer).map_err(bad)?;
    // Whatever follows the value is not of it.
    match (&mut deserializer).deserialize_any(Node { bytes, depth: 0 }) {
        Err(rmp_serde::decode::Error::InvalidMarkerRead(_)) => Ok(value),
        _ => Err(Error::invalid("MessagePack", "goes on after its value")),
    }
}

fn reason(error: &rmp_serde::decode::Error) -> String {
    use rmp_serde::decode::Error as E;
    match error {
        // Of our own making, below: it quotes nothing.
        E::Syntax(text) => text.clone(),
        E::InvalidMarkerRead(_) | E::InvalidDataRead(_) => "ends too early".to_owned(),
        _ => "is malformed".to_owned(),
    }
}

#[derive(Clone, Copy)]
struct Node {
    bytes: Bytes,
    depth: usize,
}

impl Node {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= DEPTH {
            return Err(E::custom(format!("is nested deeper than {DEPTH}")));
        }
        Ok(Self { bytes: self.bytes, depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Node {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has a form for")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("holds a float that is no number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        let text = Value::String(base64::encode(value));
        Ok(match self.bytes {
            Bytes::Tagged => Value::Object(Map::from_iter([(BYTES_KEY.to_owned(), text)])),
            Bytes::Text => text,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut fields = Map::new();
        while let Some(name) = map.next_key_seed(Key)? {
            let value = map.next_value_seed(inner)?;
            if fields.insert(name, value).is_some() {
                return Err(A::Error::custom("holds a map with a key twice"));
            }
        }
        Ok(Value::Object(fields))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, _: D) -> Result<Value, D::Error> {
        Err(D::Error::custom("holds an extension type"))
    }
}

/// A key: a string and nothing else.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        match deserializer.deserialize_any(Node { bytes: Bytes::Tagged, depth: DEPTH })? {
            Value::String(name) => Ok(name),
            _ => Err(D::Error::custom("holds a map with a key that is no string")),
        }
    }
}
