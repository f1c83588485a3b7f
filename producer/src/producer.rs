//! The producer itself: how it connects, and what its parts share.

use std::sync::Arc;
use std::time::Duration;

use leasehold_common::store::{CheckLevel, Store};
use leasehold_common::time::MAX_DURATION;
use leasehold_common::transport::ConnectOptions;

use crate::batcher::Batcher;
use crate::error::{Error, Result};
use crate::repeat::repeat;
use crate::wait::Waiters;
use crate::{Limits, Namespace, QueueSettings};

/// How long a call is repeated by default.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(5);

/// Enqueues, inspects, waits for, aborts and retries tasks. Cheap to clone; clones share connections and batches.
#[derive(Debug, Clone)]
pub struct Producer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    deadline: Duration,
    limits: Limits,
    warnings: Vec<String>,
    batcher: Arc<Batcher>,
    waiters: Arc<Waiters>,
}

impl Producer {
    /// Connects to Redis at `url` (`redis://HOST:PORT`) with the defaults.
    ///
    /// # Errors
    /// As [`ProducerBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// A producer with other settings.
    pub fn builder(url: &str) -> ProducerBuilder {
        ProducerBuilder::new(Reach::Url(url.to_owned(), None))
    }

    /// A producer over a store that exists: another transport, or one shared with other parts of the process.
    pub fn over(store: Store) -> ProducerBuilder {
        ProducerBuilder::new(Reach::Store(store))
    }

    /// A producer over a store that nobody has to check.
    pub(crate) fn unchecked(store: Store) -> Self {
        Self::with(store, DEFAULT_DEADLINE, Limits::default(), Vec::new())
    }

    fn with(store: Store, deadline: Duration, limits: Limits, warnings: Vec<String>) -> Self {
        let inner = Inner {
            deadline,
            limits,
            warnings,
            batcher: Batcher::new(store.clone()),
            waiters: Waiters::new(store.clone()),
            store,
        };
        Self { inner: Arc::new(inner) }
    }

    /// What was found at connecting that may lose work, such as a Redis without append-only file.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }

    /// How long each call is repeated at most.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.inner.deadline
    }

    /// The address of Redis, without its password.
    #[must_use]
    pub fn address(&self) -> &str {
        self.inner.store.address()
    }

    /// The store underneath, for what this crate does not offer.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub(crate) fn batcher(&self) -> &Arc<Batcher> {
        &self.inner.batcher
    }

    pub(crate) fn waiters(&self) -> &Arc<Waiters> {
        &self.inner.waiters
    }

    /// Repeats a call of the store until the deadline.
    pub(crate) async fn repeat<T, F>(&self, call: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = leasehold_common::Result<T>>,
    {
        repeat(self.inner.deadline, call).await
    }
}

#[derive(Debug, Clone)]
enum Reach {
    Url(String, Option<ConnectOptions>),
    Store(Store),
}

/// The settings of a [`Producer`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing before `connect`"]
pub struct ProducerBuilder {
    reach: Reach,
    namespace: Result<Namespace>,
    deadline: Duration,
    limits: Limits,
    queue_settings: QueueSettings,
}

impl ProducerBuilder {
    fn new(reach: Reach) -> Self {
        Self {
            reach,
            namespace: Ok(Namespace::default()),
            deadline: DEFAULT_DEADLINE,
            limits: Limits::default(),
            queue_settings: QueueSettings::default(),
        }
    }

    /// The first part of every key: `[A-Za-z0-9._-]{1,64}`. Defaults to `lh`. A given store keeps its own.
    pub fn namespace<N>(mut self, namespace: N) -> Self
    where
        N: TryInto<Namespace>,
        Error: From<N::Error>,
    {
        self.namespace = namespace.try_into().map_err(Error::from);
        self
    }

    /// How long each call is repeated while Redis is away, busy or full: 1 ms to ten years. Defaults to 5 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Size limits. What is over one is refused before Redis is touched. Defaults to [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What queues are registered with that this producer makes. Existing queues keep their settings.
    pub fn queue_settings(mut self, settings: QueueSettings) -> Self {
        self.queue_settings = settings;
        self
    }

    /// Timeouts of connections. A given store keeps its own. Defaults to those of [`ConnectOptions::default`], but
    /// at most half the deadline, so that a call on a dead connection is repeated on a new one in time.
    pub fn connect_options(mut self, options: ConnectOptions) -> Self {
        if let Reach::Url(_, kept) = &mut self.reach {
            *kept = Some(options);
        }
        self
    }

    /// Connects and checks the server, trying again until the deadline.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a setting out of range; [`Error::Redis`] for a server that work may not be trusted
    /// to; [`Error::Deadline`] when none can be reached.
    pub async fn connect(self) -> Result<Producer> {
        if !(Duration::from_millis(1)..=MAX_DURATION).contains(&self.deadline) {
            return Err(Error::invalid("deadline", "is not 1ms to ten years"));
        }
        check_limits(&self.limits)?;
        let store = match self.reach {
            Reach::Url(url, options) => {
                let options = options.unwrap_or_else(|| timeouts_within(self.deadline));
                Store::open(&url, self.namespace?, options)?
            }
            Reach::Store(store) => store,
        };
        let store = store.with_settings(self.queue_settings);
        let checks = repeat(self.deadline, || store.check_server()).await?;
        let warnings: Vec<String> =
            checks.into_iter().filter(|c| c.level == CheckLevel::Warning).map(|c| c.message).collect();
        for warning in &warnings {
            tracing::warn!(redis = store.address(), "{warning}");
        }
        Ok(Producer::with(store, self.deadline, self.limits, warnings))
    }
}

fn timeouts_within(deadline: Duration) -> ConnectOptions {
    let half = (deadline / 2).max(Duration::from_millis(50));
    let defaults = ConnectOptions::default();
    ConnectOptions {
        connect_timeout: defaults.connect_timeout.min(half),
        response_timeout: defaults.response_timeout.min(half),
    }
}

fn check_limits(limits: &Limits) -> Result<()> {
    let most = leasehold_common::limits::MOST;
    for (field, size) in [
        ("limits.payload", limits.payload),
        ("limits.headers", limits.headers),
        ("limits.header_bytes", limits.header_bytes),
    ] {
        leasehold_common::limits::check_size(field, size, most)?;
    }
    Ok(())
}
