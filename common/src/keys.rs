//! Every Redis key and channel, with its type. No other Rust file spells one.

use sha1::{Digest as _, Sha1};

use crate::name::{Incarnation, Lane, Namespace, Owner, QueueName, TaskId, WorkerName};
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

    /// String: a task's record.
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

    /// Zset since when, ms: waiting tasks.
    #[must_use]
    pub fn waiting(&self) -> String {
        self.key("waiting")
    }

    /// Zset by deadline, ms: tasks that have one and have not ended.
    #[must_use]
    pub fn deadlines(&self) -> String {
        self.key("deadlines")
    }

    /// Hash: limit and text of each lane.
    #[must_use]
    pub fn lanes(&self) -> String {
        self.key("lanes")
    }

    /// Zset by place: the members of a lane.
    #[must_use]
    pub fn lane(&self, lane: &Lane) -> String {
        self.key(&format!("lane:{}", hash_of(lane.as_str())))
    }

    /// Zset by end time, ms: the last tasks of a lane that ended.
    #[must_use]
    pub fn lane_ends(&self, lane: &Lane) -> String {
        self.key(&format!("lane-ends:{}", hash_of(lane.as_str())))
    }

    /// Zset: the tasks of an owner, those that run first, then those that live, then those that ended.
    #[must_use]
    pub fn owner(&self, owner: &Owner) -> String {
        self.key(&format!("owner:{}", hash_of(owner.as_str())))
    }

    /// List: the phases of a task's runs that are over.
    #[must_use]
    pub fn phases(&self, id: &TaskId) -> String {
        self.key(&format!("phases:{id}"))
    }

    /// String: what a run left for the next one.
    #[must_use]
    pub fn checkpoint(&self, id: &TaskId) -> String {
        self.key(&format!("checkpoint:{id}"))
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

    /// String with a TTL: someone waits for the end of a task of this queue.
    #[must_use]
    pub fn waited(&self) -> String {
        self.key("waited")
    }

    /// Hash: counters.
    #[must_use]
    pub fn totals(&self) -> String {
        self.key("totals")
    }

    /// String with a TTL: the number and ids of a worker's last claim.
    #[must_use]
    pub fn claim(&self, incarnation: &Incarnation) -> String {
        self.key(&format!("claim:{incarnation}"))
    }

    /// String with a TTL: when a heartbeat key was last written for a worker's runs.
    #[must_use]
    pub fn beat(&self, incarnation: &Incarnation) -> String {
        self.key(&format!("beat:{incarnation}"))
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

/// What stands for a text from outside in a key: the first 128 bits of its SHA-1, as scripts can take it, in hex.
fn hash_of(text: &str) -> String {
    let mut hash = hex(&Sha1::digest(text));
    hash.truncate(HASH_DIGITS);
    hash
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Digits of what stands for a text.
pub const HASH_DIGITS: usize = 32;

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

/// String with a TTL: the incarnation that holds a worker's name.
#[must_use]
pub fn name(namespace: &Namespace, name: &WorkerName) -> String {
    format!("{namespace}:name:{name}")
}

/// A kind of key: what stands after the queue's prefix, up to the id if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyKind {
    /// The name.
    pub part: &'static str,
    /// The Redis type.
    pub redis_type: &'static str,
    /// It always has a TTL.
    pub expires: bool,
}

const fn kind(part: &'static str, redis_type: &'static str, expires: bool) -> KeyKind {
    KeyKind { part, redis_type, expires }
}

/// Keys that belong to one task: `<part>:<id>`.
pub const TASK_KINDS: [KeyKind; 10] = [
    kind("task", "string", false),
    kind("body", "string", false),
    kind("lease", "string", true),
    kind("result", "string", false),
    kind("errors", "list", false),
    kind("log", "stream", false),
    kind("note", "string", false),
    kind("phases", "list", false),
    kind("checkpoint", "string", false),
    kind("waiter", "string", true),
];

/// Keys that a queue has once.
pub const QUEUE_KINDS: [KeyKind; 14] = [
    kind("config", "hash", false),
    kind("running", "zset", false),
    kind("scheduled", "zset", false),
    kind("waiting", "zset", false),
    kind("deadlines", "zset", false),
    kind("lanes", "hash", false),
    kind("gone", "zset", false),
    kind("events", "stream", false),
    kind("wake", "zset", false),
    kind("watch", "string", true),
    kind("waited", "string", true),
    kind("pulse", "hash", false),
    kind("totals", "hash", false),
    kind("token", "string", false),
];

/// Keys that stand for a text: `<part>:<hash>`.
pub const TEXT_KINDS: [KeyKind; 3] =
    [kind("lane", "zset", false), kind("lane-ends", "zset", false), kind("owner", "zset", false)];
/// `ready:<level>`.
pub const READY_KIND: KeyKind = kind("ready", "stream", false);
/// `done:<state>`.
pub const DONE_KIND: KeyKind = kind("done", "zset", false);
/// `claim:<incarnation>`.
pub const CLAIM_KIND: KeyKind = kind("claim", "string", true);
/// `beat:<incarnation>`.
pub const BEAT_KIND: KeyKind = kind("beat", "string", true);
/// `<namespace>:queues`.
pub const QUEUES_KIND: KeyKind = kind("queues", "set", false);
/// `<namespace>:workers`.
pub const WORKERS_KIND: KeyKind = kind("workers", "zset", false);
/// `<namespace>:worker:<incarnation>`.
pub const WORKER_KIND: KeyKind = kind("worker", "hash", true);
/// `<namespace>:name:<name>`.
pub const NAME_KIND: KeyKind = kind("name", "string", true);
