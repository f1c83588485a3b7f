//! Logs of tasks: in pages, and as they come.

use std::time::Duration;

use futures::stream::{self, Stream};
use tokio::time::sleep;

use crate::error::{Error, Result};
use crate::{LogEntry, Producer, QueueName, TaskId};

/// Pieces read at once: at most 64 times 16 KiB as workers write them.
const PIECES: usize = 64;
/// The pause between two looks at a log that has nothing new.
const PAUSE: Duration = Duration::from_millis(150);

impl Producer {
    /// Up to `count` pieces of a task's log after `position`; from the start without one.
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
        self.repeat(|| self.store().log(queue, id, position, count)).await
    }

    /// A task's log from `position` (none = its start) on, as it is written. Ends when the task has ended and
    /// everything was read. Attempts follow each other; a gap in the offsets of one was dropped.
    ///
    /// An error item does not end it while it is retryable: the next poll tries again from the same place. An
    /// unknown task is [`Error::NotFound`].
    pub fn follow_log(
        &self,
        queue: QueueName,
        id: TaskId,
        position: Option<String>,
    ) -> impl Stream<Item = Result<LogEntry>> + Send + use<> {
        let follower = Follower {
            producer: self.clone(),
            queue,
            id,
            position,
            read: Vec::new().into_iter(),
            known: false,
            ended: false,
            over: false,
        };
        stream::unfold(follower, async |mut follower| Some((follower.next().await?, follower)))
    }
}

struct Follower {
    producer: Producer,
    queue: QueueName,
    id: TaskId,
    position: Option<String>,
    read: std::vec::IntoIter<LogEntry>,
    /// The task was seen.
    known: bool,
    /// The task was seen ended, or gone, before the last read began.
    ended: bool,
    over: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Result<LogEntry>> {
        if self.over {
            return None;
        }
        loop {
            if let Some(entry) = self.read.next() {
                self.position = Some(entry.position.clone());
                return Some(Ok(entry));
            }
            match self.advance().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.over = !error.is_retryable();
                    return Some(Err(error));
                }
            }
        }
    }

    /// Reads on. An empty read ends it only if the task had ended before: what its run wrote last is not missed.
    async fn advance(&mut self) -> Result<bool> {
        let entries = self.producer.log(&self.queue, &self.id, self.position.as_deref(), PIECES).await?;
        if !entries.is_empty() {
            self.read = entries.into_iter();
            return Ok(true);
        }
        if self.ended {
            self.over = true;
            return Ok(false);
        }
        match self.producer.record(&self.queue, &self.id).await? {
            None if !self.known && self.position.is_none() => {
                return Err(Error::NotFound { queue: self.queue.clone(), id: self.id.clone() });
            }
            Some(record) if !record.state.is_terminal() => {
                self.known = true;
                sleep(PAUSE).await;
            }
            // One more read, then it is over.
            Some(_) | None => self.ended = true,
        }
        Ok(true)
    }
}
