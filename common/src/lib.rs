//! The Leasehold protocol: what producers, workers, reapers and the console share.
//!
//! Nothing here reads arguments, handles signals, runs handlers or prints. Only this crate talks to Redis, and
//! only here are keys and scripts named.
//!
//! - [`name`], [`state`], [`policy`], [`bounds`], [`task`], [`body`], [`result_rule`], [`secret`], [`json`], [`record`],
//!   [`limits`], [`time`], [`text`]: values and their rules, no I/O
//! - [`clock`]: this machine's time of day, of which nothing follows that is shared
//! - [`keys`], [`script`]: what lies where in Redis, and the scripts of `lua/`
//! - [`transport`]: how calls travel: pools, reloads, error classes, injected faults
//! - [`store`]: one typed method per script and read
//! - [`doctor`]: the invariants, checked on a live system

mod base64;
pub mod body;
pub mod bounds;
pub mod clock;
pub mod doctor;
pub mod error;
pub mod json;
pub mod keys;
pub mod limits;
pub mod name;
pub mod origin;
pub mod policy;
pub mod record;
pub mod result_rule;
pub mod script;
pub mod secret;
pub mod state;
pub mod store;
pub mod task;
pub mod text;
pub mod time;
pub mod transport;

pub use error::{Error, Result};

/// The format version of `Q:config`, records and bodies. A process that meets a higher one refuses before any write.
pub const FORMAT: u32 = 2;
