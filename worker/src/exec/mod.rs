//! Runs commands as tasks: starting them safely, streaming their output, and making sure that
//! nothing of them is left.
//!
//! - [`CommandSpec`] says what to run, [`ExecPolicy`] whether this worker may.
//! - [`start`] runs it: never directly, but through a trampoline that makes its own session
//!   and waits until the guard has noted it. Whatever prevents the start is a [`StartError`].
//! - [`RunningCommand`] is the run; it is over when the command has exited, its output was
//!   read, and nothing of it is alive. [`RunControl`] freezes, thaws, ends and kills it from
//!   any thread, also while the async runtime stands still.
//! - [`OutputBuffer`] holds output until it is sent, within a bound.
//!
//! Each run is conducted by an OS thread of its own, so that neither exit codes nor output
//! nor cleaning up depend on a runtime that a handler may block.

mod environment;
mod error;
mod exit;
mod launch;
mod limits;
mod output;
mod policy;
mod program;
mod pump;
mod running;
mod spec;
pub(crate) mod trampoline;

pub use error::StartError;
pub use exit::Exit;
pub use launch::{Launch, OutputSink, start};
pub use limits::Limits;
pub use output::{DEFAULT_CAP, DEFAULT_HEAD, OutputBuffer, OutputChunk};
pub use policy::{ExecPolicy, PolicyError};
pub use running::{RunControl, RunState, RunningCommand, freeze_all};
pub use spec::{CommandSpec, Stream};
