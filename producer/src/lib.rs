//! The producer's side of Leasehold: enqueue, inspect, wait for, abort and retry tasks.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use leasehold_producer::{Producer, Task};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Resize {
//!     url: String,
//!     width: u32,
//! }
//!
//! #[derive(Debug, Serialize, Deserialize)]
//! struct Resized {
//!     bytes: u64,
//! }
//!
//! impl Task for Resize {
//!     const NAME: &'static str = "resize";
//!     type Output = Resized;
//! }
//!
//! # async fn example() -> Result<(), leasehold_producer::Error> {
//! let client = Producer::connect("redis://127.0.0.1:6379").await?;
//! let handle = client
//!     .enqueue(Resize { url: "https://example.org/a.png".into(), width: 640 })
//!     .queue("media")
//!     .run_timeout(Duration::from_secs(300))
//!     .await?;
//! let resized = handle.wait().await?;
//! println!("{} bytes", resized.bytes);
//! handle.abort("user left").await?;
//! # Ok(())
//! # }
//! ```
//!
//! Every call is repeated while Redis is away, up to the producer's deadline: ids make that safe. Afterwards
//! [`Error::outcome_unknown`] says whether it may have happened.
//!
//! What is where: `producer` connects; `enqueue` and `raw` build tasks; `batcher` sends what arrives together;
//! `handle` is a task; `wait` serves all waiters over one connection; `look`, `groups`, `status` and
//! `log` read; [`explain`] says why a task is where it is; `filter` acts on many;
//! [`json`] maps payloads; `repeat` tries again. This crate runs no handlers, handles no signals and prints
//! nothing; only the store underneath knows Redis.

mod batcher;
mod enqueue;
mod error;
pub mod explain;
mod filter;
mod groups;
mod handle;
pub mod json;
mod log;
mod look;
mod producer;
mod raw;
mod recording;
mod repeat;
mod standing;
mod status;
mod wait;

pub use enqueue::Enqueue;
pub use error::{Error, Result};
pub use explain::Explanation;
pub use filter::{AbortOrder, AbortTally, Matches, TaskFilter};
pub use groups::{Activity, GroupStatus, OwnerView};
pub use handle::{Output, RawOutput, TaskHandle};
pub use producer::{DEFAULT_DEADLINE, Producer, ProducerBuilder};
pub use raw::{Payload, RawTask};
pub use recording::Recording;
pub use standing::LOOKED_THROUGH;
pub use status::QueueStatus;
pub use wait::Ended;

pub use leasehold_common::Error as RedisError;
pub use leasehold_common::body::{Body, EXEC_NAME, ExecPayload, TaskKind};
pub use leasehold_common::bounds::{Bounds, Deadline};
pub use leasehold_common::limits::Limits;
pub use leasehold_common::name::{
    BudgetName, Incarnation, Lane, Namespace, Owner, PhaseName, QueueName, RunId, TaskId, TaskName,
    WorkerName,
};
pub use leasehold_common::origin::{Bound, Origin, Origins};
pub use leasehold_common::policy::{Backoff, OnLeaseExpired, Policy, Priority};
pub use leasehold_common::record::{
    BudgetUse, Failure, FailureDetail, FailureKind, PhaseNow, PhasePast, Reconciled, Stop, StopCause,
    TaskDetail, TaskRecord,
};
pub use leasehold_common::result_rule::ResultRule;
pub use leasehold_common::state::TaskState;
pub use leasehold_common::store::{
    AbortAnswer, AbortRequest, Cursor, DeleteAnswer, Enqueued, Gathering, KnownState, LANE_ENDS, LaneRow,
    LogEntry, MOST_AT_A_TIME, OutputStream, OwnerTally, Page, QueueSettings, Records, RetryAnswer, RetryMode,
    Store, When, WorkerInfo,
};
pub use leasehold_common::task::{DEFAULT_QUEUE, Spec, Task};
pub use leasehold_common::transport::{Accepted, ConnectOptions};
