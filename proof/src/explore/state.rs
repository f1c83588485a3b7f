//! One state: the keys, what the clients believe, what the model says, and what a replica has.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::mind::Mind;
use super::plan::Plan;
use crate::view::{Record, View, task_no};
use crate::words::{Oracle, TaskNo};

/// A model that can be copied.
pub trait Shadow: Oracle + Send + Sync {
    /// A copy.
    fn copy(&self) -> Box<dyn Shadow>;
}

impl<O: Oracle + Clone + Send + Sync + 'static> Shadow for O {
    fn copy(&self) -> Box<dyn Shadow> {
        Box::new(self.clone())
    }
}

/// What a replica has when it hears nothing any longer.
pub struct Mark {
    /// The keys.
    pub view: View,
    /// What the model says of them.
    pub shadow: Option<Box<dyn Shadow>>,
    /// Steps since then.
    pub age: u8,
}

/// One state.
pub struct State {
    /// The keys.
    pub view: View,
    /// What the clients believe.
    pub mind: Mind,
    /// What the model says, where there is one.
    pub shadow: Option<Box<dyn Shadow>>,
    /// What a replica has, if it hears nothing any longer.
    pub mark: Option<Arc<Mark>>,
}

/// Records by the place of their task in the world.
pub type Records = BTreeMap<TaskNo, Record>;

/// The records of a view.
///
/// # Errors
/// What is wrong with one that cannot be read.
pub fn records(view: &View) -> Result<Records, String> {
    let read = |(id, record): (String, Result<Record, String>)| match record {
        Ok(record) => Ok((task_no(&id), record)),
        Err(problem) => Err(format!("the record of {id}: {problem}")),
    };
    view.records().into_iter().map(read).collect()
}

impl State {
    /// Of each task, its `rev`, and whether it has ended.
    pub fn ends(plan: &Plan, records: &Records) -> Vec<Option<(u64, bool)>> {
        let end = |no| records.get(&no).map(|record: &Record| (record.rev, record.state.is_terminal()));
        (0..plan.world.tasks.len()).map(end).collect()
    }

    /// How old the mark of the replica is.
    pub fn mark_age(&self) -> Option<u8> {
        self.mark.as_ref().map(|mark| mark.age)
    }
}
