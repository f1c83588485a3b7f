//! The transport over `deadpool-redis`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deadpool_redis::{Connection, Manager, Pool};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo as _, Pipeline, Value};

use super::{ConnectOptions, Doorbell, Listener, ScriptCall, Transport};
use crate::error::{Error, Result};

/// Connections at most: one that all calls share, and room for its successor.
const POOL_SIZE: usize = 4;

/// One multiplexed connection shared by all callers; a broken one is replaced from the pool.
///
/// A checkout from the pool costs a PING, so the connection is kept checked out and cloned: calls of many
/// tasks travel side by side in it, and the library matches each reply to its request even when a caller
/// goes away in the middle.
pub struct RedisTransport {
    pool: Pool,
    client: Client,
    address: String,
    options: ConnectOptions,
    current: Mutex<Option<Arc<Kept>>>,
}

/// A connection checked out of the pool. A broken one does not go back: the pool would PING it at the next
/// checkout, and on a half-open link wait for another timeout.
struct Kept {
    pooled: Option<Connection>,
    shared: MultiplexedConnection,
    broken: AtomicBool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.broken.load(Ordering::Relaxed)
            && let Some(pooled) = self.pooled.take()
        {
            drop(Connection::take(pooled));
        }
    }
}

impl std::fmt::Debug for RedisTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisTransport").field("address", &self.address).finish_non_exhaustive()
    }
}

impl RedisTransport {
    /// Prepares a transport; the first call connects.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that is none.
    pub fn new(url: &str, options: ConnectOptions) -> Result<Self> {
        let address = redacted(url);
        let bad = |e: &dyn std::fmt::Display| {
            Error::invalid(
                "Redis URL",
                format!("{address:?}: {e}; give redis://HOST:PORT or redis+unix:///PATH"),
            )
        };
        let info = url.into_connection_info().map_err(|e| bad(&e))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_response_timeout(Some(options.response_timeout));
        let client = Client::open(info.clone()).map_err(|e| bad(&e))?;
        let manager = Manager::new_with_config(info, config).map_err(|e| bad(&e))?;
        let pool = Pool::builder(manager).max_size(POOL_SIZE).build().map_err(|e| bad(&e))?;
        Ok(Self { pool, client, address, options, current: Mutex::new(None) })
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Arc<Kept>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connection(&self) -> Result<Arc<Kept>> {
        let kept = self.current().clone();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let pooled = self.pool.get().await.map_err(|e| self.unreachable(&e))?;
        let shared = (*pooled).clone();
        let fresh = Arc::new(Kept { pooled: Some(pooled), shared, broken: AtomicBool::new(false) });
        Ok(Arc::clone(self.current().get_or_insert(fresh)))
    }

    /// Nothing was sent: whatever the pool says, the call did not happen.
    fn unreachable(&self, error: &deadpool_redis::PoolError) -> Error {
        if let deadpool_redis::PoolError::Backend(e) = error {
            match Error::from_redis(e, &self.address) {
                Error::OutcomeUnknown { .. } => {}
                known => return known,
            }
        }
        Error::Unreachable { url: self.address.clone(), reason: error.to_string() }
    }

    /// Takes a broken connection out of use, unless another caller has done so already.
    fn discard(&self, broken: &Arc<Kept>) {
        broken.broken.store(true, Ordering::Relaxed);
        let mut current = self.current();
        if current.as_ref().is_some_and(|c| Arc::ptr_eq(c, broken)) {
            *current = None;
        }
    }

    async fn send(&self, pipeline: &Pipeline) -> Result<Vec<Value>> {
        let kept = self.connection().await?;
        let mut shared = kept.shared.clone();
        let answer = shared.req_packed_commands(pipeline, 0, pipeline.len()).await;
        answer.map_err(|e| {
            self.discard(&kept);
            Error::from_redis(&e, &self.address)
        })
    }

    /// Runs calls once; what Redis does not know yet is `None`.
    async fn evalsha(&self, calls: &[&ScriptCall]) -> Result<Vec<Option<Result<Value>>>> {
        let mut pipeline = Pipeline::with_capacity(calls.len());
        for call in calls {
            pipeline.add_command(call.command());
        }
        let values = self.send(&pipeline).await?;
        Ok(values.into_iter().map(|value| self.classify(value)).collect())
    }

    fn classify(&self, value: Value) -> Option<Result<Value>> {
        match value {
            Value::ServerError(error) if error.code() == "NOSCRIPT" => None,
            Value::ServerError(error) => Some(Err(Error::from_redis(&error.into(), &self.address))),
            value => Some(Ok(value)),
        }
    }

    async fn load(&self, missing: &[&ScriptCall]) -> Result<()> {
        let mut pipeline = Pipeline::new();
        let mut sent: Vec<&str> = Vec::new();
        for call in missing {
            if !sent.contains(&call.script.name) {
                sent.push(call.script.name);
                pipeline.cmd("SCRIPT").arg("LOAD").arg(call.script.source());
            }
        }
        for value in self.send(&pipeline).await? {
            if let Value::ServerError(error) = value {
                return Err(Error::from_redis(&error.into(), &self.address));
            }
        }
        Ok(())
    }

    async fn run(&self, calls: &[ScriptCall]) -> Vec<Result<Value>> {
        let mut answers: Vec<Option<Result<Value>>> = calls.iter().map(|_| None).collect();
        // A script may be flushed between load and call: three rounds, then the caller's own retry.
        for round in 0..3 {
            let open: Vec<usize> = (0..calls.len()).filter(|i| answers[*i].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let missing: Vec<&ScriptCall> = open.iter().map(|i| &calls[*i]).collect();
            let loaded = if round > 0 { self.load(&missing).await } else { Ok(()) };
            let round_answers = match loaded {
                Ok(()) => self.evalsha(&missing).await,
                Err(e) => Err(e),
            };
            match round_answers {
                Ok(values) => {
                    for (i, value) in open.into_iter().zip(values) {
                        answers[i] = value;
                    }
                }
                Err(e) => {
                    for i in open {
                        answers[i] = Some(Err(e.clone()));
                    }
                }
            }
        }
        let flushed = || Err(Error::RetryLater { reason: "NOSCRIPT: scripts are being flushed".into() });
        answers.into_iter().map(|a| a.unwrap_or_else(flushed)).collect()
    }
}

impl Transport for RedisTransport {
    fn scripts<'a>(&'a self, calls: &'a [ScriptCall]) -> BoxFuture<'a, Vec<Result<Value>>> {
        self.run(calls).boxed()
    }

    fn commands<'a>(&'a self, pipeline: &'a Pipeline) -> BoxFuture<'a, Result<Vec<Value>>> {
        async move {
            let values = self.send(pipeline).await?;
            for value in &values {
                if let Value::ServerError(error) = value {
                    return Err(Error::from_redis(&error.clone().into(), &self.address));
                }
            }
            Ok(values)
        }
        .boxed()
    }

    fn doorbell(&self) -> BoxFuture<'_, Result<Doorbell>> {
        Doorbell::connect(&self.client, &self.options, &self.address).boxed()
    }

    fn listener(&self) -> BoxFuture<'_, Result<Listener>> {
        Listener::connect(&self.client, &self.options, &self.address).boxed()
    }

    fn address(&self) -> &str {
        &self.address
    }
}

/// An address without its password: what may hold one (user part, query, fragment) is cut.
pub(crate) fn redacted(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = shown.split_once("://").map_or(("", shown), |(scheme, rest)| (scheme, rest));
    let separator = if scheme.is_empty() { "" } else { "://" };
    let host = match rest.rsplit_once('@') {
        // A password may hold anything, also what ends the host's part of a proper address.
        Some((user, host)) => {
            let user = user.split([':', '/']).next().unwrap_or_default();
            format!("{user}:***@{host}")
        }
        None => rest.to_owned(),
    };
    crate::text::printable(&format!("{scheme}{separator}{host}"))
}

#[cfg(test)]
mod tests {
    use super::redacted;

    #[test]
    fn passwords_are_never_shown() {
        assert_eq!(redacted("redis://u:secret@h:1/0"), "redis://u:***@h:1/0");
        assert_eq!(redacted("redis://:se@cret@h:1"), "redis://:***@h:1");
        assert_eq!(redacted("redis://h:1"), "redis://h:1");
        assert_eq!(redacted("redis+unix:///x.sock?pass=sekret"), "redis+unix:///x.sock");
        assert_eq!(redacted("redis://:se/kret@host"), "redis://:***@host");
        assert_eq!(redacted("user:sekret@host:6379"), "user:***@host:6379");
        assert_eq!(redacted("redis://h:1/0#sekret"), "redis://h:1/0");
    }
}
