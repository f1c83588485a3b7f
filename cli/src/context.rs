//! What every command starts from: the settings, the output, and the way to Redis.

use leasehold_common::store::Store;
use leasehold_producer::Producer;

use crate::args::Globals;
use crate::config::Settings;
use crate::error::Result;
use crate::output::Output;

/// Settings and output of this call.
#[derive(Debug)]
pub(crate) struct Context {
    /// Where Redis is, and every default.
    pub(crate) settings: Settings,
    /// Where results go.
    pub(crate) output: Output,
}

impl Context {
    /// Reads the settings.
    pub(crate) fn new(globals: &Globals) -> Result<Self> {
        let output = Output::new(globals.json, globals.quiet);
        Ok(Self { settings: Settings::load(globals)?, output })
    }

    /// The store; nothing is connected yet.
    pub(crate) fn store(&self) -> Result<Store> {
        self.store_at(&self.settings.redis_url.value)
    }

    /// The same at another address.
    pub(crate) fn store_at(&self, url: &str) -> Result<Store> {
        self.settings.store(url)
    }

    /// A connected producer.
    pub(crate) async fn producer(&self) -> Result<Producer> {
        let settings = &self.settings;
        let producer = Producer::over(self.store()?)
            .limits(settings.limits())
            .queue_settings(settings.queue_settings(settings.worker.lease.value))
            .connect()
            .await?;
        Ok(producer)
    }
}
