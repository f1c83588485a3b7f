//! What is gathered after the end, and how it is told.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use leasehold_common::doctor;
use leasehold_common::name::TaskId;
use leasehold_common::store::Store;
use leasehold_producer::AbortAnswer;
use leasehold_tests::{RedisServer, trail};

use super::ledger::End;
use super::nemesis::Deeds;
use super::plan::Queue;
use super::runs::{Attempt, attempts};
use super::verdict::{Evidence, Last, Row};
use super::work::{Desk, queue_name, task_id};

/// Most lines told of one row.
const SHOWN: usize = 20;

/// Figures and verdict of a soak.
pub(super) struct Report {
    pub(super) seed: u64,
    figures: Vec<(String, u64)>,
    verdict: Vec<Row>,
}

impl Report {
    pub(super) fn new(seed: u64, drain: Duration, deeds: Deeds, evidence: &Evidence) -> Self {
        let mut figures = vec![("tasks".to_owned(), evidence.entries.len() as u64)];
        let (mut by_end, mut answers) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
        for (_, end) in evidence.ended() {
            let kind = end.kind.filter(|_| end.state != leasehold_common::state::TaskState::Completed);
            let kind = kind.map(|kind| format!(" ({})", kind.as_str())).unwrap_or_default();
            *by_end.entry(format!("  {}{kind}", end.state)).or_default() += 1;
        }
        figures.extend(by_end);
        let sum = |of: fn(&End) -> u64| evidence.ended().map(|(_, end)| of(end)).sum::<u64>();
        let starts = evidence.attempts.values().flat_map(BTreeMap::values);
        figures.extend([
            ("attempts".to_owned(), sum(|end| end.attempt)),
            ("  that began".to_owned(), starts.map(|attempt: &Attempt| attempt.starts).sum()),
            ("reclaims".to_owned(), sum(|end| end.reclaims)),
        ]);
        figures.extend(deeds.into_iter().map(|(what, count)| (what.to_owned(), count)));
        for abort in evidence.entries.iter().flat_map(|entry| &entry.aborts) {
            *answers.entry(told(abort.answer)).or_default() += 1;
        }
        figures.push(("aborts".to_owned(), answers.values().sum()));
        figures.extend(answers);
        figures.push(("seconds of the drain".to_owned(), drain.as_secs()));
        Self { seed, figures, verdict: evidence.judge() }
    }

    pub(super) fn with(mut self, row: &'static str, found: Vec<String>) -> Self {
        self.verdict.push((row, found));
        self
    }

    pub(super) fn is_clean(&self) -> bool {
        self.verdict.iter().all(|(_, found)| found.is_empty())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nsoak of seed {}", self.seed)?;
        for (what, count) in &self.figures {
            writeln!(f, "  {what:<44} {count:>7}")?;
        }
        writeln!(f, "verdict")?;
        for (row, found) in &self.verdict {
            writeln!(f, "  {row:<44} {:>7}", found.len())?;
        }
        for (row, found) in self.verdict.iter().filter(|(_, found)| !found.is_empty()) {
            writeln!(f, "{row}:")?;
            for line in found.iter().take(SHOWN) {
                writeln!(f, "  {line}")?;
            }
            if found.len() > SHOWN {
                writeln!(f, "  and {} more", found.len() - SHOWN)?;
            }
        }
        write!(f, "soak of seed {}: {}", self.seed, if self.is_clean() { "clean" } else { "NOT CLEAN" })
    }
}

fn told(answer: AbortAnswer) -> String {
    match answer {
        AbortAnswer::Ended(state) => format!("  ended at once, {state}"),
        AbortAnswer::Requested { .. } => "  requested".to_owned(),
        AbortAnswer::Already(state) => format!("  already {state}"),
        AbortAnswer::NotFound => "  not found".to_owned(),
        AbortAnswer::Corrupt => "  corrupt".to_owned(),
    }
}

/// Records as they stand, and the trail.
pub(super) async fn gather(desk: &Desk, redis: &RedisServer) -> Evidence {
    let entries = desk.ledger.book().entries.clone();
    let mut last = BTreeMap::new();
    for queue in Queue::ALL {
        let own = entries.iter().filter(|entry| entry.planned.queue == queue);
        let ids: Vec<TaskId> = own.map(|entry| task_id(&entry.planned.id)).collect();
        for page in ids.chunks(100) {
            let records = desk.producer.records(&queue_name(queue), page).await.expect("read the records");
            for (id, record) in page.iter().zip(records) {
                let stands = record.map(|record| record.expect("it reads")).map(|record| {
                    match record.state.is_terminal() {
                        true => Last::Ended(End::from(&record)),
                        false => Last::Open(format!("{record:?}")),
                    }
                });
                last.insert(id.to_string(), stands);
            }
        }
    }
    let attempts = attempts(&trail::read(desk.trail.as_ref()));
    for queue in Queue::ALL {
        desk.read_events(queue).await.expect("read the events");
    }
    let moves = std::mem::take(&mut *desk.ledger.told()).into_values().map(|told| told.moves).collect();
    Evidence { entries, last, attempts, moves, clock_offset: clock_offset(redis) }
}

/// What tells more than a verdict that is not clean: the trail, and what the queues told of their tasks.
pub(super) fn keep(seed: u64, desk: &Desk, evidence: &Evidence) {
    let file = |what: &str| std::env::temp_dir().join(format!("leasehold-soak-{seed}.{what}"));
    std::fs::copy(&desk.trail, file("trail")).expect("keep the trail");
    let told = evidence.moves.iter().flatten().flatten().map(|step| {
        let why = String::from_utf8_lossy(&step.why);
        format!("{}#{} {}>{} {why}\n", step.id, step.attempt, step.from, step.to)
    });
    std::fs::write(file("moves"), told.collect::<String>()).expect("keep the moves");
    eprintln!("kept: {} and {}", file("trail").display(), file("moves").display());
}

/// What to add to the trail's clock to have Redis's: between the last look before and the first after.
fn clock_offset(redis: &RedisServer) -> i128 {
    let mut connection = redis.connection();
    let tries = (0..20).map(|_| {
        let (s, us): (u64, u64) = redis::cmd("TIME").query(&mut connection).expect("Redis's time");
        // Taken later than Redis's: the offset is never too large, nor are times after an end.
        i128::from(s) * 1_000_000_000 + i128::from(us) * 1000 - i128::from(trail::now_ns())
    });
    tries.max().expect("some tries")
}

/// What the doctor finds, line by line.
pub(super) async fn examine(store: &Store) -> Vec<String> {
    let options = doctor::Options { pause: Duration::from_millis(100), ..doctor::Options::default() };
    let report = doctor::examine(store, &options).await.expect("the doctor examines");
    if report.is_clean() { Vec::new() } else { report.to_string().lines().map(str::to_owned).collect() }
}
