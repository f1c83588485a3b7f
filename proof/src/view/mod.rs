//! All keys of a queue at one moment, as they are: read by one script, in one round trip.

mod record;
mod seen;
pub(crate) use seen::task_no;

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_common::state::TaskState;
use redis::Value;

pub use record::{Closed, Phase, Rare, Record, Stop};

/// Reads the keys of a queue.
pub const SCRIPT: &str = include_str!("script.lua");

/// What one key holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Held {
    /// Its Redis type.
    pub kind: String,
    /// Its elements, flat: of a sorted set members and scores, of a hash names and values, of a stream ids and the last
    /// value of each entry.
    pub parts: Vec<Vec<u8>>,
}

/// The keys of a queue by their names behind its prefix.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Each key.
    pub keys: BTreeMap<Arc<str>, Arc<Held>>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl View {
    /// Reads the answer of [`SCRIPT`].
    ///
    /// # Panics
    /// When it is no such answer.
    pub fn of(answer: Value) -> Self {
        let Value::Array(rows) = answer else { panic!("the view answered {answer:?}") };
        Self { keys: rows.into_iter().map(row).collect() }
    }

    fn parts(&self, suffix: &str) -> &[Vec<u8>] {
        self.keys.get(suffix).map_or(&[], |held| &held.parts)
    }

    /// A string.
    pub fn string(&self, suffix: &str) -> Option<&[u8]> {
        self.parts(suffix).first().map(Vec::as_slice)
    }

    /// A whole number in a string.
    pub fn number(&self, suffix: &str) -> Option<u64> {
        std::str::from_utf8(self.string(suffix)?).ok()?.parse().ok()
    }

    /// The pairs of a sorted set, a hash or a stream.
    pub fn pairs(&self, suffix: &str) -> impl Iterator<Item = (String, String)> {
        self.parts(suffix).chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1])))
    }

    /// Members of a sorted set with their scores.
    pub fn scores(&self, suffix: &str) -> impl Iterator<Item = (String, f64)> {
        self.pairs(suffix).map(|(member, score)| (member, score.parse().unwrap_or(f64::NAN)))
    }

    /// A score.
    pub fn score(&self, suffix: &str, member: &str) -> Option<f64> {
        self.scores(suffix).find(|(name, _)| name == member).map(|(_, score)| score)
    }

    /// A field of a hash.
    pub fn field(&self, suffix: &str, name: &str) -> Option<String> {
        self.pairs(suffix).find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// A whole number in a field of a hash; 0 without.
    pub fn count(&self, suffix: &str, name: &str) -> u64 {
        self.field(suffix, name).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// The time, ms.
    pub fn now(&self) -> u64 {
        self.count("config", "clock")
    }

    /// Sets the time, ms.
    pub fn set_clock(&mut self, now: u64) {
        let Some(config) = self.keys.get_mut("config") else { return };
        let mut changed = Held::clone(config);
        if let Some(at) = changed.parts.iter().position(|part| part == b"clock") {
            changed.parts[at + 1] = now.to_string().into_bytes();
        }
        *config = Arc::new(changed);
    }

    /// The lease T, ms.
    pub fn lease_ms(&self) -> u64 {
        self.count("config", "lease_ms")
    }

    /// Keys that begin with `prefix`, without it.
    pub fn named<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Held)> {
        self.keys.iter().filter_map(move |(suffix, held)| Some((suffix.strip_prefix(prefix)?, &**held)))
    }

    /// Every record, or what is wrong with it.
    pub fn records(&self) -> BTreeMap<String, Result<Record, String>> {
        self.named("task:").map(|(id, held)| (id.to_owned(), Record::decode(&held.parts[0]))).collect()
    }

    /// The entries of a ready stream: entry and task.
    pub fn ready(&self, level: &str) -> Vec<(String, String)> {
        self.pairs(&format!("ready:{level}")).collect()
    }

    /// Until when the lease of a record's run lasts, ms: by its key, or by the claim itself.
    pub fn lease_until(&self, id: &str, record: &Record) -> Option<u64> {
        let (now, lease_ms) = (self.now(), self.lease_ms());
        let by_claim = if record.begun <= now { record.begun + lease_ms } else { 0 };
        let held = self.string(&format!("lease:{id}")).map(text).unwrap_or_default();
        let fence = format!("{} {}", record.run, record.inc);
        let by_key = held.rsplit_once(' ').filter(|(whose, _)| {
            whose.strip_prefix(&fence).is_some_and(|rest| ["", " stop", " look"].contains(&rest))
        });
        let by_key = by_key.and_then(|(_, until)| until.parse().ok()).unwrap_or_default();
        let owned = matches!(record.state, TaskState::Running | TaskState::Aborting);
        Some(by_claim.max(by_key)).filter(|until| owned && *until > now)
    }
}

fn row(row: Value) -> (Arc<str>, Arc<Held>) {
    let Value::Array(parts) = row else { panic!("a row of the view is {row:?}") };
    let mut parts = parts.into_iter().map(bytes);
    let (suffix, kind) = (parts.next().expect("a name"), parts.next().expect("a type"));
    (text(&suffix).into(), Arc::new(Held { kind: text(&kind), parts: parts.collect() }))
}

fn bytes(value: Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.into_bytes(),
        Value::Int(number) => number.to_string().into_bytes(),
        other => panic!("a part of the view is {other:?}"),
    }
}
