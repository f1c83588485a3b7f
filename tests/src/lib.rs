//! The end-to-end harness: real Redis servers, real `leasehold` processes, and the means to break both.
//!
//! Nothing here imitates Redis. A test starts its own [`RedisServer`], puts a [`Proxy`] before it when replies
//! have to get lost, runs [`Leasehold`] commands, and judges by what the database, the process table and the
//! [`Effects`] file outside Redis say.
//!
//! - [`redis_server`]: a private server: start, SIGSTOP, SIGKILL, restart, digest, statistics
//! - [`monitor`]: which client sent which command (what ran inside scripts apart)
//! - [`proxy`]: cut, freeze, delay, drop the reply of exactly the n-th matching request
//! - [`process`]: the built `leasehold` binary as a child: output, signals, exit
//! - [`procfs`]: what `/proc` says about processes, also those that are no children of the test
//! - [`effects`]: the append-only file that tells which attempts really ran, and when
//! - [`mod@eventually`]: polling with a deadline; the only place where a test may sleep
//! - [`checks`]: keys left behind
//! - [`queue`]: a queue whose clock the test drives, and the check of its invariants
//! - [`trail`]: what a task of the soak does, and the lines that it leaves outside Redis
//! - [`scale`]: a tenth of a case's loops in `make test`, all of them in `make cases`
//!
//! Everything is dropped clean: servers, child processes and their descendants are killed with the value.

pub mod checks;
pub mod effects;
pub mod eventually;
pub mod monitor;
pub mod process;
pub mod procfs;
pub mod proxy;
pub mod queue;
pub mod redis_server;
mod resp;
pub mod scale;
pub mod trail;

pub use effects::Effects;
pub use eventually::{
    comes_true, eventually, eventually_async, let_time_pass, let_time_pass_async, stays, stays_async,
};
pub use monitor::Monitor;
pub use process::{Leasehold, Proc};
pub use proxy::{Direction, Fault, Matcher, Proxy};
pub use redis_server::{RedisBuilder, RedisServer, RedisUrl};

/// The Rust of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// So does that of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/lifecycle.md")]
struct Lifecycle;

/// And that of the page on results.
#[cfg(doctest)]
#[doc = include_str!("../../docs/results-and-secrets.md")]
struct Results;
