//! Records of many tasks, each read on its own: one that cannot be read never hides the others.

use redis::Pipeline;

use super::Store;
use super::read::{first, get};
use crate::error::{Error, Result};
use crate::keys::QueueKeys;
use crate::name::{QueueName, TaskId};
use crate::record::TaskRecord;

/// Tasks of a list as they were found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Records {
    /// Those that can be read, in the order of the list.
    pub tasks: Vec<TaskRecord>,
    /// Those that the list names and whose records cannot be read: `leasehold doctor` tells more.
    pub unreadable: Vec<TaskId>,
}

impl Records {
    /// Is there nothing, readable or not?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.unreadable.is_empty()
    }

    /// Adds those of another list behind these.
    pub fn append(&mut self, other: Self) {
        self.tasks.extend(other.tasks);
        self.unreadable.extend(other.unreadable);
    }
}

/// What a list names, in its order: a record, or an error that is only this one's. None of an id that is unknown by now.
pub(super) type Listed = Vec<(TaskId, Option<Result<TaskRecord>>)>;

/// Those of a list that `keep` wants; what cannot be read stays in sight.
pub(super) fn those(listed: Listed, keep: impl Fn(&TaskRecord) -> bool) -> Records {
    let mut records = Records::default();
    for (id, found) in listed {
        match found {
            Some(Ok(record)) if keep(&record) => records.tasks.push(record),
            Some(Err(_)) => records.unreadable.push(id),
            Some(Ok(_)) | None => {}
        }
    }
    records
}

impl Store {
    /// The records of some tasks, each on its own: none for an id that is unknown, an error for a record that cannot be
    /// read.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn records(
        &self,
        queue: &QueueName,
        ids: &[TaskId],
    ) -> Result<Vec<Option<Result<TaskRecord>>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.keys(queue);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("MGET").arg(ids.iter().map(|id| keys.task(id)).collect::<Vec<_>>());
        let values: Vec<Option<Vec<u8>>> = get(first(self.commands(&pipeline).await?)?)?;
        Ok(ids.iter().zip(values).map(|(id, raw)| raw.map(|raw| TaskRecord::decode(id, &raw))).collect())
    }

    /// The record of one task.
    ///
    /// # Errors
    /// Any error of Redis; a record that cannot be read.
    pub async fn record(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskRecord>> {
        self.records(queue, std::slice::from_ref(id)).await?.pop().flatten().transpose()
    }

    /// The records that a list names. MGET tells none of a key of another type, which a list names as well as any.
    pub(super) async fn listed(&self, queue: &QueueName, ids: Vec<TaskId>) -> Result<Listed> {
        let mut found = self.records(queue, &ids).await?;
        let missing: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_none()).collect();
        if !missing.is_empty() {
            let keys = self.keys(queue);
            let foreign = self.foreign(&keys, missing.iter().map(|at| &ids[*at])).await?;
            for (at, key) in missing.into_iter().zip(foreign) {
                found[at] = key.map(|key| Err(Error::ForeignData { key }));
            }
        }
        Ok(ids.into_iter().zip(found).collect())
    }

    /// Of each task, the key of its record if something of another type lies there.
    async fn foreign(
        &self,
        keys: &QueueKeys,
        ids: impl Iterator<Item = &TaskId>,
    ) -> Result<Vec<Option<String>>> {
        let names: Vec<String> = ids.map(|id| keys.task(id)).collect();
        let mut pipeline = Pipeline::new();
        for name in &names {
            pipeline.cmd("TYPE").arg(name);
        }
        let types = self.commands(&pipeline).await?;
        names
            .into_iter()
            .zip(types)
            .map(|(name, value)| {
                let kind: String = get(value)?;
                Ok(Some(name).filter(|_| kind != "none" && kind != "string"))
            })
            .collect()
    }
}
