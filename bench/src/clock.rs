//! Time, and CPU of Redis and of this process, over a stretch of work.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::error::Result;
use crate::lab::Lab;

/// A stretch of work that is under way.
#[derive(Debug)]
pub(crate) struct Clock<'a> {
    lab: &'a Lab<'a>,
    load: Option<&'static str>,
    redis: f64,
    client: f64,
    began: Instant,
}

/// What a stretch of work cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lap {
    /// Tasks or entries.
    pub(crate) tasks: f64,
    /// Seconds.
    pub(crate) wall: f64,
    /// CPU seconds of Redis.
    pub(crate) redis: f64,
    /// CPU seconds of this process.
    pub(crate) client: f64,
}

impl Lap {
    /// Tasks per second.
    pub(crate) fn rate(&self) -> f64 {
        crate::spread::ratio(self.tasks, self.wall)
    }

    /// Microseconds of Redis CPU per task.
    pub(crate) fn redis_us(&self) -> f64 {
        crate::spread::ratio(self.redis * 1e6, self.tasks)
    }

    /// Microseconds of CPU of this process per task.
    pub(crate) fn client_us(&self) -> f64 {
        crate::spread::ratio(self.client * 1e6, self.tasks)
    }
}

impl<'a> Clock<'a> {
    /// Starts over a stretch whose calls do not count for the latency row.
    pub(crate) async fn start(lab: &'a Lab<'a>) -> Result<Self> {
        Self::start_over(lab, None).await
    }

    /// Starts over a stretch of this load, for the latency row.
    pub(crate) async fn start_load(lab: &'a Lab<'a>, load: &'static str) -> Result<Self> {
        Self::start_over(lab, Some(load)).await
    }

    async fn start_over(lab: &'a Lab<'a>, load: Option<&'static str>) -> Result<Self> {
        if load.is_some() {
            lab.latency.begin(&lab.server).await?;
        }
        let redis = lab.server.cpu().await?;
        Ok(Self { lab, load, redis, client: own_cpu()?, began: Instant::now() })
    }

    /// Ends.
    pub(crate) async fn stop(self, tasks: usize) -> Result<Lap> {
        let wall = self.began.elapsed().as_secs_f64();
        self.stop_after(tasks, wall).await
    }

    /// How long it goes already.
    pub(crate) fn wall(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Ends, for work that took `wall` seconds and was ended since.
    pub(crate) async fn stop_after(self, tasks: usize, wall: f64) -> Result<Lap> {
        let client = own_cpu()? - self.client;
        let redis = self.lab.server.cpu().await? - self.redis;
        if let Some(load) = self.load {
            self.lab.latency.end(&self.lab.server, load).await?;
        }
        Ok(Lap { tasks: tasks as f64, wall, redis, client })
    }
}

/// CPU seconds of this process.
fn own_cpu() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(std::io::Error::from)?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// A moment of this process as a number: nanoseconds since the first time that this was asked.
pub(crate) fn nanos_of(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds as milliseconds.
pub(crate) fn ms(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e3
}
