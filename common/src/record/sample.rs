//! A record without Redis.

use std::collections::BTreeMap;

use super::TaskRecord;
use crate::name::TaskId;
use crate::policy::{Policy, Priority};
use crate::state::TaskState;

impl TaskRecord {
    /// The record of a task in this state of which nothing else is known, enqueued in 1970: for the tests of those who
    /// tell of records. What Redis holds is only ever read.
    #[doc(hidden)]
    #[must_use]
    pub fn sample(id: TaskId, state: TaskState) -> Self {
        Self {
            id,
            state,
            rev: 1,
            attempt: 0,
            failures: 0,
            reclaims: 0,
            priority: Priority::Normal,
            policy: Policy::default(),
            entry: (state == TaskState::Queued).then(|| "normal:0-0".to_owned()),
            run: None,
            incarnation: None,
            worker: None,
            token: None,
            enqueued_ms: 0,
            due_ms: None,
            started_ms: None,
            ended_ms: None,
            stop: None,
            failure_kind: None,
            progress: None,
            suspected: false,
            lane: None,
            owner: None,
            waiting_ms: None,
            deadline_ms: None,
            last_event_ms: None,
            silent_since_ms: None,
            checkpoint_bytes: None,
            budgets: BTreeMap::new(),
            phase: None,
            unkillable: None,
            reconciled: None,
            unknown_since_ms: None,
            missed_at: None,
            body: None,
            output: None,
        }
    }
}
