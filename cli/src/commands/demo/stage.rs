//! What the demo stands on, and how all of it is taken down again: a Redis, a folder for logs, the processes.

use std::path::{Path, PathBuf};

use leasehold_common::name::Namespace;
use leasehold_common::store::Store;
use leasehold_common::transport::ConnectOptions;
use tempfile::TempDir;

use super::crew::Crew;
use super::orphan::PREFIX;
use super::processes;
use super::show::Show;
use super::summary::LeftOver;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::private_redis::{Env, Place, Running, provide};

/// The Redis, ended with the value if it is a private one.
#[derive(Debug)]
struct Redis {
    running: Option<Running>,
    show: Show,
}

impl Redis {
    /// Ends it. Blocks for some milliseconds.
    fn stop(&mut self) -> Result<()> {
        match self.running.take() {
            Some(running) => Ok(running.stop(&self.show).map(drop)?),
            None => Ok(()),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Reached with a server after a panic or an early failure only, which is what is told then.
        let _ = self.stop();
    }
}

/// All of it. Fields end in their order: the processes before the Redis that they use.
#[derive(Debug)]
pub(super) struct Stage {
    /// Workers and reaper.
    pub(super) crew: Crew,
    /// Where Redis is; it may hold a password.
    pub(super) url: String,
    /// The namespace of this demo.
    pub(super) namespace: Namespace,
    /// The server for people.
    pub(super) server: String,
    redis: Redis,
    /// The data of a private server.
    data: Option<PathBuf>,
    logs: TempDir,
    show: Show,
}

impl Stage {
    /// Gets a Redis: the one that a flag, the environment or a file names, else a private one that ends with the
    /// demo (unless it is to be kept). Never that of `leasehold dev`, never one on the usual port that nobody named.
    pub(super) async fn open(context: &Context, show: &Show, keep: bool) -> Result<Self> {
        let logs = tempfile::Builder::new().prefix(&format!("{PREFIX}demo-")).tempdir();
        let logs = logs.map_err(|error| Failure::io("cannot make a temporary folder", &error))?;
        let env = Env { given: context.given_redis(), ..Env::from_process() };
        let reporter = show.clone();
        let providing = move || provide(&Place::Temporary, &env, &reporter);
        let running = tokio::task::spawn_blocking(providing).await;
        let running = running.map_err(|error| Failure::failed(format!("cannot start Redis: {error}")))??;
        let (url, server) = (running.url(), running.describe());
        let data = match &running {
            Running::Given(_) => None,
            Running::Private(private) => Some(private.folder()),
        };
        let redis = Redis { running: Some(running), show: show.clone() };
        let mut suffix = uuid::Uuid::new_v4().simple().to_string();
        suffix.truncate(8);
        let namespace = Namespace::new(format!("demo-{suffix}"))?;
        let passing = data.iter().cloned().chain([logs.path().to_owned()]).filter(|_| !keep).collect();
        let crew = Crew::new(url.clone(), namespace.clone(), logs.path().to_owned(), passing);
        Ok(Self { crew, url, namespace, server, redis, data, logs, show: show.clone() })
    }

    /// Whether the Redis is not the demo's own.
    pub(super) fn is_guest(&self) -> bool {
        self.data.is_none()
    }

    /// A folder that goes with the stage, unless it is kept: the logs lie there.
    pub(super) fn folder(&self) -> &Path {
        self.logs.path()
    }

    /// Ends everything: in order after a demo that came to its end, at once after one that did not. Tells what
    /// went wrong on the way, and what was still there afterwards.
    pub(super) async fn close(mut self, in_order: bool, keep: bool) -> (Vec<String>, LeftOver) {
        let mut problems = if in_order { self.crew.dismiss().await } else { Vec::new() };
        let mut left = LeftOver { processes_checked: processes::has_proc(), ..LeftOver::default() };
        left.processes = self.crew.clear().await.iter().map(|process| process.pid()).collect();
        if keep {
            self.keep();
            return (problems, left);
        }
        if self.data.is_none() {
            match self.remove_keys().await {
                Ok(keys) => left.keys = keys,
                Err(failure) => problems.push(failure.text()),
            }
        }
        let mut redis = self.redis;
        match tokio::task::spawn_blocking(move || redis.stop()).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => problems.push(failure.text()),
            Err(error) => problems.push(format!("Redis was not ended: {error}")),
        }
        let folder = self.logs.path().to_owned();
        if let Err(error) = self.logs.close() {
            problems.push(format!("cannot remove {}: {error}", folder.display()));
        }
        let folders = self.data.into_iter().chain([folder]).filter(|folder| folder.exists());
        left.folders = folders.map(|folder| folder.display().to_string()).collect();
        (problems, left)
    }

    /// Removes what the demo wrote to a Redis that is not its own. Tells how much is still there.
    async fn remove_keys(&self) -> Result<u64> {
        let store = Store::open(&self.url, self.namespace.clone(), ConnectOptions::default())?;
        store.remove_namespace().await?;
        Ok(store.count_keys().await?)
    }

    /// Leaves Redis and the logs as they are, and says how to look and how to tidy up.
    fn keep(mut self) {
        let (namespace, logs) = (&self.namespace, self.logs.path().display());
        let look = |flag: &str, which: &str| {
            let list = format!("  leasehold{flag} --namespace {namespace} task list --queue demo{which}");
            format!("kept, as --keep says. Look with:\n{list}\n  less {logs}/*.log\nTidy up with:\n")
        };
        let text = match &self.redis.running {
            Some(Running::Private(private)) => {
                let (pid, data) = (private.info().process_id, private.folder());
                let flag = format!(" --redis-url {}", private.url());
                format!("{}  kill {pid}; rm -r {} {logs}", look(&flag, ""), data.display())
            }
            Some(Running::Given(given)) => {
                let which = format!("  (on the Redis that {} names)", given.variable);
                format!("{}  rm -r {logs}, and remove the keys of {namespace}", look("", &which))
            }
            None => return,
        };
        self.show.say(&text);
        self.redis.running = None;
        let _ = self.logs.keep();
    }
}
