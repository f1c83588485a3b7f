//! What the rows share: the server, the plan, and how everything is taken down again.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use leasehold_common::doctor::{Options, examine};
use leasehold_common::name::Namespace;
use leasehold_common::store::{QueueSettings, Store};
use leasehold_common::transport::ConnectOptions;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Progress;
use crate::error::{Error, Result};
use crate::latency::Latency;
use crate::ours::Ours;
use crate::plan::{Plan, Row};
use crate::raw::Raw;
use crate::server::Server;
use crate::target::Target;

/// The place of work.
pub(crate) struct Lab<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) server: Server,
    pub(crate) namespace: Namespace,
    pub(crate) latency: Latency,
    /// Tells workers and reapers to end.
    pub(crate) stop: CancellationToken,
    /// All of them.
    pub(crate) tracker: TaskTracker,
    /// What every moment is counted from.
    pub(crate) epoch: Instant,
    warnings: Mutex<Vec<String>>,
    progress: &'a dyn Progress,
}

impl std::fmt::Debug for Lab<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl<'a> Lab<'a> {
    pub(crate) async fn open(
        plan: &'a Plan,
        target: &Target,
        stop: CancellationToken,
        progress: &'a dyn Progress,
    ) -> Result<Self> {
        let server = Server::open(target).await?;
        let mut suffix = uuid::Uuid::new_v4().simple().to_string();
        suffix.truncate(8);
        let lab = Self {
            plan,
            server,
            namespace: Namespace::new(format!("bench-{suffix}"))?,
            latency: Latency::default(),
            stop,
            tracker: TaskTracker::new(),
            epoch: Instant::now(),
            warnings: Mutex::default(),
            progress,
        };
        // Told before any load, and for the same reasons, that Leasehold does not work on this Redis.
        lab.store()?.check_server().await?;
        lab.latency.prepare(&lab.server).await?;
        if !lab.server.own {
            lab.warn(
                "this Redis is not the benchmark's own: other traffic disturbs the figures, and they it",
            );
        }
        Ok(lab)
    }

    /// A step, for people.
    pub(crate) fn say(&self, line: &str) {
        self.progress.say(line);
    }

    /// A step of a row, and how far it is.
    pub(crate) fn round(&self, what: &str, round: usize) {
        self.say(&format!("{what}: round {} of {}", round + 1, self.plan.rounds));
    }

    /// Something to know when the figures are read.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        self.say(&text);
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// All of that.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The store of the benchmark's namespace.
    pub(crate) fn store(&self) -> Result<Store> {
        Ok(Store::open(&self.server.url, self.namespace.clone(), ConnectOptions::default())?)
    }

    /// Leasehold, on a queue of its own with the default settings.
    pub(crate) async fn ours(&self, queue: &'static str) -> Result<Ours<'_>> {
        Ours::open(self, queue, QueueSettings::default()).await
    }

    /// The same with completed tasks discarded at once.
    pub(crate) async fn discarding(&self, queue: &'static str) -> Result<Ours<'_>> {
        let settings = QueueSettings { retain_completed: Duration::ZERO, ..QueueSettings::default() };
        Ours::open(self, queue, settings).await
    }

    /// Plain streams.
    pub(crate) async fn raw(&self, name: &str) -> Result<Raw<'_>> {
        Raw::open(self, &format!("{}:raw:{name}", self.namespace)).await
    }

    /// Checks every invariant, then removes all that was made: the next stretch begins on an empty namespace.
    pub(crate) async fn tidy(&self, what: &'static str) -> Result<()> {
        self.examine(what).await?;
        self.wipe().await
    }

    /// Fails unless every invariant holds.
    pub(crate) async fn examine(&self, what: &'static str) -> Result<()> {
        let options = Options { server: false, ..Options::default() };
        let report = examine(&self.store()?, &options).await?;
        if report.is_clean() {
            return Ok(());
        }
        Err(Error::Doctor { what, report: report.to_string() })
    }

    /// Removes all that was made, and waits until Redis has let go of it.
    pub(crate) async fn wipe(&self) -> Result<()> {
        if self.server.own {
            self.server.ask::<()>(&["FLUSHALL", "SYNC"]).await?;
        } else {
            self.store()?.remove_namespace().await?;
        }
        Ok(())
    }

    /// Whether any of these rows is wanted.
    pub(crate) fn wants(&self, rows: &[Row]) -> bool {
        self.plan.wants(rows)
    }

    /// Ends what still works, at once, and removes every key.
    pub(crate) async fn close(&self, within: Duration) -> Result<()> {
        self.stop.cancel();
        self.tracker.close();
        // Whoever does not end in time leaves keys with a TTL, or ones that the next removal finds.
        let _ = tokio::time::timeout(within, self.tracker.wait()).await;
        self.wipe().await
    }
}
