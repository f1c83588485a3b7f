//! Looking at tasks, and acting on many of them: all of it repeated until the producer's deadline.

use leasehold_common::store::AbortRequest;

use crate::error::{Error, Result};
use crate::{
    AbortAnswer, Body, Cursor, DeleteAnswer, Page, Producer, QueueName, RedisError, RetryAnswer, RetryMode,
    TaskDetail, TaskId, TaskRecord, TaskState, WorkerInfo,
};

/// How often a retry or delete looks again when the task keeps changing under it.
const LOOKS: usize = 5;

impl Producer {
    /// The queues there are, by name.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn queues(&self) -> Result<Vec<QueueName>> {
        self.repeat(|| self.store().queues()).await
    }

    /// The workers that live, by name.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>> {
        self.repeat(|| self.store().workers()).await
    }

    /// Redis's time, ms since 1970.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn now_ms(&self) -> Result<u64> {
        self.repeat(|| self.store().now_ms()).await
    }

    /// A page of the tasks in one state, `count` (1 to 1,000) looked at: ended ones newest first, others in the
    /// order they come up. A page may hold fewer, even none, and still have a next one; it names those that it lists and
    /// that cannot be read.
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
        self.repeat(|| self.store().list(queue, state, cursor, count)).await
    }

    /// The record of a task; none for an unknown id.
    ///
    /// # Errors
    /// Any error of Redis; a record that cannot be read.
    pub async fn record(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskRecord>> {
        self.repeat(|| self.store().record(queue, id)).await
    }

    /// The records of some tasks, each on its own: none for an unknown id, an error for a record that cannot be read.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn records(
        &self,
        queue: &QueueName,
        ids: &[TaskId],
    ) -> Result<Vec<Option<Result<TaskRecord, RedisError>>>> {
        self.repeat(|| self.store().records(queue, ids)).await
    }

    /// A task with all that belongs to it; none for an unknown id.
    ///
    /// # Errors
    /// Any error of Redis; a record that cannot be read.
    pub async fn detail(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskDetail>> {
        self.repeat(|| self.store().detail(queue, id)).await
    }

    /// The bodies of some tasks; none where there is none or it cannot be read.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn bodies(&self, queue: &QueueName, records: &[TaskRecord]) -> Result<Vec<Option<Body>>> {
        self.repeat(|| self.store().bodies(queue, records)).await
    }

    /// Where an id is: every queue that has a task of it. Costs one read per queue.
    ///
    /// # Errors
    /// Any error of Redis; a record that cannot be read.
    pub async fn find(&self, id: &TaskId) -> Result<Vec<(QueueName, TaskRecord)>> {
        let mut found = Vec::new();
        for queue in self.queues().await? {
            if let Some(record) = self.record(&queue, id).await? {
                found.push((queue, record));
            }
        }
        Ok(found)
    }

    /// Aborts tasks of a queue, each on its own: an answer for each, in order.
    ///
    /// # Errors
    /// Any error of Redis; some may be aborted then, and the same requests again only answer for them.
    pub async fn abort_many(&self, queue: &QueueName, requests: &[AbortRequest]) -> Result<Vec<AbortAnswer>> {
        self.repeat(|| self.store().abort(queue, requests)).await
    }

    /// Runs ended tasks again, each on its own: an answer for each, in order.
    ///
    /// # Errors
    /// Any error of Redis; some may be queued again then.
    pub async fn retry_many(&self, queue: &QueueName, ids: &[TaskId]) -> Result<Vec<RetryAnswer>> {
        self.retry_many_with(queue, ids, RetryMode::Keep).await
    }

    /// The same; `mode` says what becomes of their checkpoints.
    ///
    /// # Errors
    /// Any error of Redis; some may be queued again then.
    pub async fn retry_many_with(
        &self,
        queue: &QueueName,
        ids: &[TaskId],
        mode: RetryMode,
    ) -> Result<Vec<RetryAnswer>> {
        let mut answers = vec![RetryAnswer::NotFound; ids.len()];
        let mut open: Vec<usize> = (0..ids.len()).collect();
        for _ in 0..LOOKS {
            let ends = self.ends(queue, ids, &open).await?;
            let named: Vec<(TaskId, u64)> = ends.iter().map(|(_, end)| end.clone()).collect();
            let given = self.repeat(|| self.store().retry_with(queue, &named, mode)).await?;
            for ((at, _), answer) in ends.iter().zip(given) {
                answers[*at] = answer;
            }
            open.retain(|at| matches!(answers[*at], RetryAnswer::Changed(_)));
            if open.is_empty() {
                break;
            }
        }
        Ok(answers)
    }

    /// Removes ended tasks, each on its own: an answer for each, in order.
    ///
    /// # Errors
    /// Any error of Redis; some may be removed then.
    pub async fn delete_many(&self, queue: &QueueName, ids: &[TaskId]) -> Result<Vec<DeleteAnswer>> {
        let mut answers = vec![DeleteAnswer::NotFound; ids.len()];
        let mut open: Vec<usize> = (0..ids.len()).collect();
        for _ in 0..LOOKS {
            let ends = self.ends(queue, ids, &open).await?;
            let named: Vec<(TaskId, u64)> = ends.iter().map(|(_, end)| end.clone()).collect();
            let given = self.repeat(|| self.store().delete(queue, &named)).await?;
            for ((at, _), answer) in ends.iter().zip(given) {
                answers[*at] = answer;
            }
            open.retain(|at| matches!(answers[*at], DeleteAnswer::Changed(_)));
            if open.is_empty() {
                break;
            }
        }
        Ok(answers)
    }

    /// The revisions of those tasks that there are, with their places in `ids`; 0 where only the script can say what is
    /// there instead of a record.
    async fn ends(
        &self,
        queue: &QueueName,
        ids: &[TaskId],
        open: &[usize],
    ) -> Result<Vec<(usize, (TaskId, u64))>> {
        let wanted: Vec<TaskId> = open.iter().map(|at| ids[*at].clone()).collect();
        let records = self.records(queue, &wanted).await?;
        let rev = |record: Result<TaskRecord, RedisError>| record.map_or(0, |record| record.rev);
        let ends = open.iter().zip(wanted).zip(records);
        Ok(ends.filter_map(|((at, id), record)| Some((*at, (id, rev(record?))))).collect())
    }

    /// The only answer of a call for one task.
    pub(crate) fn one<A>(answers: Vec<A>) -> Result<A> {
        answers.into_iter().next().ok_or(Error::Closed)
    }
}
