//! What scripts publish: it only makes news arrive sooner, nothing relies on it.

use futures::StreamExt as _;
use redis::Client;
use redis::aio::{PubSubSink, PubSubStream};

use super::ConnectOptions;
use crate::error::{Error, Result};
use crate::keys::QueueKeys;

/// A message of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// The channel.
    pub channel: String,
    /// The task's id.
    pub id: String,
    /// Its state, or its run, by the channel.
    pub what: String,
}

/// A connection that listens to channels.
pub struct Listener {
    sink: PubSubSink,
    stream: PubSubStream,
    address: String,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Listener {
    pub(super) async fn connect(client: &Client, options: &ConnectOptions, address: &str) -> Result<Self> {
        let late =
            |_| Error::Unreachable { url: address.to_owned(), reason: "connecting took too long".into() };
        let pubsub = tokio::time::timeout(options.connect_timeout, client.get_async_pubsub())
            .await
            .map_err(late)?
            .map_err(|e| Error::from_redis(&e, address))?;
        let (sink, stream) = pubsub.split();
        Ok(Self { sink, stream, address: address.to_owned() })
    }

    /// Listens to the stops of a queue's runs.
    ///
    /// # Errors
    /// Any error ends this connection.
    pub async fn stops_of(&mut self, queue: &QueueKeys) -> Result<()> {
        self.subscribe(queue.stops_channel()).await
    }

    /// Listens to the ends of a queue's tasks that someone waits for.
    ///
    /// # Errors
    /// Any error ends this connection.
    pub async fn ends_of(&mut self, queue: &QueueKeys) -> Result<()> {
        self.subscribe(queue.ended_channel()).await
    }

    async fn subscribe(&mut self, channel: String) -> Result<()> {
        self.sink.subscribe(channel).await.map_err(|e| Error::from_redis(&e, &self.address))
    }

    /// The next message; none when the connection is gone. Cancel-safe.
    pub async fn next(&mut self) -> Option<Push> {
        loop {
            let message = self.stream.next().await?;
            let text = String::from_utf8_lossy(message.get_payload_bytes()).into_owned();
            if let Some((id, what)) = text.rsplit_once(' ') {
                let channel = message.get_channel_name().to_owned();
                return Some(Push { channel, id: id.to_owned(), what: what.to_owned() });
            }
        }
    }
}
