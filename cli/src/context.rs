//! What every command starts from: the settings, the output, and the way to Redis.

use leasehold_common::store::Store;
use leasehold_common::transport::ConnectOptions;
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
        self.settings.store(ConnectOptions::default())
    }

    /// A connected producer. What may lose work on this Redis is said on stderr.
    pub(crate) async fn producer(&self) -> Result<Producer> {
        let settings = &self.settings;
        let producer = Producer::over(self.store()?)
            .limits(settings.limits())
            .queue_settings(settings.queue_settings(settings.worker.lease.value))
            .connect()
            .await?;
        for warning in producer.warnings() {
            self.output.note(&format!("warning: {warning}"));
        }
        Ok(producer)
    }
}
