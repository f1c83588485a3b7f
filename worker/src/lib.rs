//! Placeholder.

pub mod exec;
pub mod guard;
