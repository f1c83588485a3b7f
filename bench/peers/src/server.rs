//! A private Redis on a free port of the loopback interface, and what it counts.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use redis::aio::MultiplexedConnection;

const STARTS_WITHIN: Duration = Duration::from_secs(10);
const ENDS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// By then Redis has shrunk the buffers of clients that are idle.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);

/// The server; it ends with the value.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    control: MultiplexedConnection,
    /// Commands of the measurement itself.
    asked: f64,
}

/// Seconds, seconds of Redis CPU, commands (those inside of scripts included), scripts called by clients.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    at: Instant,
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
    pub(crate) commands: f64,
    pub(crate) scripts: f64,
}

impl std::ops::Sub for Counts {
    type Output = Self;
    fn sub(self, before: Self) -> Self {
        Self {
            at: self.at,
            wall: self.at.duration_since(before.at).as_secs_f64(),
            cpu: self.cpu - before.cpu,
            commands: self.commands - before.commands,
            scripts: self.scripts - before.scripts,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) async fn start() -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let program = std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        let flags = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"];
        let child =
            Command::new(program).args(flags).stdout(Stdio::null()).spawn().context("redis-server")?;
        let url = format!("redis://127.0.0.1:{port}/");
        let (client, began) = (redis::Client::open(url.as_str())?, Instant::now());
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        loop {
            match client.get_multiplexed_async_connection_with_config(&config).await {
                Ok(control) => return Ok(Self { child, url, control, asked: 0.0 }),
                Err(error) => ensure!(began.elapsed() < STARTS_WITHIN, "Redis did not start: {error}"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(crate) async fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> Result<T> {
        self.asked += 1.0;
        Ok(redis::cmd(words[0]).arg(&words[1..]).query_async(&mut self.control).await?)
    }

    pub(crate) async fn version(&mut self) -> Result<String> {
        let text: String = self.ask(&["INFO", "server"]).await?;
        Ok(text.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default().to_owned())
    }

    /// `used_memory`, once it stands still.
    pub(crate) async fn memory(&mut self) -> Result<f64> {
        tokio::time::sleep(SETTLES_WITHIN).await;
        let text: String = self.ask(&["INFO", "memory"]).await?;
        Ok(sum(&text, &["used_memory:"]))
    }

    /// Counters as they stand.
    pub(crate) async fn counts(&mut self) -> Result<Counts> {
        let at = Instant::now();
        let text: String = self.ask(&["INFO", "everything"]).await?;
        Ok(Counts {
            at,
            wall: 0.0,
            cpu: sum(&text, &["used_cpu_user:", "used_cpu_sys:"]),
            // The one that asks is not counted yet.
            commands: sum(&text, &["cmdstat_"]) - self.asked,
            scripts: sum(&text, &["cmdstat_eval", "cmdstat_fcall"]),
        })
    }

    /// Waits until the collection at `key` has `wanted` members, as `command` counts them; what was counted then.
    pub(crate) async fn counts_once(&mut self, command: &str, key: &str, wanted: usize) -> Result<Counts> {
        let began = Instant::now();
        loop {
            let there: usize = self.ask(&[command, key]).await?;
            if there == wanted {
                return self.counts().await;
            }
            ensure!(began.elapsed() < ENDS_WITHIN, "{there} of {wanted} tasks had finished");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The sum of the first numbers of all lines of `INFO` that begin like one of these.
fn sum(info: &str, names: &[&str]) -> f64 {
    let lines = info.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    let numbers =
        lines.filter_map(|line| line.split_once(':')?.1.trim_start_matches("calls=").split(',').next());
    numbers.filter_map(|number| number.trim().parse::<f64>().ok()).sum()
}
