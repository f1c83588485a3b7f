//! One examination: candidates in, atomic looks, verdicts out.

use std::collections::BTreeMap;

use super::chart::{Access, Chart};
use super::counts;
use super::judge::{self, Moment, Verdict};
use super::pages::PAGE;
use super::report::{Report, Severity};
use super::tally::Tally;
use super::{Options, server};
use crate::error::{Error, Result};
use crate::name::{QueueName, TaskId};
use crate::store::{Inspection, Store, WorkerInfo};

/// An examination under way.
#[derive(Debug)]
pub(super) struct Exam<'a> {
    pub(super) store: &'a Store,
    pub(super) options: &'a Options,
    pub(super) workers: Vec<WorkerInfo>,
    pub(super) charts: BTreeMap<QueueName, Chart>,
    pub(super) tally: Tally,
}

/// An error about one queue as a finding; only what may pass is an error of the examination.
pub(super) fn as_finding(error: Error) -> Result<Verdict> {
    if error.is_retryable() {
        return Err(error);
    }
    Ok(match error {
        Error::NewerFormat { .. } => Verdict::breach("newer-format", format!("not examined: {error}")),
        Error::Rejected(_) | Error::Invalid { .. } => return Err(error),
        Error::ForeignData { .. } => Verdict::breach("wrong-type", error.to_string()),
        _ => Verdict::breach(
            "unreadable",
            format!("not examined: {error}: check the fields of its config key (v, lease_ms, retain_*)"),
        ),
    })
}

impl<'a> Exam<'a> {
    pub(super) fn new(store: &'a Store, options: &'a Options) -> Self {
        let tally = Tally::new(options.each);
        Self { store, options, workers: Vec::new(), charts: BTreeMap::new(), tally }
    }

    pub(super) async fn run(mut self) -> Result<Report> {
        if self.options.server {
            for verdict in server::judge(&self.store.server_info().await?.checks()) {
                self.tally.add(None, verdict);
            }
        }
        self.workers = self.store.workers().await?;
        for verdict in server::workers(&self.workers) {
            self.tally.add(None, verdict);
        }
        let announced = self.store.queues().await?;
        for queue in announced.iter().chain(&self.options.queues) {
            if self.wants(queue) {
                self.chart(queue).await?;
            }
        }
        self.scan_keys().await?;
        for queue in self.charts.keys().cloned().collect::<Vec<_>>() {
            self.scan_rows(&queue).await?;
            self.count(&queue).await?;
            self.check_registration(&queue, &announced);
        }
        self.look_again().await?;
        let queues = self.charts.into_values().filter_map(|chart| chart.report).collect();
        let (findings, rows) = self.tally.finish();
        Ok(Report { queues, findings, rows })
    }

    /// Is this queue to be examined?
    pub(super) fn wants(&self, queue: &QueueName) -> bool {
        self.options.queues.is_empty() || self.options.queues.contains(queue)
    }

    /// The chart of a queue, begun with one look at it.
    pub(super) async fn chart(&mut self, queue: &QueueName) -> Result<&mut Chart> {
        if !self.charts.contains_key(queue) {
            let access = match self.store.inspect(queue, &[]).await {
                Ok(Some(_)) => Access::Open,
                Ok(None) => Access::Unregistered,
                Err(error) => {
                    self.tally.add(Some(queue), as_finding(error)?);
                    Access::Closed
                }
            };
            self.charts.insert(queue.clone(), Chart::new(access, self.options.each));
        }
        Ok(self.charts.entry(queue.clone()).or_insert_with(|| Chart::new(Access::Closed, self.options.each)))
    }

    /// Looks at the ids that were not looked at before.
    pub(super) async fn judge_new(&mut self, queue: &QueueName, ids: Vec<TaskId>) -> Result<()> {
        let chart = self.chart(queue).await?;
        if chart.access != Access::Open {
            return Ok(());
        }
        let new: Vec<TaskId> = ids.into_iter().filter(|id| chart.note(id)).collect();
        for page in new.chunks(PAGE) {
            let Some(look) = self.look(queue, page).await? else { return Ok(()) };
            let moment = Moment::of(&look);
            for places in &look.tasks {
                let verdicts = judge::task(&moment, places);
                let chart = self.chart(queue).await?;
                if places.record.is_none() {
                    chart.no_record.insert(places.id.clone());
                }
                self.sort_in(queue, verdicts).await?;
            }
        }
        Ok(())
    }

    /// Tells verdicts; those that need a second look wait for it.
    async fn sort_in(&mut self, queue: &QueueName, verdicts: Vec<Verdict>) -> Result<()> {
        for verdict in verdicts {
            if verdict.doubtful {
                self.chart(queue).await?.doubt(verdict);
            } else {
                self.tally.add(Some(queue), verdict);
            }
        }
        Ok(())
    }

    /// One atomic look; none when the queue cannot be looked into, which is told.
    pub(super) async fn look(&mut self, queue: &QueueName, ids: &[TaskId]) -> Result<Option<Inspection>> {
        match self.store.inspect(queue, ids).await {
            Ok(look) => Ok(look),
            Err(error) => {
                self.tally.add(Some(queue), as_finding(error)?);
                self.chart(queue).await?.access = Access::Closed;
                Ok(None)
            }
        }
    }

    /// Judges the counts of a queue and its service.
    async fn count(&mut self, queue: &QueueName) -> Result<()> {
        if self.chart(queue).await?.access != Access::Open {
            return Ok(());
        }
        let Some(look) = self.look(queue, &[]).await? else { return Ok(()) };
        let moment = Moment::of(&look);
        let mut verdicts = counts::queue(&moment, &look.facts);
        verdicts.extend(counts::service(&moment, &look.facts, queue, &self.workers));
        self.sort_in(queue, verdicts).await?;
        let workers = std::mem::take(&mut self.workers);
        self.chart(queue).await?.fill(queue, &look, &workers);
        self.workers = workers;
        Ok(())
    }

    /// A queue has its config and is announced. Two slots, and two steps when it is made: two looks.
    fn check_registration(&mut self, queue: &QueueName, announced: &[QueueName]) {
        let Some(chart) = self.charts.get_mut(queue) else { return };
        match chart.access {
            Access::Unregistered if chart.lasting => {
                let message = "it has keys but no config: nothing works on it until it is registered again \
                               (any enqueue does, with default settings)";
                chart.doubt(Verdict::breach(NO_CONFIG, message).doubtful());
            }
            Access::Unregistered => {
                let message = "it is not registered and has nothing: its first enqueue makes it";
                self.tally.add(Some(queue), Verdict::new(Severity::Note, "queue-empty", message));
            }
            Access::Open if !announced.contains(queue) => {
                let message = "it is not among the announced queues: no reaper or list knows it; workers and \
                               reapers that serve it announce it every minute";
                chart.doubt(Verdict::new(Severity::Warning, NOT_ANNOUNCED, message).doubtful());
            }
            Access::Open | Access::Closed => {}
        }
    }
}

/// Lasting keys, but no config.
pub(super) const NO_CONFIG: &str = "config-missing";
/// A queue that the registry does not know.
pub(super) const NOT_ANNOUNCED: &str = "queue-not-announced";
