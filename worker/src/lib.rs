//! Workers: they claim tasks under leases and run them.
//!
//! - [`Worker`], [`Config`]: what a worker process is made of
//! - [`Context`], [`TaskError`]: what a handler sees and says
//! - [`exec`]: commands, their start, output and end
//! - [`testing`]: trying a handler without Redis
//! - [`guard`]: the process that ends or stops commands when their worker cannot
//!
//! Inside: `bounds` says when a run has had its time, `voice` and `spending` carry what it says and is answered,
//! `queue_loop` claims and finishes, `executor` sees one run through, `heartbeat` renews leases from a thread of its own and
//! freezes what nobody can answer for, `run` is what these share of one run; `names` sees that no two workers share a name,
//! `recovery` clears up after a dead one of the same name.
//!
//! This crate never enqueues, sweeps nobody but its own dead, and names no key and no script.

pub mod exec;
pub mod guard;
pub mod testing;

mod bell;
mod bounds;
mod cleanup;
mod commands;
mod config;
mod context;
mod crew;
mod error;
mod executor;
mod handler;
mod heartbeat;
mod judge;
mod listener;
mod mark;
mod names;
mod panics;
mod queue_loop;
mod recovery;
mod redact;
mod registry;
mod run;
mod runs;
mod slots;
mod spending;
mod telling;
mod troubled;
mod voice;
mod worker;

pub use config::{Config, MOST_SLOTS};
pub use context::Context;
pub use error::{Error, TaskError};
pub use exec::ExecPolicy;
pub use leasehold_common::bounds::{Bounds, Deadline};
pub use leasehold_common::limits::Limits;
pub use leasehold_common::name::{
    BudgetName, Incarnation, Lane, Namespace, Owner, QueueName, TaskId, TaskName, WorkerName,
};
pub use leasehold_common::origin::{Bound, Origin, Origins};
pub use leasehold_common::policy::{Backoff, OnLeaseExpired, Policy, Priority};
pub use leasehold_common::record::{FailureKind, StopCause};
pub use leasehold_common::result_rule::ResultRule;
pub use leasehold_common::store::QueueSettings;
pub use leasehold_common::store::RetryAdvice;
pub use leasehold_common::task::{Spec, Task};
pub use leasehold_common::transport::ConnectOptions;
pub use voice::RunError;
pub use worker::Worker;
