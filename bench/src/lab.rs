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
use crate::plan::{Plan, Row, Scale};
use crate::raw::Raw;
use crate::server::Server;
use crate::target::Target;

/// How often the keys are removed in the end, and the pause between: once, unless something comes late.
const REMOVALS: usize = 5;
const AFTERWARDS: Duration = Duration::from_millis(100);

/// Letters by which the namespaces of two benchmarks on one Redis differ.
const SUFFIX: usize = 6;

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

/// Alone, the default: keys are as long as those of a user with defaults. Beside others, a random one nearly as short.
fn namespace(own: bool) -> Result<Namespace> {
    if own {
        return Ok(Namespace::default());
    }
    let mut suffix = uuid::Uuid::new_v4().simple().to_string();
    suffix.truncate(SUFFIX);
    Ok(Namespace::new(format!("lhb-{suffix}"))?)
}

impl<'a> Lab<'a> {
    pub(crate) async fn open(
        plan: &'a Plan,
        target: &Target,
        stop: CancellationToken,
        progress: &'a dyn Progress,
    ) -> Result<Self> {
        let namespace = namespace(target.own)?;
        // Told as everywhere: that nobody answers, or that Leasehold does not work on this Redis.
        Store::open(&target.url, namespace.clone(), ConnectOptions::default())?.check_server().await?;
        let lab = Self {
            plan,
            server: Server::open(target).await?,
            namespace,
            latency: Latency::default(),
            stop,
            tracker: TaskTracker::new(),
            epoch: Instant::now(),
            warnings: Mutex::default(),
            progress,
        };
        lab.latency.prepare(&lab.server).await?;
        if !lab.server.own {
            lab.warn(
                "this Redis is not the benchmark's own: other traffic disturbs the figures, and they it",
            );
        }
        if lab.plan.scale != Scale::full() {
            lab.warn("a quick run shows that all of it works, not how fast it is: its bars judge nothing");
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
        let store = self.store()?;
        for _ in 0..REMOVALS {
            self.wipe().await?;
            if store.count_keys().await? == 0 {
                return Ok(());
            }
            // A call that was on its way when its caller was dropped has come after the removal.
            tokio::time::sleep(AFTERWARDS).await;
        }
        let (namespace, left) = (&self.namespace, store.count_keys().await?);
        Err(Error::odd("removing what was made", format!("{left} keys of {namespace} are still there")))
    }

    /// Whether so many more bytes find room below `maxmemory`.
    pub(crate) async fn has_room(&self, bytes: f64) -> Result<bool> {
        let memory = self.server.info("memory").await?;
        let most = memory.number("maxmemory");
        Ok(most == 0.0 || memory.number("used_memory") + bytes < most)
    }
}
