//! The blocking wait of idle workers. A blocking read owns its connection.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

use super::ConnectOptions;
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
        let mut pop = redis::cmd("BZPOPMIN");
        pop.arg(&keys).arg(block.as_secs_f64().max(0.001));
        let answer = tokio::time::timeout(
            block + SLACK,
            pop.query_async::<Option<(String, String, f64)>>(&mut self.connection),
        );
        let popped = match answer.await {
            Ok(answer) => answer.map_err(|e| Error::from_redis(&e, &self.address))?,
            Err(_) => {
                return Err(Error::OutcomeUnknown {
                    reason: "the connection is half-open: no answer".into(),
                });
            }
        };
        Ok(popped.and_then(|(key, _, _)| keys.iter().position(|k| *k == key)))
    }
}
