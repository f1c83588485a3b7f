//! Tasks without a Rust type: for the command line, other languages and gateways.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::enqueue::Draft;
use crate::error::Result;
use crate::json::{self, Bytes};
use crate::{
    Body, Enqueue, Lane, Origin, Owner, Producer, QueueName, RawOutput, Spec, TaskHandle, TaskId, TaskKind,
    TaskName, When,
};

/// A payload, in one of the forms it may come in.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// Mapped to MessagePack as [`json`](crate::json) says, with bytes as `{"$bytes": BASE64}`.
    Json(Value),
    /// As [`Json`](Self::Json), but `{"$bytes": ..}` is an object like any other.
    PlainJson(Value),
    /// As the handler decodes it.
    MessagePack(Vec<u8>),
}

/// A task as data. See [`RawTask::new`] for the defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct RawTask {
    /// Its queue.
    pub queue: QueueName,
    /// Which handler runs it.
    pub name: TaskName,
    /// Handler or command. Defaults to handler.
    pub kind: TaskKind,
    /// What the handler gets. Defaults to JSON null.
    pub payload: Payload,
    /// The caller's own id. Defaults to a fresh UUIDv7.
    pub id: Option<TaskId>,
    /// When it may first run. Defaults to at once.
    pub when: When,
    /// Bounds, priority and result rule. Defaults to [`Spec::default`].
    pub spec: Spec,
    /// Whom it belongs to. Defaults to nobody.
    pub owner: Option<Owner>,
    /// What it takes its turn in. Defaults to none.
    pub lane: Option<Lane>,
    /// Passed through to the handler. Defaults to none.
    pub headers: BTreeMap<String, String>,
}

impl RawTask {
    /// A task with the defaults.
    #[must_use]
    pub fn new(queue: QueueName, name: TaskName, payload: Payload) -> Self {
        Self {
            queue,
            name,
            kind: TaskKind::default(),
            payload,
            id: None,
            when: When::Now,
            spec: Spec::default(),
            owner: None,
            lane: None,
            headers: BTreeMap::new(),
        }
    }

    fn draft(self) -> Result<Draft> {
        let payload = match self.payload {
            Payload::Json(value) => json::to_msgpack(&value, Bytes::Tagged)?,
            Payload::PlainJson(value) => json::to_msgpack(&value, Bytes::Text)?,
            Payload::MessagePack(bytes) => bytes,
        };
        let mut body = Body {
            name: self.name,
            kind: self.kind,
            payload,
            policy: self.spec.policy,
            priority: self.spec.priority,
            owner: self.owner,
            lane: self.lane,
            bounds: self.spec.bounds,
            headers: self.headers,
            result_rule: self.spec.result_rule,
            origins: self.spec.origins,
        };
        body.mark_origins(Origin::Caller);
        Ok(Draft { queue: self.queue, id: self.id, when: self.when, body })
    }
}

impl Producer {
    /// Prepares a raw task: `.await` enqueues it.
    pub fn enqueue_raw(&self, task: RawTask) -> Enqueue<RawOutput> {
        self.prepared(task.draft())
    }

    /// Enqueues many raw tasks; see [`enqueue_all`](Self::enqueue_all).
    pub async fn enqueue_raw_all(
        &self,
        tasks: impl IntoIterator<Item = RawTask>,
    ) -> Vec<Result<TaskHandle<RawOutput>>> {
        self.enqueue_drafts(tasks.into_iter().map(RawTask::draft).collect()).await
    }
}
