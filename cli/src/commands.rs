//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod exec;
pub(crate) mod lane;
pub(crate) mod owner;
pub(crate) mod queue;
pub(crate) mod reaper;
pub(crate) mod task;
pub(crate) mod worker;
pub(crate) mod workers;
