//! Reading tasks: one, many, page by page, and their logs. Plain reads; nothing is changed.

use redis::{FromRedisValue, Pipeline, Value};

use super::records::{self, Records};
use super::{OutputStream, Store};
use crate::body::Body;
use crate::error::{Error, Result};
use crate::keys::{LEVELS, QueueKeys};
use crate::name::{QueueName, TaskId};
use crate::record::{Failure, PhasePast, TaskDetail, TaskRecord};
use crate::state::TaskState;

/// Where the next page begins: opaque text, for the next call only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(String);

impl Cursor {
    /// The text to hand to a person.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes text that [`as_str`](Self::as_str) gave.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The tasks.
    pub tasks: Vec<TaskRecord>,
    /// Those that are listed here and whose records cannot be read.
    pub unreadable: Vec<TaskId>,
    /// Where the next page begins; none at the end.
    pub next: Option<Cursor>,
}

/// One piece of a task's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Its position: pass the last one seen to read on.
    pub position: String,
    /// Which attempt wrote it.
    pub attempt: u64,
    /// Where it begins in the bytes of that attempt's output; a gap was dropped.
    pub offset: u64,
    /// Where it came from.
    pub stream: OutputStream,
    /// The bytes.
    pub text: Vec<u8>,
}

pub(crate) fn get<T: FromRedisValue>(value: Value) -> Result<T> {
    T::from_redis_value(value).map_err(|e| Error::Protocol(e.to_string()))
}

impl Store {
    /// Runs plain commands.
    pub(crate) async fn commands(&self, pipeline: &Pipeline) -> Result<Vec<Value>> {
        self.transport.commands(pipeline).await
    }

    /// A task with all that belongs to it, in one round trip.
    ///
    /// # Errors
    /// Any error of Redis; a record that cannot be read.
    pub async fn detail(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskDetail>> {
        let keys = self.keys(queue);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("GET").arg(keys.task(id));
        pipeline.cmd("GET").arg(keys.body(id));
        pipeline.cmd("GET").arg(keys.result(id));
        pipeline.cmd("GET").arg(keys.note(id));
        pipeline.cmd("LRANGE").arg(keys.errors(id)).arg(0).arg(-1);
        pipeline.cmd("LRANGE").arg(keys.phases(id)).arg(0).arg(-1);
        let mut values = self.commands(&pipeline).await?.into_iter();
        let mut next = || values.next().unwrap_or(Value::Nil);
        let Some(raw) = get::<Option<Vec<u8>>>(next())? else { return Ok(None) };
        let record = TaskRecord::decode(id, &raw)?;
        let (body, output): (Option<Vec<u8>>, Option<Vec<u8>>) = (get(next())?, get(next())?);
        let note: Option<Vec<u8>> = get(next())?;
        let failures: Vec<Vec<u8>> = get(next())?;
        let phases: Vec<Vec<u8>> = get(next())?;
        let body = record.body.clone().or(body).and_then(|b| Body::decode(&b).ok());
        // One of no bytes lies nowhere.
        let output = (record.state == TaskState::Completed)
            .then(|| record.output.clone().or(output).unwrap_or_default());
        Ok(Some(TaskDetail {
            body,
            output,
            failures: failures.iter().filter_map(|f| Failure::decode(f).ok()).collect(),
            phases: phases.iter().filter_map(|phase| PhasePast::decode(phase)).collect(),
            note: note.map(|n| String::from_utf8_lossy(&n).into_owned()),
            record,
        }))
    }

    /// What the last run that left a checkpoint left for the next.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn checkpoint(&self, queue: &QueueName, id: &TaskId) -> Result<Option<Vec<u8>>> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("GET").arg(self.keys(queue).checkpoint(id));
        get(first(self.commands(&pipeline).await?)?)
    }

    /// The bodies of some tasks; none where there is none or it cannot be read.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn bodies(&self, queue: &QueueName, records: &[TaskRecord]) -> Result<Vec<Option<Body>>> {
        let keys = self.keys(queue);
        let apart: Vec<String> =
            records.iter().filter(|r| r.body.is_none()).map(|r| keys.body(&r.id)).collect();
        let mut fetched = Vec::new();
        if !apart.is_empty() {
            let mut pipeline = Pipeline::new();
            pipeline.cmd("MGET").arg(apart);
            fetched = get::<Vec<Option<Vec<u8>>>>(first(self.commands(&pipeline).await?)?)?;
        }
        let mut fetched = fetched.into_iter();
        let mut body_of = |r: &TaskRecord| r.body.clone().or_else(|| fetched.next().flatten());
        Ok(records.iter().map(|r| body_of(r).and_then(|b| Body::decode(&b).ok())).collect())
    }

    /// A page of the tasks in one state: ended ones newest first, others in the order they come up.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a cursor of another list; any error of Redis.
    pub async fn list(
        &self,
        queue: &QueueName,
        state: TaskState,
        cursor: Option<&Cursor>,
        count: usize,
    ) -> Result<Page> {
        let count = count.clamp(1, 1000);
        let keys = self.keys(queue);
        let (ids, next) = match state {
            TaskState::Queued => self.queued_page(&keys, cursor, count).await?,
            _ => self.index_page(&keys, state, cursor, count).await?,
        };
        let Records { tasks, unreadable } =
            records::those(self.listed(queue, ids).await?, |r| r.state == state);
        Ok(Page { tasks, unreadable, next: next.map(Cursor) })
    }

    /// By rank: a list that changes meanwhile may show a task twice or skip it, as any live list may.
    async fn index_page(
        &self,
        keys: &QueueKeys,
        state: TaskState,
        cursor: Option<&Cursor>,
        count: usize,
    ) -> Result<(Vec<TaskId>, Option<String>)> {
        let start: usize = match cursor {
            None => 0,
            Some(c) => c.0.parse().map_err(|_| Error::invalid("cursor", "is not of this list"))?,
        };
        let (key, newest_first) = match state {
            TaskState::Scheduled => (keys.scheduled(), false),
            TaskState::Waiting => (keys.waiting(), false),
            TaskState::Running | TaskState::Aborting => (keys.running(), false),
            ended => (keys.done(ended), true),
        };
        let mut pipeline = Pipeline::new();
        let range = pipeline.cmd("ZRANGE").arg(key).arg(start).arg(start + count - 1);
        if newest_first {
            range.arg("REV");
        }
        let ids: Vec<TaskId> = texts(first(self.commands(&pipeline).await?)?)?;
        let next = (ids.len() == count).then(|| (start + count).to_string());
        Ok((ids, next))
    }

    async fn queued_page(
        &self,
        keys: &QueueKeys,
        cursor: Option<&Cursor>,
        count: usize,
    ) -> Result<(Vec<TaskId>, Option<String>)> {
        let bad = || Error::invalid("cursor", "is not of this list");
        let (mut level, mut after) = match cursor {
            None => (0, String::from("-")),
            Some(c) => {
                let (level, entry) = c.0.split_once(':').ok_or_else(bad)?;
                let level = LEVELS.iter().position(|l| *l == level).ok_or_else(bad)?;
                if !entry.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
                    return Err(bad());
                }
                (level, format!("({entry}"))
            }
        };
        let mut ids = Vec::new();
        while level < LEVELS.len() {
            let mut pipeline = Pipeline::new();
            let left = count - ids.len();
            pipeline.cmd("XRANGE").arg(keys.ready(LEVELS[level])).arg(&after).arg("+").arg("COUNT").arg(left);
            let entries: Vec<(String, Vec<String>)> = get(first(self.commands(&pipeline).await?)?)?;
            let last = entries.last().map(|(entry, _)| entry.clone());
            ids.extend(
                entries.into_iter().filter_map(|(_, fields)| TaskId::new(fields.get(1)?.as_str()).ok()),
            );
            if ids.len() >= count {
                return Ok((ids, last.map(|entry| format!("{}:{entry}", LEVELS[level]))));
            }
            (level, after) = (level + 1, String::from("-"));
        }
        Ok((ids, None))
    }

    /// Up to `count` pieces of a task's log after `position`, from the start without one.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn log(
        &self,
        queue: &QueueName,
        id: &TaskId,
        position: Option<&str>,
        count: usize,
    ) -> Result<Vec<LogEntry>> {
        let from = position.map_or_else(|| "-".to_owned(), |p| format!("({p}"));
        let mut pipeline = Pipeline::new();
        pipeline.cmd("XRANGE").arg(self.keys(queue).log(id)).arg(from).arg("+").arg("COUNT").arg(count);
        let entries: Vec<(String, Vec<Vec<u8>>)> = get(first(self.commands(&pipeline).await?)?)?;
        Ok(entries.into_iter().filter_map(|(position, fields)| log_entry(position, fields)).collect())
    }

    /// Says that someone waits for a task's end, for `ms`: only then its end is published.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn await_end(&self, queue: &QueueName, ids: &[TaskId], ms: u64) -> Result<()> {
        let keys = self.keys(queue);
        let mut pipeline = Pipeline::new();
        // Before the waiters: a script that ends a task looks for these only where somebody waits at all.
        pipeline.cmd("SET").arg(keys.waited()).arg(1).arg("NX").arg("PX").arg(ms.max(1));
        pipeline.cmd("PEXPIRE").arg(keys.waited()).arg(ms.max(1)).arg("GT");
        for id in ids {
            pipeline.cmd("SET").arg(keys.waiter(id)).arg(1).arg("PX").arg(ms.max(1));
        }
        self.commands(&pipeline).await.map(drop)
    }

    /// Redis's time, ms.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn now_ms(&self) -> Result<u64> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("TIME");
        let (s, us): (u64, u64) = get(first(self.commands(&pipeline).await?)?)?;
        Ok(s * 1000 + us / 1000)
    }
}

pub(crate) fn first(values: Vec<Value>) -> Result<Value> {
    values.into_iter().next().ok_or_else(|| Error::Protocol("no answer".into()))
}

fn texts(value: Value) -> Result<Vec<TaskId>> {
    Ok(ids(get(value)?))
}

/// Ids out of an index; what is no id is none of ours.
pub(crate) fn ids(texts: Vec<String>) -> Vec<TaskId> {
    texts.into_iter().filter_map(|id| TaskId::new(id).ok()).collect()
}

fn log_entry(position: String, fields: Vec<Vec<u8>>) -> Option<LogEntry> {
    let [_, attempt, _, offset, _, stream, _, text]: [Vec<u8>; 8] = fields.try_into().ok()?;
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse().ok();
    let stream = if stream == b"err" { OutputStream::Err } else { OutputStream::Out };
    Some(LogEntry { position, attempt: number(&attempt)?, offset: number(&offset)?, stream, text })
}
