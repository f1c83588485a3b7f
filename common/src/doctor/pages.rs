//! Reading page by page: no call takes Redis longer than a page of about 100.

use redis::{Pipeline, Value};

use super::key::Key;
use crate::error::Result;
use crate::name::TaskId;
use crate::store::Store;
use crate::store::{first, get};

/// About so many rows a call, and at most so many ids an inspection.
pub(super) const PAGE: usize = 100;

/// A page of a scan: where the next begins (0 = at the end), and what it held.
pub(super) type Scanned<T> = (u64, Vec<T>);

/// An entry of a ready stream: its id, and the task it names.
pub(super) type Entry = (String, Option<Vec<u8>>);

async fn one<T: redis::FromRedisValue>(store: &Store, pipeline: &Pipeline) -> Result<T> {
    get(first(store.commands(pipeline).await?)?)
}

/// A page of the keys of the namespace. The namespace is a checked name: nothing in it is a pattern.
pub(super) async fn keys(store: &Store, cursor: u64) -> Result<Scanned<Vec<u8>>> {
    let mut pipeline = Pipeline::new();
    let pattern = format!("{}:*", store.namespace());
    pipeline.cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(PAGE);
    one(store, &pipeline).await
}

/// A page of the members of an index.
pub(super) async fn members(store: &Store, key: &str, cursor: u64) -> Result<Scanned<Vec<u8>>> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("ZSCAN").arg(key).arg(cursor).arg("COUNT").arg(PAGE);
    let (next, rows): Scanned<Vec<u8>> = one(store, &pipeline).await?;
    Ok((next, rows.into_iter().step_by(2).collect()))
}

/// Those of some ids that an index has.
pub(super) async fn those_in(store: &Store, key: &str, ids: &[TaskId]) -> Result<Vec<TaskId>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipeline = Pipeline::new();
    pipeline.cmd("ZMSCORE").arg(key).arg(ids.iter().map(TaskId::as_str).collect::<Vec<_>>());
    let scores: Vec<Option<f64>> = one(store, &pipeline).await?;
    Ok(ids.iter().zip(scores).filter(|(_, score)| score.is_some()).map(|(id, _)| id.clone()).collect())
}

/// A page of a ready stream after an entry (`-` from the start).
pub(super) async fn entries(store: &Store, key: &str, after: &str) -> Result<Vec<Entry>> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("XRANGE").arg(key).arg(after).arg("+").arg("COUNT").arg(PAGE);
    let rows: Vec<(String, Vec<Vec<u8>>)> = one(store, &pipeline).await?;
    let names = |fields: Vec<Vec<u8>>| fields.into_iter().nth(1);
    Ok(rows.into_iter().map(|(entry, fields)| (entry, names(fields))).collect())
}

/// Is the entry still there?
pub(super) async fn has_entry(store: &Store, key: &str, entry: &str) -> Result<bool> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("XRANGE").arg(key).arg(entry).arg(entry);
    Ok(!one::<Vec<Value>>(store, &pipeline).await?.is_empty())
}

/// What a key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// Its Redis type; `none` when it is gone.
    pub(super) redis_type: String,
    /// ms; -1 = for ever.
    pub(super) ttl: i64,
}

/// Type and TTL of keys.
pub(super) async fn facts(store: &Store, keys: &[Key]) -> Result<Vec<Facts>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipeline = Pipeline::new();
    for key in keys {
        pipeline.cmd("TYPE").arg(&key.name);
        pipeline.cmd("PTTL").arg(&key.name);
    }
    let mut values = store.commands(&pipeline).await?.into_iter();
    let mut all = Vec::with_capacity(keys.len());
    while let (Some(kind), Some(ttl)) = (values.next(), values.next()) {
        all.push(Facts { redis_type: get(kind)?, ttl: get(ttl)? });
    }
    Ok(all)
}

/// Of each key: the elements of a list, the bytes in memory of any other.
pub(super) async fn sizes(store: &Store, keys: &[&Key]) -> Result<Vec<u64>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipeline = Pipeline::new();
    for key in keys {
        match key.kind.redis_type {
            "list" => pipeline.cmd("LLEN").arg(&key.name),
            _ => pipeline.cmd("MEMORY").arg("USAGE").arg(&key.name),
        };
    }
    let values = store.commands(&pipeline).await?;
    values.into_iter().map(|v| Ok(get::<Option<u64>>(v)?.unwrap_or_default())).collect()
}

/// Bytes of output in a log as it stands now; what is appended meanwhile is not counted.
pub(super) async fn log_bytes(store: &Store, key: &str) -> Result<u64> {
    let mut newest = Pipeline::new();
    newest.cmd("XREVRANGE").arg(key).arg("+").arg("-").arg("COUNT").arg(1);
    let last: Vec<(String, Vec<Vec<u8>>)> = one(store, &newest).await?;
    let Some((last, _)) = last.into_iter().next() else { return Ok(0) };
    let (mut after, mut bytes) = ("-".to_owned(), 0);
    loop {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("XRANGE").arg(key).arg(&after).arg(&last).arg("COUNT").arg(PAGE / 10);
        let rows: Vec<(String, Vec<Vec<u8>>)> = one(store, &pipeline).await?;
        let Some((entry, _)) = rows.last() else { return Ok(bytes) };
        after = format!("({entry}");
        bytes += rows.iter().filter_map(|(_, fields)| fields.last()).map(|t| t.len() as u64).sum::<u64>();
    }
}
