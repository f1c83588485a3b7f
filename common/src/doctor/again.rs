//! The second look: what it finds again is told, the rest was passing.

use super::chart::{Access, Chart};
use super::counts;
use super::exam::{Exam, NO_CONFIG, NOT_ANNOUNCED};
use super::judge::{self, Moment, Verdict};
use super::key::Key;
use super::pages::{self, PAGE};
use super::rows::{key_code, key_message};
use crate::error::Result;
use crate::name::{QueueName, TaskId};

impl Exam<'_> {
    /// Waits, and looks again at what was in doubt.
    pub(super) async fn look_again(&mut self) -> Result<()> {
        if !self.charts.values().any(Chart::has_doubts) {
            return Ok(());
        }
        tokio::time::sleep(self.options.pause).await;
        self.workers = self.store.workers().await?;
        let announced = self.store.queues().await?;
        for queue in self.charts.keys().cloned().collect::<Vec<_>>() {
            self.doubts_again(&queue, &announced).await?;
            self.entries_again(&queue).await?;
            self.keys_again(&queue).await?;
        }
        Ok(())
    }

    async fn doubts_again(&mut self, queue: &QueueName, announced: &[QueueName]) -> Result<()> {
        let doubts = std::mem::take(&mut self.chart(queue).await?.doubts);
        if doubts.is_empty() {
            return Ok(());
        }
        let found = self.verdicts_again(queue, &doubts).await?;
        for doubt in doubts {
            let again = match doubt.code {
                NO_CONFIG => self.store.inspect(queue, &[]).await.is_ok_and(|look| look.is_none()),
                NOT_ANNOUNCED => !announced.contains(queue),
                _ => found.iter().any(|verdict| verdict.is_again(&doubt)),
            };
            if again {
                self.tally.add(Some(queue), doubt);
            }
        }
        Ok(())
    }

    /// What looks at the queue and the doubted tasks find now.
    async fn verdicts_again(&mut self, queue: &QueueName, doubts: &[Verdict]) -> Result<Vec<Verdict>> {
        let mut found = Vec::new();
        let mut ids: Vec<TaskId> = doubts.iter().filter_map(|d| d.id.clone()).collect();
        ids.sort();
        ids.dedup();
        // The queue itself is looked at even if no task is in doubt.
        let pages = if ids.is_empty() { vec![&ids[..]] } else { ids.chunks(PAGE).collect() };
        for page in pages {
            let Some(look) = self.look(queue, page).await? else { return Ok(found) };
            let moment = Moment::of(&look);
            found.extend(look.tasks.iter().flat_map(|places| judge::task(&moment, places)));
            found.extend(counts::queue(&moment, &look.facts));
            found.extend(counts::service(&moment, &look.facts, queue, &self.workers));
        }
        Ok(found)
    }

    /// Entry ids are used once: an entry that is there before and after a look was there at the look.
    async fn entries_again(&mut self, queue: &QueueName) -> Result<()> {
        let strays = std::mem::take(&mut self.chart(queue).await?.strays);
        let keys = self.store.keys(queue);
        for page in strays.chunks(PAGE) {
            for stray in self.not_queued_under(queue, page.to_vec()).await? {
                if !pages::has_entry(self.store, &keys.ready(stray.level), &stray.entry).await? {
                    continue;
                }
                let message = format!(
                    "entry {} of level {} belongs to no queued task: the claim that reads it drops it, or \
                     `leasehold doctor --repair`",
                    stray.entry, stray.level
                );
                let verdict = Verdict::breach("stray-entry", message)
                    .at(format!("ready:{} {}", stray.level, stray.entry));
                self.tally.add(Some(queue), Verdict { id: stray.task, ..verdict });
            }
        }
        Ok(())
    }

    async fn keys_again(&mut self, queue: &QueueName) -> Result<()> {
        let doubted = std::mem::take(&mut self.chart(queue).await?.doubted_keys);
        for page in doubted.chunks(PAGE) {
            let keys: Vec<Key> = page.iter().map(|(key, _)| key.clone()).collect();
            let ids: Vec<TaskId> = keys.iter().filter_map(|key| key.task.clone()).collect();
            let facts = pages::facts(self.store, &keys).await?;
            let recorded: Vec<TaskId> = if self.chart(queue).await?.access == Access::Open {
                let look = self.look(queue, &ids).await?;
                let tasks = look.map(|l| l.tasks).unwrap_or_default();
                tasks.into_iter().filter(|p| p.record.is_some()).map(|p| p.id).collect()
            } else {
                ids
            };
            for ((key, code), facts) in page.iter().zip(facts) {
                let orphan = key.task.as_ref().is_some_and(|id| !recorded.contains(id));
                if key_code(key, &facts, orphan) == Some(code) {
                    let verdict = Verdict::breach(code, key_message(key, code));
                    self.tally.add(Some(queue), Verdict { id: key.task.clone(), ..verdict });
                }
            }
        }
        Ok(())
    }
}
