//! JSON text read strictly: what would silently change on the way is refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::DEPTH;
use crate::error::{Error, Result};

/// Reads JSON text.
///
/// # Errors
/// [`Error::Invalid`] naming `field`, without quoting the text: no JSON, a key twice in an object, nesting over
/// [`DEPTH`], an integer that does not fit 64 bits, a number beyond the range of a float.
pub fn parse(field: &'static str, text: &str) -> Result<Value> {
    let bad = |error: serde_json::Error| {
        let place = format!("line {} column {}", error.line(), error.column());
        match error.classify() {
            serde_json::error::Category::Data => Error::invalid(field, error.to_string()),
            serde_json::error::Category::Eof => Error::invalid(field, "is JSON that ends too early"),
            _ if error.to_string().contains("recursion limit") => {
                Error::invalid(field, format!("is nested deeper than {DEPTH}"))
            }
            _ if error.to_string().contains("number out of range") => {
                Error::invalid(field, format!("has a number out of range at {place}"))
            }
            _ => Error::invalid(field, format!("is not JSON: see {place}")),
        }
    };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Node(0).deserialize(&mut deserializer).map_err(bad)?;
    deserializer.end().map_err(bad)?;
    if has_wide_integer(text) {
        let most = "an integer that does not fit 64 bits; write it as a string, or as a float with a point";
        return Err(Error::invalid(field, format!("has {most}")));
    }
    Ok(value)
}

/// Does valid JSON hold an integer beyond 64 bits? It would be read as a float and lose digits.
fn has_wide_integer(text: &str) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    let outside = |c: char| {
        let was_inside = in_string;
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
        !was_inside && !in_string
    };
    let plain: String = text.chars().map(outside_or_gap(outside)).collect();
    let numbers = plain.split(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
    let integers = numbers.filter(|n| n.bytes().any(|b| b.is_ascii_digit()) && !n.contains(['.', 'e', 'E']));
    integers.into_iter().any(|n| n.parse::<i64>().is_err() && n.parse::<u64>().is_err())
}

fn outside_or_gap(mut outside: impl FnMut(char) -> bool) -> impl FnMut(char) -> char {
    move |c| if outside(c) { c } else { ' ' }
}

struct Node(usize);

impl<'de> DeserializeSeed<'de> for Node {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.0 > DEPTH {
            return Err(D::Error::custom(format!("is nested deeper than {DEPTH}")));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
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
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("holds a number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Self(self.0 + 1))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(Self(self.0 + 1))?;
            if fields.insert(name, value).is_some() {
                return Err(A::Error::custom("holds an object with a key twice"));
            }
        }
        Ok(Value::Object(fields))
    }
}
