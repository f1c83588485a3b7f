//! Every Redis key and channel, with its type. No other Rust file spells one.

use crate::name::{Incarnation, Namespace, QueueName, TaskId};
use crate::state::TaskState;

/// Levels of ready streams in reading order. `again` is for reclaimed and released tasks.
pub const LEVELS: [&str; 5] = ["urgent", "again", "high", "normal", "low"];

/// The keys of one queue. All hash to one Redis Cluster slot by the tag `{queue}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueKeys {
    prefix: String,
}

impl QueueKeys {
    /// Keys of `queue` under `namespace`.
    #[must_use]
    pub fn new(namespace: &Namespace, queue: &QueueName) -> Self {
        Self { prefix: format!("{namespace}:{{{queue}}}:") }
    }

    fn key(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.prefix)
    }

    /// What all keys of the queue begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Hash: format version, lease, retention. Always there; the first key of every script.
    #[must_use]
    pub fn config(&self) -> String {
        self.key("config")
    }

    /// Never there; the second key of every script.
    #[must_use]
    pub fn never(&self) -> String {
        self.key("never")
    }

    /// Stream: one entry per queued task of the level.
    #[must_use]
    pub fn ready(&self, level: &str) -> String {
        self.key(&format!("ready:{level}"))
    }

    /// String: a task's record, a MessagePack map.
    #[must_use]
    pub fn task(&self, id: &TaskId) -> String {
        self.key(&format!("task:{id}"))
    }

    /// String: a body too large for the record.
    #[must_use]
    pub fn body(&self, id: &TaskId) -> String {
        self.key(&format!("body:{id}"))
    }

    /// String with a TTL: the heartbeat key.
    #[must_use]
    pub fn lease(&self, id: &TaskId) -> String {
        self.key(&format!("lease:{id}"))
    }

    /// String: a result too large for the record.
    #[must_use]
    pub fn result(&self, id: &TaskId) -> String {
        self.key(&format!("result:{id}"))
    }

    /// List: the last failures, MessagePack maps.
    #[must_use]
    pub fn errors(&self, id: &TaskId) -> String {
        self.key(&format!("errors:{id}"))
    }

    /// Stream: output of commands, log of handlers.
    #[must_use]
    pub fn log(&self, id: &TaskId) -> String {
        self.key(&format!("log:{id}"))
    }

    /// String: the last progress message.
    #[must_use]
    pub fn note(&self, id: &TaskId) -> String {
        self.key(&format!("note:{id}"))
    }

    /// String with a TTL: someone waits for the task's end.
    #[must_use]
    pub fn waiter(&self, id: &TaskId) -> String {
        self.key(&format!("waiter:{id}"))
    }

    /// Zset by next look, ms: running and aborting tasks.
    #[must_use]
    pub fn running(&self) -> String {
        self.key("running")
    }

    /// Zset by due time, ms.
    #[must_use]
    pub fn scheduled(&self) -> String {
        self.key("scheduled")
    }

    /// Zset by end time, ms: ended tasks of a state.
    #[must_use]
    pub fn done(&self, state: TaskState) -> String {
        self.key(&format!("done:{state}"))
    }

    /// Zset by time, ms: ids removed in the last minute.
    #[must_use]
    pub fn gone(&self) -> String {
        self.key("gone")
    }

    /// Stream: lifecycle events.
    #[must_use]
    pub fn events(&self) -> String {
        self.key("events")
    }

    /// Zset: the wake marker that idle workers block on.
    #[must_use]
    pub fn wake(&self) -> String {
        self.key("wake")
    }

    /// Hash: last sweep, last gap, watch clock.
    #[must_use]
    pub fn pulse(&self) -> String {
        self.key("pulse")
    }

    /// Hash: counters.
    #[must_use]
    pub fn totals(&self) -> String {
        self.key("totals")
    }

    /// String with a TTL: the number and runs of a worker's last claim.
    #[must_use]
    pub fn claim(&self, incarnation: &Incarnation) -> String {
        self.key(&format!("claim:{incarnation}"))
    }

    /// Channel: `<id> <state>` of tasks that end while someone waits.
    #[must_use]
    pub fn ended_channel(&self) -> String {
        self.key("ended")
    }

    /// Channel: `<id> <run>` of runs that are asked to stop.
    #[must_use]
    pub fn stops_channel(&self) -> String {
        self.key("stops")
    }

    /// What follows the prefix in a key of this queue.
    #[must_use]
    pub fn suffix_of<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&self.prefix)
    }
}

/// Set: the queues there are.
#[must_use]
pub fn queues(namespace: &Namespace) -> String {
    format!("{namespace}:queues")
}

/// Zset by last sign of life, ms: worker incarnations.
#[must_use]
pub fn workers(namespace: &Namespace) -> String {
    format!("{namespace}:workers")
}

/// Hash with a TTL: one worker incarnation.
#[must_use]
pub fn worker(namespace: &Namespace, incarnation: &Incarnation) -> String {
    format!("{namespace}:worker:{incarnation}")
}

/// First parts of keys that belong to one task: `<part>:<id>`.
pub const TASK_PARTS: [&str; 8] = ["task", "body", "lease", "result", "errors", "log", "note", "waiter"];

/// Keys of a queue that are there once, but for `ready:<level>`, `done:<state>` and `claim:<incarnation>`.
pub const QUEUE_PARTS: [&str; 10] =
    ["config", "running", "scheduled", "gone", "events", "wake", "watch", "pulse", "totals", "token"];
