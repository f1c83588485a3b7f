//! The raw side: plain Redis Streams with a consumer group, from the same client library.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::streams::StreamReadReply;
use redis::{Cmd, Pipeline};
use tokio::task::JoinSet;

use crate::clock::{Clock, Lap};
use crate::error::{Error, Result};
use crate::job::PAYLOAD;
use crate::lab::Lab;

/// Entries of a pipeline, and of a read.
pub(crate) const BATCH: usize = 100;

const GROUP: &str = "g";

/// One stream with its group.
#[derive(Debug)]
pub(crate) struct Raw<'a> {
    lab: &'a Lab<'a>,
    key: String,
    connection: MultiplexedConnection,
}

impl<'a> Raw<'a> {
    pub(crate) async fn open(lab: &'a Lab<'a>, key: &str) -> Result<Self> {
        let mut connection = lab.server.connection().await?;
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(key).arg(GROUP).arg("0").arg("MKSTREAM");
        create.query_async::<()>(&mut connection).await?;
        Ok(Self { lab, key: key.to_owned(), connection })
    }

    /// An entry's value that carries `mark`.
    fn value(mark: u64) -> Vec<u8> {
        let mut value = vec![b'x'; PAYLOAD];
        value[..8].copy_from_slice(&mark.to_le_bytes());
        value
    }

    fn add(&self, value: &[u8]) -> Cmd {
        let mut add = redis::cmd("XADD");
        add.arg(&self.key).arg("*").arg("d").arg(value);
        add
    }

    /// Adds entries in pipelines of a hundred.
    pub(crate) async fn fill(&self, entries: usize) -> Result<()> {
        let value = Self::value(0);
        let mut connection = self.connection.clone();
        let mut left = entries;
        while left > 0 {
            let batch = left.min(BATCH);
            let mut pipeline = Pipeline::with_capacity(batch);
            for _ in 0..batch {
                pipeline.add_command(self.add(&value));
            }
            let ids: Vec<String> = pipeline.query_async(&mut connection).await?;
            if ids.len() != batch {
                return Err(Error::odd("XADD", format!("{} answers to {batch}", ids.len())));
            }
            left -= batch;
        }
        Ok(())
    }

    /// Reads a batch; `block` is how long the read may wait.
    async fn read(
        &self,
        connection: &mut MultiplexedConnection,
        block: Option<Duration>,
    ) -> Result<Vec<(String, u64)>> {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg("c").arg("COUNT").arg(BATCH);
        if let Some(block) = block {
            read.arg("BLOCK").arg(block.as_millis() as u64);
        }
        read.arg("STREAMS").arg(&self.key).arg(">");
        let reply: Option<StreamReadReply> = read.query_async(connection).await?;
        let entries = reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids);
        let mark = |entry: &redis::streams::StreamId| {
            let value: Vec<u8> = entry.get("d").unwrap_or_default();
            value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        Ok(entries.map(|entry| (entry.id.clone(), mark(&entry))).collect())
    }

    /// Acknowledges and deletes each entry of a batch, in one pipeline.
    async fn finish(&self, connection: &mut MultiplexedConnection, ids: &[(String, u64)]) -> Result<()> {
        let mut pipeline = Pipeline::with_capacity(ids.len() * 2);
        for (id, _) in ids {
            pipeline.cmd("XACK").arg(&self.key).arg(GROUP).arg(id).ignore();
            pipeline.cmd("XDEL").arg(&self.key).arg(id).ignore();
        }
        Ok(pipeline.query_async(connection).await?)
    }

    /// Reads and finishes so many entries, which are there or come.
    pub(crate) async fn take(&self, entries: usize, block: Option<Duration>) -> Result<()> {
        let mut connection = match block {
            Some(_) => self.lab.server.blocking_connection().await?,
            None => self.connection.clone(),
        };
        let mut left = entries;
        while left > 0 {
            let batch = self.read(&mut connection, block).await?;
            if batch.is_empty() && block.is_none() {
                return Err(Error::odd("XREADGROUP", format!("nothing there, {left} entries expected")));
            }
            self.finish(&mut connection, &batch).await?;
            left = left.saturating_sub(batch.len());
        }
        Ok(())
    }

    /// [`fill`](Self::fill), measured.
    pub(crate) async fn measured_fill(&self, entries: usize) -> Result<Lap> {
        let clock = Clock::start(self.lab).await?;
        self.fill(entries).await?;
        clock.stop(entries).await
    }

    /// [`take`](Self::take), measured.
    pub(crate) async fn measured_take(&self, entries: usize) -> Result<Lap> {
        let clock = Clock::start(self.lab).await?;
        self.take(entries, None).await?;
        clock.stop(entries).await
    }

    /// Both at once, each on its connection.
    pub(crate) async fn flow(&self, entries: usize) -> Result<Lap> {
        let clock = Clock::start(self.lab).await?;
        let (filled, taken) =
            tokio::join!(self.fill(entries), self.take(entries, Some(Duration::from_secs(1))),);
        filled.and(taken)?;
        clock.stop(entries).await
    }

    /// So many callers that add one entry after the other, all on one connection.
    pub(crate) async fn callers(&self, callers: usize, each: usize) -> Result<Lap> {
        let value = Self::value(0);
        let clock = Clock::start(self.lab).await?;
        // Ended with the value, should the benchmark be interrupted.
        let mut calling = JoinSet::new();
        for _ in 0..callers {
            let (mut connection, add) = (self.connection.clone(), self.add(&value));
            calling.spawn(async move {
                for _ in 0..each {
                    add.query_async::<String>(&mut connection).await?;
                }
                Ok::<(), redis::RedisError>(())
            });
        }
        while let Some(called) = calling.join_next().await {
            called.map_err(|e| Error::odd("a caller", e.to_string()))??;
        }
        clock.stop(callers * each).await
    }

    /// One entry now and then, taken by a consumer that blocks: from before the call to the entry in hand, in ns.
    pub(crate) async fn pickups(&self, entries: usize, every: Duration) -> Result<Vec<u64>> {
        let consuming = async {
            let mut connection = self.lab.server.blocking_connection().await?;
            let mut waits = Vec::with_capacity(entries);
            while waits.len() < entries {
                let batch = self.read(&mut connection, Some(Duration::from_secs(1))).await?;
                let now = crate::clock::nanos_of(self.lab.epoch);
                waits.extend(batch.iter().map(|(_, sent)| now.saturating_sub(*sent)));
                if !batch.is_empty() {
                    self.finish(&mut connection, &batch).await?;
                }
            }
            Ok::<_, Error>(waits)
        };
        let producing = async {
            let mut connection = self.connection.clone();
            let mut pace = tokio::time::interval(every);
            for _ in 0..entries {
                pace.tick().await;
                let value = Self::value(crate::clock::nanos_of(self.lab.epoch));
                self.add(&value).query_async::<String>(&mut connection).await?;
            }
            Ok::<_, Error>(())
        };
        let (waits, produced) = tokio::join!(consuming, producing);
        produced?;
        waits
    }
}
