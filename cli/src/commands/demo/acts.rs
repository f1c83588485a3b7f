//! What the demo shows, one file an act.

mod crash;
mod drain;
mod stop;

use std::time::Duration;

use leasehold_common::doctor::{self, examine};
use leasehold_producer::{Enqueue, Producer, QueueName, RawOutput, TaskId, TaskRecord};
use tokio::time::Instant;

pub(super) use crash::{kill, reclaimed};
pub(super) use drain::drain;
pub(super) use stop::{abort, timeout};

use super::plan::CommandTask;
use super::processes::Watched;
use super::show::Show;
use super::summary::Doctor;
use crate::error::Result;

/// How often anything is looked at.
const LOOK: Duration = Duration::from_millis(40);

/// How long a task may take to be claimed: slots may be taken by others for some seconds.
pub(super) const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// How long the processes of a run that has ended may take to go.
pub(super) const GONE_WITHIN: Duration = Duration::from_secs(2);

/// What every act needs.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    /// The way to the queue.
    pub(super) producer: Producer,
    /// The queue.
    pub(super) queue: QueueName,
    /// The narration.
    pub(super) show: Show,
}

impl Scene {
    /// Looks until there is something, `limit` at most.
    pub(super) async fn until<T>(
        &self,
        limit: Duration,
        mut look: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let begun = Instant::now();
        loop {
            if let Some(found) = look().await? {
                return Ok(Some(found));
            }
            if begun.elapsed() >= limit {
                return Ok(None);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A task's record.
    pub(super) async fn record(&self, id: &TaskId) -> Result<Option<TaskRecord>> {
        Ok(self.producer.record(&self.queue, id).await?)
    }

    /// A task's record once it has ended.
    pub(super) async fn ended(&self, id: &TaskId, limit: Duration) -> Result<Option<TaskRecord>> {
        let look = async || Ok(self.record(id).await?.filter(|record| record.state.is_terminal()));
        self.until(limit, look).await
    }

    /// Starts a command of the plan: see [`Self::begin`].
    pub(super) async fn start(&self, command: &CommandTask) -> Result<Option<(TaskRecord, Vec<Watched>)>> {
        self.begin(&command.id()?, command.enqueue(&self.producer)).await
    }

    /// Enqueues a command that tells its processes, and waits until it has: its record then, and they.
    pub(super) async fn begin(
        &self,
        id: &TaskId,
        command: Enqueue<RawOutput>,
    ) -> Result<Option<(TaskRecord, Vec<Watched>)>> {
        command.await?;
        self.until(STARTS_WITHIN, async || {
            let log = self.producer.log(&self.queue, id, None, 16).await?;
            let text: Vec<u8> = log.into_iter().flat_map(|piece| piece.text).collect();
            let Some(processes) = processes(&String::from_utf8_lossy(&text)) else { return Ok(None) };
            Ok(self.record(id).await?.map(|record| (record, processes)))
        })
        .await
    }

    /// The doctor's verdict on the queue.
    pub(super) async fn examine(&self) -> Result<Doctor> {
        let options = doctor::Options { queues: vec![self.queue.clone()], ..Default::default() };
        let report = examine(self.producer.store(), &options).await?;
        Ok(Doctor { clean: report.is_clean(), findings: report.findings })
    }
}

/// The processes of a line `pids LEADER GRANDCHILD`, if both live.
fn processes(text: &str) -> Option<Vec<Watched>> {
    let line = text.lines().find_map(|line| line.strip_prefix("pids "))?;
    let pids: Vec<Watched> =
        line.split_whitespace().filter_map(|pid| Watched::new(pid.parse().ok()?)).collect();
    (pids.len() == 2 && text.contains('\n')).then_some(pids)
}

/// Seconds, to the tenth.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

/// From the fastest to the slowest.
pub(super) fn span(least: u64, most: u64) -> String {
    let (least, most) = (seconds(least), seconds(most));
    if least == most { most } else { format!("{least} to {most}") }
}

/// What became of processes that should be gone.
pub(super) fn remains(alive: &[Watched]) -> String {
    match alive {
        [] => "none of its processes is left".to_owned(),
        left => format!("processes left: {:?}", left.iter().map(|process| process.pid()).collect::<Vec<_>>()),
    }
}

/// What a record that is missing, or not as hoped, is told as.
fn told(record: Option<&TaskRecord>) -> String {
    record.map_or_else(
        || "it did not end in time".to_owned(),
        |r| format!("it is {} after attempt {}", r.state, r.attempt),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_read_from_a_whole_line_only() {
        let me = std::process::id();
        assert!(processes("pids").is_none() && processes(&format!("pids {me} {me}")).is_none());
        assert_eq!(processes(&format!("x\npids {me} {me}\n")).unwrap().len(), 2);
    }

    #[test]
    fn seconds_are_told_to_the_tenth() {
        assert_eq!((seconds(2970).as_str(), seconds(60_000).as_str()), ("2.9 s", "60.0 s"));
        assert_eq!((span(2970, 2930).as_str(), span(900, 2930).as_str()), ("2.9 s", "0.9 s to 2.9 s"));
    }
}
