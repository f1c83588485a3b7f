//! Questions to the Redis that is measured, on a connection of the benchmark's own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

use crate::error::{Error, Result};
use crate::target::Target;

/// How long an answer may take: to drop a million tasks is one command.
const PATIENCE: Duration = Duration::from_secs(120);
/// As the clients of Leasehold have it, so that raw commands pay for the same timers.
const RESPONSE: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(3);

/// Memory counts as settled when so many looks in a row, so far apart, differ by less than a part in so many.
const LOOKS: usize = 6;
const LOOK_EVERY: Duration = Duration::from_millis(50);
const STEADY: u64 = 5000;
const SETTLES_WITHIN: Duration = Duration::from_secs(8);

/// Redis counts as calm when it takes less than this share of a core for so long.
const CALM: f64 = 0.005;
const CALM_OVER: Duration = Duration::from_millis(500);
const CALMS_WITHIN: Duration = Duration::from_secs(10);

/// Ways to run a script. Scripts cannot call these, so that only clients are counted.
const SCRIPTS: [&str; 6] = ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"];

/// The Redis under measurement.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    /// Nobody else uses it.
    pub(crate) own: bool,
    client: Client,
    control: MultiplexedConnection,
}

/// `INFO`, taken apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Info(BTreeMap<String, String>);

impl Info {
    fn parse(text: &str) -> Self {
        let pair = |line: &str| line.split_once(':').map(|(k, v)| (k.to_owned(), v.trim().to_owned()));
        Self(text.lines().filter_map(pair).collect())
    }

    /// A field as it stands; empty where there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A field that is a number; 0 where there is none.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// A part of a field such as `calls=3,usec=20`.
    fn part(&self, name: &str, part: &str) -> f64 {
        let found = self.text(name).split(',').filter_map(|p| p.split_once('=')).find(|(n, _)| *n == part);
        found.and_then(|(_, value)| value.parse().ok()).unwrap_or_default()
    }
}

/// Redis's clock as this process reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RedisClock {
    at: Instant,
    /// Microseconds since 1970 at that instant.
    us: i64,
}

impl RedisClock {
    /// Microseconds since 1970 by Redis's clock, now.
    pub(crate) fn now_us(&self) -> i64 {
        self.us + i64::try_from(self.at.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

impl Server {
    pub(crate) async fn open(target: &Target) -> Result<Self> {
        let client = Client::open(target.url.as_str())?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(PATIENCE));
        let control = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { url: target.url.clone(), own: target.own, client, control })
    }

    /// A connection such as Leasehold's own.
    pub(crate) async fn connection(&self) -> Result<MultiplexedConnection> {
        self.connection_with(Some(RESPONSE)).await
    }

    /// A connection for commands that block.
    pub(crate) async fn blocking_connection(&self) -> Result<MultiplexedConnection> {
        self.connection_with(None).await
    }

    async fn connection_with(&self, response: Option<Duration>) -> Result<MultiplexedConnection> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(response);
        Ok(self.client.get_multiplexed_async_connection_with_config(&config).await?)
    }

    /// Asks one command.
    pub(crate) async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> Result<T> {
        let (name, arguments) = words.split_first().ok_or_else(|| Error::odd("a command", "has no name"))?;
        Ok(redis::cmd(name).arg(arguments).query_async(&mut self.control.clone()).await?)
    }

    /// A section of `INFO`.
    pub(crate) async fn info(&self, section: &str) -> Result<Info> {
        Ok(Info::parse(&self.ask::<String>(&["INFO", section]).await?))
    }

    /// CPU seconds that Redis has spent.
    pub(crate) async fn cpu(&self) -> Result<f64> {
        let info = self.info("cpu").await?;
        Ok(info.number("used_cpu_user") + info.number("used_cpu_sys"))
    }

    /// How often clients have run a script.
    pub(crate) async fn script_calls(&self) -> Result<u64> {
        let info = self.info("commandstats").await?;
        Ok(SCRIPTS.iter().map(|name| info.part(&format!("cmdstat_{name}"), "calls") as u64).sum())
    }

    /// Bytes in use, once they stand still.
    pub(crate) async fn settled_memory(&self) -> Result<f64> {
        let began = Instant::now();
        let mut seen: Vec<u64> = Vec::new();
        loop {
            let info = self.info("memory").await?;
            let used = info.number("used_memory") as u64;
            let freeing = info.number("lazyfree_pending_objects") > 0.0;
            let steady = seen.last().is_some_and(|last| last.abs_diff(used) <= used / STEADY);
            if !steady || freeing {
                seen.clear();
            }
            seen.push(used);
            if seen.len() >= LOOKS || began.elapsed() > SETTLES_WITHIN {
                return Ok(used as f64);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until Redis has done what it does behind its answers, such as giving memory back.
    pub(crate) async fn calm(&self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < CALMS_WITHIN {
            let before = self.cpu().await?;
            tokio::time::sleep(CALM_OVER).await;
            if self.cpu().await? - before < CALM_OVER.as_secs_f64() * CALM {
                break;
            }
        }
        Ok(())
    }

    /// Redis's clock, by the quickest of some answers.
    pub(crate) async fn clock(&self) -> Result<RedisClock> {
        let mut best: Option<(Duration, RedisClock)> = None;
        for _ in 0..20 {
            let asked = Instant::now();
            let (seconds, micros): (i64, i64) = self.ask(&["TIME"]).await?;
            let took = asked.elapsed();
            let clock = RedisClock { at: asked + took / 2, us: seconds * 1_000_000 + micros };
            if best.is_none_or(|(quickest, _)| took < quickest) {
                best = Some((took, clock));
            }
        }
        best.map(|(_, clock)| clock).ok_or_else(|| Error::odd("TIME", "was not asked"))
    }
}

#[cfg(test)]
mod tests {
    use super::Info;

    #[test]
    fn info_is_taken_apart() {
        let info = Info::parse(
            "# Commandstats\r\ncmdstat_evalsha:calls=12,usec=340,usec_per_call=28.33\r\nused_memory:99\r\n",
        );
        assert_eq!(info.part("cmdstat_evalsha", "calls"), 12.0);
        assert_eq!(info.part("cmdstat_eval", "calls"), 0.0);
        assert_eq!(info.number("used_memory"), 99.0);
        assert_eq!(info.text("nothing"), "");
    }
}
