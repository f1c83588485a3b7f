//! The store: one typed method per script and per read. It knows the protocol, not who calls.

mod abort;
mod again;
mod claim;
mod enqueue;
mod finish;
mod heartbeat;
mod inspect;
mod lanes;
mod names;
mod namespace;
mod read;
mod records;
mod registry;
mod repair;
mod reply;
mod server;
mod sweep;
mod update;
mod views;

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

pub use abort::{AbortAnswer, AbortRequest};
pub use again::{DeleteAnswer, RetryAnswer, RetryMode};
pub use claim::{ClaimAnswer, ClaimRequest, Claimed, ClaimedTask};
pub use enqueue::{Enqueued, KnownState, NewTask, When};
pub use finish::{Finish, FinishAnswer, Outcome, RetryAdvice, one_call};
pub use heartbeat::{Beat, BeatAnswer, Beats};
pub use inspect::{Inspection, Places, QueueFacts};
pub use lanes::{Gathering, LANE_ENDS, LaneRow, MOST_AT_A_TIME};
pub use read::{Cursor, LogEntry, Page};
pub(crate) use read::{first, get};
pub use records::Records;
pub use registry::{ProcessMark, WorkerInfo};
pub use repair::Repaired;
pub(crate) use repair::Spot;
pub use server::{Check, CheckLevel, ServerInfo};
pub use sweep::{Cleaned, Declared, Swept};
pub use update::{LogPiece, OutputStream, Progress, SpendAnswer, Teller, UpdateAnswer};
pub use views::OwnerTally;

use crate::error::{Error, Result};
use crate::keys::QueueKeys;
use crate::name::{Namespace, QueueName};
use crate::script::{self, ScriptSpec};
use crate::time::as_ms;
use crate::transport::{ConnectOptions, Doorbell, Listener, RedisTransport, ScriptCall, Transport};
use reply::{Refusal, Reply};

/// What a queue is registered with, if it is not yet. Existing queues keep their settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSettings {
    /// The lease T: 1 s to 10 min. Defaults to 15 s; the beat is a third of it.
    pub lease: Duration,
    /// How long completed tasks are kept. Defaults to 7 days; zero = discarded at once.
    pub retain_completed: Duration,
    /// How long failed tasks are kept. Defaults to 14 days.
    pub retain_failed: Duration,
    /// How long timed-out tasks are kept. Defaults to 14 days.
    pub retain_timed_out: Duration,
    /// How long aborted tasks are kept. Defaults to 3 days.
    pub retain_aborted: Duration,
}

/// The shortest and longest lease.
pub const LEASE_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

impl Default for QueueSettings {
    fn default() -> Self {
        let days = |n: u64| Duration::from_secs(n * 24 * 3600);
        Self {
            lease: Duration::from_secs(15),
            retain_completed: days(7),
            retain_failed: days(14),
            retain_timed_out: days(14),
            retain_aborted: days(3),
        }
    }
}

/// Access to all queues of one namespace on one Redis. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    transport: Arc<dyn Transport>,
    namespace: Namespace,
    settings: QueueSettings,
}

impl Store {
    /// A store over Redis at `url`; the first call connects.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that is none.
    pub fn open(url: &str, namespace: Namespace, options: ConnectOptions) -> Result<Self> {
        Ok(Self::over(Arc::new(RedisTransport::new(url, options)?), namespace))
    }

    /// A store over any transport.
    #[must_use]
    pub fn over(transport: Arc<dyn Transport>, namespace: Namespace) -> Self {
        Self { transport, namespace, settings: QueueSettings::default() }
    }

    /// The same store, registering new queues with other settings.
    #[must_use]
    pub fn with_settings(mut self, settings: QueueSettings) -> Self {
        self.settings = settings;
        self
    }

    /// The namespace of its keys.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The address of Redis, without its password.
    #[must_use]
    pub fn address(&self) -> &str {
        self.transport.address()
    }

    /// The keys of a queue.
    #[must_use]
    pub fn keys(&self, queue: &QueueName) -> QueueKeys {
        QueueKeys::new(&self.namespace, queue)
    }

    /// A connection of its own for blocking on wake markers.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn doorbell(&self) -> Result<Doorbell> {
        self.transport.doorbell().await
    }

    /// A connection of its own for what is published.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn listener(&self) -> Result<Listener> {
        self.transport.listener().await
    }

    /// Makes a queue known: its lease as the queue has it, and whether this call made it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a lease out of range; any error of Redis.
    pub async fn register(&self, queue: &QueueName) -> Result<(Duration, bool)> {
        let s = &self.settings;
        if !(LEASE_RANGE.0..=LEASE_RANGE.1).contains(&s.lease) {
            return Err(Error::invalid("lease", "is not 1s to 10m"));
        }
        let mut call = ScriptCall::new(&script::REGISTER, &self.keys(queue));
        for d in [s.lease, s.retain_completed, s.retain_failed, s.retain_timed_out, s.retain_aborted] {
            call.push(as_ms(d).to_string());
        }
        let value = self.run(call).await?;
        let mut reply = match Reply::open(&script::REGISTER, value)? {
            Ok(reply) => reply,
            Err(refusal) => return Err(unexpected(&script::REGISTER, &refusal)),
        };
        let lease = Duration::from_millis(reply.number()?);
        let made = reply.number()? == 1;
        self.announce_queue(queue).await?;
        Ok((lease, made))
    }

    /// Runs calls in one round trip, as they are.
    pub(crate) async fn run_all(&self, calls: &[ScriptCall]) -> Vec<Result<Value>> {
        self.transport.scripts(calls).await
    }

    async fn run(&self, call: ScriptCall) -> Result<Value> {
        let mut answers = self.transport.scripts(&[call]).await;
        answers.pop().unwrap_or_else(|| Err(Error::Protocol("no answer".into())))
    }

    /// Runs one call. A queue that is not registered is registered, and the call repeated once.
    async fn answer(&self, queue: &QueueName, call: ScriptCall) -> Result<Result<Reply, Refusal>> {
        let script = call.script;
        let value = self.run(call.clone()).await?;
        match Reply::open(script, value)? {
            Err(Refusal::Unregistered) => {
                self.register(queue).await?;
                Reply::open(script, self.run(call).await?)
            }
            answered => Ok(answered),
        }
    }

    /// As [`answer`](Self::answer), for scripts that have no tag but `ok`.
    async fn ok(&self, queue: &QueueName, call: ScriptCall) -> Result<Reply> {
        let script = call.script;
        self.answer(queue, call).await?.map_err(|refusal| unexpected(script, &refusal))
    }
}

fn unexpected(script: &ScriptSpec, refusal: &Refusal) -> Error {
    match refusal {
        Refusal::Unregistered => {
            Error::RetryLater { reason: format!("{}: the queue is not registered", script.name) }
        }
        Refusal::Tag(tag) => Error::Protocol(format!("{} answered {tag}", script.name)),
    }
}
