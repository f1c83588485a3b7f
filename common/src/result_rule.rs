//! What counts as a task's result: a run whose output breaks the rule fails as `invalid_result`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{PatternOptions, Validator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::json::{Bytes, DEPTH, from_msgpack, parse};
use crate::text::{head, printable};

/// Most bytes of a schema, as JSON without spaces.
pub const MOST_SCHEMA: usize = 16 * 1024;
/// Compiled schemas that a process keeps.
const KEPT: usize = 32;
/// Bytes of what is said of a bad schema.
const MOST_REASON: usize = 400;
/// Bytes of the place that is named in a result.
const MOST_PLACE: usize = 400;
/// Of a compiled pattern, in bytes: a counted repetition of a counted repetition grows fast.
const MOST_PATTERN: usize = 1024 * 1024;

/// Parts of a schema times depth of a result: the validator may go so deep, and a stack that is not enough ends the
/// whole process.
const MOST_STEPS: usize = 20_000;
/// Bytes of stack for [`ResultRule::check`]: several times what the deepest judging takes. What is not touched costs nothing.
pub const JUDGE_STACK: usize = 128 * 1024 * 1024;

/// The field that errors name.
const FIELD: &str = "result schema";

/// What a handler's output must be like for its task to complete. It is part of the task: of its body and its digest.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub enum ResultRule {
    /// Anything.
    #[default]
    Any,
    /// Something: not null, no empty text or bytes, no empty array or map.
    Required,
    /// What this JSON Schema accepts, once the output is mapped to JSON (bytes as `{"$bytes": BASE64}`). Draft 2020-12,
    /// unless `$schema` names an earlier one. At most 16 KiB; a `$ref` leads to a place inside of it (or to one of the
    /// standard's own schemas), never to a file or a network; `pattern` takes no look-around and no back references;
    /// `format` is a remark, as the standard has it.
    JsonSchema(Value),
}

/// As it lies in Redis. The schema is text there: one canonical form, whatever a MessagePack library makes of numbers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stored {
    Any,
    Required,
    JsonSchema(String),
}

impl From<ResultRule> for Stored {
    fn from(rule: ResultRule) -> Self {
        match rule {
            ResultRule::Any => Self::Any,
            ResultRule::Required => Self::Required,
            ResultRule::JsonSchema(schema) => Self::JsonSchema(schema.to_string()),
        }
    }
}

impl TryFrom<Stored> for ResultRule {
    type Error = Error;
    fn try_from(stored: Stored) -> Result<Self> {
        Ok(match stored {
            Stored::Any => Self::Any,
            Stored::Required => Self::Required,
            Stored::JsonSchema(text) => Self::JsonSchema(parse(FIELD, &text)?),
        })
    }
}

impl ResultRule {
    /// The name as the CLI and JSON spell it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Required => "required",
            Self::JsonSchema(_) => "json_schema",
        }
    }

    /// Is it [`ResultRule::Any`]?
    #[must_use]
    pub const fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }

    /// Compiles a schema, to see whether it is one.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming `result schema`: over its size, nested too deep, no JSON Schema, a `$ref` that leads
    /// out of it.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Any | Self::Required => Ok(()),
            Self::JsonSchema(schema) => compiled(schema).map(drop),
        }
    }

    /// Judges an output, MessagePack. A schema that has many ways to the same place may take very long: call it where
    /// that hurts nobody, on a thread with [`JUDGE_STACK`] bytes of stack.
    ///
    /// # Errors
    /// What is wrong with it: the rule, and for a schema the place (a JSON pointer, in which names that the schema does
    /// not have are `*`) and the keyword. Never a value.
    pub fn check(&self, output: &[u8]) -> Result<(), String> {
        match self {
            Self::Any => Ok(()),
            Self::Required => match emptiness(output) {
                Some(what) => Err(format!("the result breaks its rule `required`: it is {what}")),
                None => Ok(()),
            },
            Self::JsonSchema(schema) => {
                let breach = |what: String| format!("the result breaks its rule `json_schema`: {what}");
                let validator = compiled(schema).map_err(|error| breach(error.to_string()))?;
                let value = from_msgpack(output, Bytes::Tagged)
                    .map_err(|error| breach(format!("it has no form as JSON: {error}")))?;
                let (within, parts) = (depth(&value), parts(schema));
                if within.saturating_mul(parts) > MOST_STEPS {
                    return Err(breach(format!(
                        "it is nested {within} deep, which is too deep for a schema of {parts} parts: one times the \
                         other may be {MOST_STEPS}"
                    )));
                }
                validator.validate(&value).map_err(|error| {
                    let place = place(schema, &value, error.instance_path().as_str());
                    let rule = head(error.schema_path().as_str(), MOST_PLACE).to_owned();
                    breach(format!("keyword {:?} at {place:?} (schema at {rule:?})", error.kind().keyword()))
                })
            }
        }
    }
}

/// What kind of nothing an output is; none when it is something.
fn emptiness(output: &[u8]) -> Option<&'static str> {
    match output {
        [] | [0xc0] => Some("null"),
        [0xa0] | [0xd9, 0] | [0xda, 0, 0] | [0xdb, 0, 0, 0, 0] => Some("an empty text"),
        [0xc4, 0] | [0xc5, 0, 0] | [0xc6, 0, 0, 0, 0] => Some("no bytes"),
        [0x90] | [0xdc, 0, 0] | [0xdd, 0, 0, 0, 0] => Some("an empty array"),
        [0x80] | [0xde, 0, 0] | [0xdf, 0, 0, 0, 0] => Some("an empty map"),
        _ => None,
    }
}

/// The pointer with `*` for each key that the schema does not name: it is data.
fn place(schema: &Value, value: &Value, pointer: &str) -> String {
    let mut names = BTreeSet::new();
    names_in(schema, &mut names);
    let (mut shown, mut here) = (String::new(), Some(value));
    for segment in pointer.split('/').skip(1) {
        let name = segment.replace("~1", "/").replace("~0", "~");
        let known = match here {
            Some(Value::Array(_)) => true,
            _ => names.contains(name.as_str()),
        };
        here = here.and_then(|value| match value {
            Value::Array(items) => name.parse::<usize>().ok().and_then(|at| items.get(at)),
            Value::Object(fields) => fields.get(&name),
            _ => None,
        });
        shown.push('/');
        shown.push_str(if known { segment } else { "*" });
    }
    head(&shown, MOST_PLACE).to_owned()
}

/// Every key in the schema, and every text, for `required` and its like name keys by text.
fn names_in<'a>(schema: &'a Value, names: &mut BTreeSet<&'a str>) {
    match schema {
        Value::Object(fields) => {
            for (name, inner) in fields {
                names.insert(name);
                names_in(inner, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names_in(item, names)),
        Value::String(text) => {
            names.insert(text);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The newest last. A schema is compiled once for many tasks, by producers as by workers.
static COMPILED: Mutex<Vec<(String, Arc<Validator>)>> = Mutex::new(Vec::new());

fn compiled(schema: &Value) -> Result<Arc<Validator>> {
    if depth(schema) > DEPTH {
        return Err(Error::invalid(FIELD, format!("is nested deeper than {DEPTH}")));
    }
    let text = schema.to_string();
    crate::limits::check_size(FIELD, text.len(), MOST_SCHEMA)?;
    let mut kept = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(at) = kept.iter().position(|(known, _)| *known == text) {
        let entry = kept.remove(at);
        let validator = Arc::clone(&entry.1);
        kept.push(entry);
        return Ok(validator);
    }
    drop(kept);
    let validator = Arc::new(compile(schema)?);
    let mut kept = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= KEPT {
        kept.remove(0);
    }
    kept.push((text, Arc::clone(&validator)));
    Ok(validator)
}

fn compile(schema: &Value) -> Result<Validator> {
    // Linear patterns: one that backtracks could keep a worker busy for ever.
    let patterns = PatternOptions::regex().size_limit(MOST_PATTERN);
    let built = jsonschema::options().offline().with_pattern_options(patterns).build(schema);
    built.map_err(|error| {
        let at = error.instance_path().as_str().to_owned();
        let reason = printable(head(&format!("{error} (at {at:?})"), MOST_REASON));
        Error::invalid(FIELD, format!("is no JSON Schema that can be used: {reason}"))
    })
}

/// Objects in a schema: what a chain of `$ref`, `allOf` and their like can lead through without going into the value.
fn parts(schema: &Value) -> usize {
    match schema {
        Value::Object(fields) => 1 + fields.values().map(parts).sum::<usize>(),
        Value::Array(items) => items.iter().map(parts).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn depth(value: &Value) -> usize {
    // Level by level: whoever built the value may have nested it deeper than a stack goes.
    let (mut level, mut depth) = (vec![value], 0);
    while !level.is_empty() && depth <= DEPTH {
        depth += 1;
        level = level
            .into_iter()
            .flat_map(|value| -> Box<dyn Iterator<Item = &Value>> {
                match value {
                    Value::Array(items) => Box::new(items.iter()),
                    Value::Object(fields) => Box::new(fields.values()),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                        Box::new(std::iter::empty())
                    }
                }
            })
            .collect();
    }
    depth
}

#[cfg(test)]
#[path = "result_rule_tests.rs"]
mod tests;
