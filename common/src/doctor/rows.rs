//! Where candidates come from: every key of the namespace, every row of every index.

use std::collections::BTreeMap;

use super::chart::{Access, Stray};
use super::exam::Exam;
use super::judge::Verdict;
use super::key::{Key, queue_of};
use super::pages::{self, Facts, PAGE};
use crate::error::Result;
use crate::keys::{LEVELS, TEXT_KINDS};
use crate::name::{QueueName, TaskId};
use crate::record::TaskRecord;
use crate::state::TaskState;

/// Of failures per task.
const ERRORS_MOST: u64 = 25;
/// Of output per task: the cap of `lua/update.lua` and one call's worth.
const LOG_MOST: u64 = 1024 * 1024 + 256 * 1024;

/// What is wrong with a key in itself. `orphan`: its task has no record.
pub(super) fn key_code(key: &Key, facts: &Facts, orphan: bool) -> Option<&'static str> {
    if facts.redis_type == "none" {
        return None;
    }
    if facts.redis_type != key.kind.redis_type {
        return Some("wrong-type");
    }
    if facts.ttl >= 0 {
        return None;
    }
    if key.kind.expires {
        return Some("missing-ttl");
    }
    (orphan && key.kind.part != "task").then_some("key-without-record")
}

/// For people.
pub(super) fn key_message(key: &Key, code: &str) -> String {
    let name = &key.name;
    match code {
        "wrong-type" => {
            format!(
                "{name} is no {}: something foreign wrote it; move it out of the way",
                key.kind.redis_type
            )
        }
        "missing-ttl" => format!("{name} never expires: `PEXPIRE` it, or remove it"),
        "key-without-record" => format!("{name} belongs to a task without a record: `UNLINK` it"),
        "errors-over-cap" => format!("{name} keeps more than {ERRORS_MOST} failures"),
        _ => format!("{name} holds more output than its cap"),
    }
}

impl Exam<'_> {
    /// Walks all keys of the namespace.
    pub(super) async fn scan_keys(&mut self) -> Result<()> {
        let mut cursor = 0;
        loop {
            let (next, names) = pages::keys(self.store, cursor).await?;
            let mut keys = Vec::with_capacity(names.len());
            for name in names {
                keys.extend(self.known(&name));
            }
            self.check_keys(keys).await?;
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Reads a key's name. What is of no known kind is told; `Q:never` is told of elsewhere.
    fn known(&mut self, name: &[u8]) -> Option<Key> {
        let namespace = self.store.namespace();
        let queue = queue_of(namespace, name);
        let wanted = queue.as_ref().map_or(self.options.queues.is_empty(), |q| self.wants(q));
        if !wanted {
            return None;
        }
        let key = Key::read(namespace, name);
        let never = queue.as_ref().is_some_and(|q| self.store.keys(q).never().as_bytes() == name);
        if key.is_none() && !never {
            let message = format!(
                "{} is no key of this release: foreign data under our prefix, or a newer release's",
                String::from_utf8_lossy(name)
            );
            self.tally.add(queue.as_ref(), Verdict::breach("unknown-key", message));
        }
        key
    }

    async fn check_keys(&mut self, keys: Vec<Key>) -> Result<()> {
        let mut tasks: BTreeMap<QueueName, Vec<TaskId>> = BTreeMap::new();
        for key in &keys {
            if let (Some(queue), Some(id)) = (&key.queue, &key.task) {
                tasks.entry(queue.clone()).or_default().push(id.clone());
            }
        }
        for (queue, ids) in tasks {
            self.judge_new(&queue, ids).await?;
        }
        let facts = pages::facts(self.store, &keys).await?;
        let capped = self.over_cap(&keys, &facts).await?;
        for (key, facts) in keys.into_iter().zip(facts) {
            let Some(queue) = key.queue.clone() else {
                // Registries lie in no queue: judged at once, but for the TTL of a worker that is just being written.
                if let Some(code @ "wrong-type") = key_code(&key, &facts, false) {
                    self.tally.add(None, Verdict::breach(code, key_message(&key, code)));
                }
                continue;
            };
            let over = capped.contains(&key.name);
            let chart = self.chart(&queue).await?;
            chart.lasting |= facts.ttl == -1;
            if TEXT_KINDS.contains(&key.kind) && facts.redis_type == "zset" {
                self.scan_members(&queue, &key.name).await?;
                self.rows_of_no_task(&queue, &key.name).await?;
                self.rows_of_others(&queue, &key).await?;
                continue;
            }
            let orphan = key.task.as_ref().is_some_and(|id| chart.no_record.contains(id));
            if let Some(code) = key_code(&key, &facts, orphan) {
                chart.doubt_key(key, code);
            } else if over {
                let code = if key.kind.part == "errors" { "errors-over-cap" } else { "log-over-cap" };
                self.tally.add(
                    Some(&queue),
                    Verdict { id: key.task.clone(), ..Verdict::breach(code, key_message(&key, code)) },
                );
            }
        }
        Ok(())
    }

    /// The names of lists of failures and of logs that are too long.
    async fn over_cap(&self, keys: &[Key], facts: &[Facts]) -> Result<Vec<String>> {
        let sound = keys.iter().zip(facts).filter(|(k, f)| f.redis_type == k.kind.redis_type);
        let kept: Vec<&Key> =
            sound.map(|(k, _)| k).filter(|k| ["errors", "log"].contains(&k.kind.part)).collect();
        let mut over = Vec::new();
        for (key, size) in kept.iter().zip(pages::sizes(self.store, &kept).await?) {
            let too_long = match key.kind.part {
                "errors" => size > ERRORS_MOST,
                // Memory is more than text: only what could be over its cap is read.
                _ => size > LOG_MOST && pages::log_bytes(self.store, &key.name).await? > LOG_MOST,
            };
            if too_long {
                over.push(key.name.clone());
            }
        }
        Ok(over)
    }

    /// Walks the indexes of a queue.
    pub(super) async fn scan_rows(&mut self, queue: &QueueName) -> Result<()> {
        let keys = self.store.keys(queue);
        let Some(look) = self.look(queue, &[]).await? else { return Ok(()) };
        let wrong = look.facts.wrong_types;
        let sound = |key: &str| keys.suffix_of(key).is_some_and(|suffix| !wrong.iter().any(|w| w == suffix));
        for level in LEVELS {
            let key = keys.ready(level);
            if sound(&key) {
                self.scan_entries(queue, level, &key).await?;
            }
        }
        let ended = TaskState::ALL.into_iter().filter(|s| s.is_terminal()).map(|s| keys.done(s));
        let live = [keys.running(), keys.scheduled(), keys.waiting(), keys.deadlines()];
        for key in live.into_iter().chain(ended) {
            if sound(&key) {
                self.scan_members(queue, &key).await?;
            }
        }
        Ok(())
    }

    async fn scan_members(&mut self, queue: &QueueName, key: &str) -> Result<()> {
        let mut cursor = 0;
        loop {
            let (next, rows) = pages::members(self.store, key, cursor).await?;
            let mut ids = Vec::with_capacity(rows.len());
            for row in rows {
                match String::from_utf8(row).ok().and_then(|text| TaskId::new(text).ok()) {
                    Some(id) => ids.push(id),
                    None => {
                        let message =
                            format!("{key} holds a row that is no task id: something foreign wrote it");
                        self.tally.add(Some(queue), Verdict::breach("stray-row", message));
                    }
                }
            }
            self.judge_new(queue, ids).await?;
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Rows of a lane or an owner that name no task: they go with their tasks in one step, so a row that is there before and
    /// after the task is not is one too many.
    async fn rows_of_no_task(&mut self, queue: &QueueName, key: &str) -> Result<()> {
        let missing: Vec<TaskId> = self.chart(queue).await?.no_record.iter().cloned().collect();
        for page in missing.chunks(PAGE) {
            let there = pages::those_in(self.store, key, page).await?;
            let Some(look) = self.look(queue, &there).await? else { return Ok(()) };
            let lost: Vec<TaskId> =
                look.tasks.into_iter().filter(|p| p.record.is_none()).map(|p| p.id).collect();
            for id in pages::those_in(self.store, key, &lost).await? {
                let message = format!(
                    "{key} names a task that has no record: `leasehold doctor --repair` removes the row"
                );
                let verdict = Verdict::breach("row-without-record", message).at(self.place(queue, key));
                self.tally.add(Some(queue), Verdict { id: Some(id), ..verdict });
            }
        }
        Ok(())
    }

    /// What a repair calls a key of the queue.
    fn place(&self, queue: &QueueName, key: &str) -> String {
        self.store.keys(queue).suffix_of(key).unwrap_or_default().to_owned()
    }

    /// Rows of a lane or an owner whose records say another one: seen before and after the record.
    async fn rows_of_others(&mut self, queue: &QueueName, key: &Key) -> Result<()> {
        let keys = self.store.keys(queue);
        let mut cursor = 0;
        loop {
            let (next, rows) = pages::members(self.store, &key.name, cursor).await?;
            let ids = rows.into_iter().filter_map(|row| TaskId::new(String::from_utf8(row).ok()?).ok());
            let mut ids: Vec<TaskId> = ids.collect();
            ids.sort();
            for page in ids.chunks(PAGE) {
                let Some(look) = self.look(queue, page).await? else { return Ok(()) };
                let own = |record: &TaskRecord| match key.kind.part {
                    "owner" => record.owner.as_ref().map(|owner| keys.owner(owner)),
                    "lane" => record.lane.as_ref().map(|lane| keys.lane(lane)),
                    _ => record.lane.as_ref().map(|lane| keys.lane_ends(lane)),
                };
                let says_another = |record: &TaskRecord| own(record).as_ref() != Some(&key.name);
                let known = look.tasks.into_iter().filter_map(|p| Some((p.id, p.record?.ok()?)));
                let strangers: Vec<TaskId> =
                    known.filter(|(_, record)| says_another(record)).map(|(id, _)| id).collect();
                for id in pages::those_in(self.store, &key.name, &strangers).await? {
                    let message = format!(
                        "{} names it, its record does not: `leasehold doctor --repair` removes the row",
                        key.name
                    );
                    let verdict = Verdict::breach("row-of-another", message).at(self.place(queue, &key.name));
                    self.tally.add(Some(queue), Verdict { id: Some(id), ..verdict });
                }
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Each entry is the one that a queued record names. Seen before a look and, again, after it: that is proof.
    async fn scan_entries(&mut self, queue: &QueueName, level: &'static str, key: &str) -> Result<()> {
        let mut after = "-".to_owned();
        loop {
            let page = pages::entries(self.store, key, &after).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = format!("({last}");
            let mut named = Vec::new();
            for (entry, task) in page {
                let task = task.and_then(|t| String::from_utf8(t).ok()).and_then(|t| TaskId::new(t).ok());
                named.push(Stray { level, entry, task });
            }
            for stray in self.not_queued_under(queue, named).await? {
                self.chart(queue).await?.doubt_entry(stray);
            }
        }
    }

    /// Those of some entries (at most a page) that no queued record names.
    pub(super) async fn not_queued_under(
        &mut self,
        queue: &QueueName,
        entries: Vec<Stray>,
    ) -> Result<Vec<Stray>> {
        let ids: Vec<TaskId> = entries.iter().filter_map(|e| e.task.clone()).collect();
        self.judge_new(queue, ids.clone()).await?;
        if self.chart(queue).await?.access != Access::Open {
            return Ok(Vec::new());
        }
        let Some(look) = self.look(queue, &ids).await? else { return Ok(Vec::new()) };
        let named = |stray: &Stray| {
            let run = format!("{}:{}", stray.level, stray.entry);
            look.tasks.iter().any(|places| {
                Some(&places.id) == stray.task.as_ref()
                    && match &places.record {
                        Some(Ok(r)) => {
                            r.state == TaskState::Queued && r.entry.as_deref() == Some(run.as_str())
                        }
                        // Told of already.
                        Some(Err(_)) => true,
                        None => false,
                    }
            })
        };
        Ok(entries.into_iter().filter(|stray| !named(stray)).collect())
    }
}
