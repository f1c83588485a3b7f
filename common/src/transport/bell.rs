//! The blocking wait of idle workers. A blocking read owns its connection.

use std::time::Duration;

use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue as _, Pipeline, Value};

use super::{ConnectOptions, ScriptCall};
use crate::error::{Error, Result};
use crate::keys::QueueKeys;

/// How much longer than the block an answer may take, before the connection counts as half-open.
const SLACK: Duration = Duration::from_secs(3);

/// A connection that blocks on wake markers.
pub struct Doorbell {
    connection: MultiplexedConnection,
    address: String,
}

impl std::fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Doorbell").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Doorbell {
    pub(super) async fn connect(client: &Client, options: &ConnectOptions, address: &str) -> Result<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_response_timeout(None);
        let connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|e| Error::from_redis(&e, address))?;
        Ok(Self { connection, address: address.to_owned() })
    }

    /// Waits for a wake marker of one of `queues`, `block` at most: the index of the queue whose marker it took.
    ///
    /// # Errors
    /// Any error ends this connection: make a new one, and claim before waiting again.
    pub async fn wait(&mut self, queues: &[QueueKeys], block: Duration) -> Result<Option<usize>> {
        let keys: Vec<String> = queues.iter().map(QueueKeys::wake).collect();
        let mut pop = Pipeline::with_capacity(1);
        pop.add_command(pop_marker(&keys, block));
        let popped = self.send(&pop, block).await?.into_iter().next().unwrap_or(Value::Nil);
        let popped = <Option<(String, String, f64)>>::from_redis_value(popped)
            .map_err(|e| Error::Protocol(e.to_string()))?;
        Ok(popped.and_then(|(key, _, _)| keys.iter().position(|k| *k == key)))
    }

    /// Waits for the wake marker of one queue, `block` at most, and runs a call then. Redis keeps the call back while
    /// the connection is blocked, so that nothing travels between the wake and the call.
    ///
    /// # Errors
    /// Any error ends this connection, and the call may have been run.
    pub(crate) async fn wait_then(
        &mut self,
        queue: &QueueKeys,
        block: Duration,
        call: &ScriptCall,
    ) -> Result<Value> {
        let mut both = Pipeline::with_capacity(2);
        both.add_command(pop_marker(&[queue.wake()], block));
        both.add_command(call.command());
        match self.send(&both, block).await?.pop() {
            Some(Value::ServerError(error)) if error.code() == "NOSCRIPT" => {
                Err(Error::RetryLater { reason: "NOSCRIPT: the script was flushed".into() })
            }
            Some(Value::ServerError(error)) => Err(Error::from_redis(&error.into(), &self.address)),
            Some(value) => Ok(value),
            None => Err(Error::Protocol("no answer".into())),
        }
    }

    async fn send(&mut self, commands: &Pipeline, block: Duration) -> Result<Vec<Value>> {
        let answer = self.connection.req_packed_commands(commands, 0, commands.len());
        match tokio::time::timeout(block + SLACK, answer).await {
            Ok(Ok(values)) => match values.first() {
                Some(Value::ServerError(error)) => {
                    Err(Error::from_redis(&error.clone().into(), &self.address))
                }
                _ => Ok(values),
            },
            Ok(Err(error)) => Err(Error::from_redis(&error, &self.address)),
            Err(_) => Err(Error::OutcomeUnknown { reason: "the connection is half-open: no answer".into() }),
        }
    }
}

fn pop_marker(keys: &[String], block: Duration) -> Cmd {
    let mut pop = redis::cmd("BZPOPMIN");
    pop.arg(keys).arg(block.as_secs_f64().max(0.001));
    pop
}
