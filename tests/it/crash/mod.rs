//! Crashes, freezes, outages, lost replies: real processes, real signals, a private Redis each.
//!
//! Each test ends with a clean doctor and no process left. Times are those of the fast profile of the cases: a lease
//! of 2 s, a grace of 2 s.

mod dead_workers;
mod drains;
mod frozen_workers;
mod full;
mod handlers;
pub(crate) mod kit;
mod long_runs;
mod lost_replies;
mod moods;
mod outages;
mod partitions;
mod poison;
mod reapers;
mod restarts;
mod scripts;
mod timeouts;
mod watch;
