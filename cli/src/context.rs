//! What every command starts from: the settings, the output, and the way to Redis.

use leasehold_common::store::Store;
use leasehold_producer::Producer;

use crate::args::Globals;
use crate::config::{Settings, Source};
use crate::error::Result;
use crate::output::Output;
use crate::private_redis::GivenUrl;

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

    /// The Redis that somebody named for this very call: never that of `leasehold dev`, nor the usual port.
    pub(crate) fn given_redis(&self) -> Option<GivenUrl> {
        let setting = &self.settings.redis_url;
        let variable = match &setting.source {
            Source::Flag => "--redis-url",
            Source::Environment(name) if name == "REDIS_URL" => "REDIS_URL",
            Source::Environment(_) => "LEASEHOLD_REDIS_URL",
            Source::File(_) => "leasehold.toml",
            Source::DevServer(_) | Source::Default => return None,
        };
        Some(GivenUrl { variable, url: setting.value.clone() })
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
