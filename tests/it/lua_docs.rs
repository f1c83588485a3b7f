//! The pages on states and keys, and the scripts' headers, against the code and a real database.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_common::bounds::{Bounds, Deadline};
use leasehold_common::name::{BudgetName, Lane, Owner, PhaseName};
use leasehold_common::record::FailureDetail;
use leasehold_common::record::StopCause;
use leasehold_common::script;
use leasehold_common::state::{TRANSITIONS, TaskState};
use leasehold_common::store::{
    AbortRequest, LogPiece, Outcome, OutputStream, Progress, RetryAdvice, Teller, When,
};
use leasehold_tests::queue::{B, FORMAT_BYTE, Hand, Queue, T, done, end, failed, id, ms, task, task_with};

fn page(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    std::fs::read_to_string(format!("{path}{name}")).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Rows of the tables of a page: cells without their backticks.
fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let from = text.find(heading).unwrap_or_else(|| panic!("no {heading}"));
    let table = text[from..].lines().skip_while(|l| !l.starts_with('|')).take_while(|l| l.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|c| c.trim().replace('`', "")).collect();
    table.skip(2).map(cells).collect()
}

fn edges() -> BTreeSet<(String, String)> {
    let name = |state: Option<TaskState>| state.map_or_else(|| "[*]".to_owned(), |s| s.to_string());
    TRANSITIONS.iter().map(|t| (name(t.from), t.to.to_string())).collect()
}

#[test]
fn the_chart_of_the_state_machine_has_every_transition_and_no_other() {
    let text = page("docs/state-machine.md");
    let drawn = text.lines().filter_map(|line| line.trim().split_once(" --> "));
    let drawn: BTreeSet<(String, String)> = drawn.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
    assert_eq!(drawn, edges());
}

#[test]
fn the_table_of_the_state_machine_is_the_one_in_code() {
    let text = page("docs/state-machine.md");
    let told: Vec<Vec<String>> = rows(&text, "## Every transition");
    let known = |t: &leasehold_common::state::Transition| {
        let from = t.from.map_or_else(|| "-".to_owned(), |s| s.to_string());
        vec![from, t.to.to_string(), t.trigger.to_owned(), t.scripts.join(", ")]
    };
    assert_eq!(told, TRANSITIONS.iter().map(known).collect::<Vec<_>>());
    let states: Vec<(String, bool)> =
        rows(&text, "| state | meaning").into_iter().map(|r| (r[0].clone(), r[2] == "yes")).collect();
    let all = TaskState::ALL.map(|s| (s.to_string(), s.is_terminal()));
    assert_eq!(states, all);
}

/// `running -> completed, failed; aborting -> aborted` as pairs; removals left out.
fn header_edges(source: &str) -> BTreeSet<(String, String)> {
    let told = source.rsplit_once("-- TRANSITIONS: ").map_or("", |(_, rest)| rest);
    // Up to the next label; lines that go on are indented.
    let own = told.lines().enumerate().take_while(|(at, line)| *at == 0 || line.starts_with("--   "));
    let line = own.map(|(_, line)| line.trim_start_matches("--   ")).collect::<Vec<_>>().join(" ");
    let mut edges = BTreeSet::new();
    for part in line.split("; ") {
        let Some((from, to)) = part.split_once(" -> ") else { continue };
        for from in from.split(", ") {
            for to in to.split(", ").filter(|to| *to != "(gone)") {
                let from = if from == "(none)" { "[*]" } else { from };
                edges.insert((from.to_owned(), to.to_owned()));
            }
        }
    }
    edges
}

#[test]
fn the_headers_of_the_scripts_name_the_transitions_that_they_do() {
    for script in script::ALL {
        let done = TRANSITIONS.iter().filter(|t| t.scripts.contains(&script.name));
        let name = |state: Option<TaskState>| state.map_or_else(|| "[*]".to_owned(), |s| s.to_string());
        let done: BTreeSet<(String, String)> = done.map(|t| (name(t.from), t.to.to_string())).collect();
        assert_eq!(header_edges(script.source()), done, "{}.lua", script.name);
    }
}

#[test]
fn the_list_of_scripts_and_parts_is_complete() {
    let text = page("lua/README.md");
    let told = |heading: &str| {
        let names = rows(&text, heading)
            .into_iter()
            .flat_map(|r| r[0].split(", ").map(str::to_owned).collect::<Vec<_>>());
        names.collect::<BTreeSet<String>>()
    };
    let scripts = script::ALL.iter().map(|s| s.name.to_owned()).collect();
    assert_eq!(told("| script |"), scripts);
    let parts = script::ALL.iter().flat_map(|s| s.parts()).map(str::to_owned).collect();
    assert_eq!(told("| part |"), parts);
}

/// Leaves what tasks of a lane, with an owner and bounds of their own leave behind.
async fn bounded(queue: &Queue, hand: &Hand) {
    queue.claim(hand, 8).await;
    let all = |name: &str| {
        task_with(name, |t| {
            t.body.lane = Lane::new("lane").ok();
            t.body.owner = Owner::new("owner").ok();
            t.body.bounds = Bounds {
                deadline: Some(Deadline::After(ms(3_600_000))),
                silence_notice: Some(ms(1000)),
                stall_timeout: Some(ms(100_000)),
                budgets: [(BudgetName::new("calls").unwrap(), 10)].into(),
            };
        })
    };
    let first = queue.running(hand, all("before")).await;
    queue.finish(hand, done(&first)).await;
    queue.enqueue(&[all("bounded"), all("behind")]).await;
    let run = queue.claim(hand, 8).await.remove(0);
    let (name, inc, store) = (&queue.name, &hand.inc, &queue.store);
    let teller = |number| Teller { incarnation: inc, id: &run.id, run: &run.run, number };
    for (number, phase) in [(1, "fetch"), (2, "build")] {
        store.enter_phase(name, &teller(number), &PhaseName::new(phase).unwrap(), None).await.unwrap();
    }
    store.spend(name, &teller(1), &BudgetName::new("calls").unwrap(), &[1, 2]).await.unwrap();
    store.set_checkpoint(name, &teller(1), b"half").await.unwrap();
    store.tell_unkillable(name, &teller(0), "17").await.unwrap();
    queue.advance(1000);
    queue.beat(hand, &run).await;
}

/// Leaves a key of every kind behind.
async fn leave_everything(queue: &Queue) {
    let hand = Hand::new("w");
    queue.running(&Hand::new("dead"), task("reclaimed")).await;
    queue.sweep_for(T + 7000).await;
    queue.store.abort(&queue.name, &[AbortRequest::new(id("reclaimed"), "me", "why")]).await.unwrap();
    let large = |name: &str| task_with(name, |t| t.body.payload = vec![1; 3000]);
    queue.enqueue(&[large("c"), task("run"), task("f"), task("u"), task("q"), task("g"), task("ab")]).await;
    let own = |t: &mut leasehold_common::store::NewTask| t.body.policy.max_attempts = 7;
    queue.enqueue(&[task_with("s", |t| t.when = When::After(ms(90_000))), task_with("own", own)]).await;
    queue.store.await_end(&queue.name, &[id("run")], 60_000).await.unwrap();
    let runs = queue.claim(&hand, 4).await;
    for run in &runs {
        let (id, run) = (run.id.clone(), run.run.clone());
        let piece = LogPiece {
            id: id.clone(),
            run: run.clone(),
            offset: 0,
            stream: OutputStream::Out,
            text: vec![1],
        };
        queue.store.append_log(&queue.name, &hand.inc, &[piece]).await.unwrap();
        let progress = Progress { id, run, number: 1, share: Some(0.5), message: "half".to_owned() };
        queue.store.progress(&queue.name, &hand.inc, &[progress]).await.unwrap();
    }
    queue.beat(&hand, &runs[1]).await;
    queue.finish(&hand, end(&runs[0], Outcome::Completed(vec![1; 3000]))).await;
    queue.finish(&hand, failed(&runs[2], RetryAdvice::Policy)).await;
    queue.finish(&hand, end(&runs[3], Outcome::Unknown { name: "t".to_owned() })).await;
    queue
        .store
        .abort(&queue.name, &["q", "g", "ab"].map(|n| AbortRequest::new(id(n), "me", "why")))
        .await
        .unwrap();
    let rev = |name: &'static str| async move { (id(name), queue.record(name).await.rev) };
    queue.store.retry(&queue.name, &[rev("q").await]).await.unwrap();
    queue.store.delete(&queue.name, &[rev("g").await]).await.unwrap();
    queue.sweep_for(T + 1000).await;
    let watcher = Hand::new("idle");
    queue.claim(&watcher, 64).await;
    queue.seed(&["late"]).await;
    let last = queue.claim(&watcher, 8).await;
    let (message, detail) = ("x".to_owned(), FailureDetail { exit_code: Some(1), signal: None });
    queue
        .finish(&watcher, end(&last[0], Outcome::Stopped { cause: StopCause::RunTimeout, message, detail }))
        .await;
    queue.seed(&["tiny"]).await;
    let tiny = queue.claim(&watcher, 8).await;
    queue.finish(&watcher, end(&tiny[0], Outcome::Completed(vec![1]))).await;
    queue.seed(&["more"]).await;
    let info = leasehold_common::store::WorkerInfo {
        name: hand.name.clone(),
        incarnation: hand.inc.clone(),
        host: "h".to_owned(),
        pid: 1,
        mark: leasehold_common::store::ProcessMark::default(),
        started_ms: 1,
        queues: BTreeMap::new(),
        running: 0,
        status: "running".to_owned(),
    };
    bounded(queue, &watcher).await;
    queue.store.announce_worker(&info, queue.now(), ms(60_000)).await.unwrap();
    assert_eq!(queue.store.take_name(&hand.name, &hand.inc, ms(60_000)).await.unwrap(), None);
    assert!(queue.now() > B);
}

/// `Q:done:<state>` as the key that it is for this queue: `None` when the row is another one's.
fn fits(pattern: &str, key: &str, prefix: &str) -> bool {
    let pattern = pattern.replace("Q:", prefix);
    match pattern.split_once('<') {
        Some((head, _)) => key.strip_prefix(head).is_some_and(|rest| !rest.is_empty()),
        None => key == pattern,
    }
}

#[tokio::test]
async fn the_data_model_names_every_key_with_its_type_and_whether_it_expires() {
    let text = page("docs/redis-data-model.md");
    let headings = ["## Keys of a queue", "## Keys of a task", "## Registries"];
    let told: Vec<Vec<String>> = headings.iter().flat_map(|h| rows(&text, h)).collect();
    let queue = Queue::start().await;
    leave_everything(&queue).await;
    let keys: Vec<String> = queue.redis(&["KEYS", "*"]);
    let mut seen = BTreeSet::new();
    for key in &keys {
        let row = told.iter().find(|row| fits(&row[0], key, queue.keys().prefix()));
        let row = row.unwrap_or_else(|| panic!("{key} is not in the data model"));
        let found: String = queue.redis(&["TYPE", key]);
        assert_eq!(found, row[1], "{key}");
        let expires = queue.redis::<i64>(&["PTTL", key]) > 0;
        assert_eq!(expires, row[2].starts_with("TTL"), "{key} stays {}", row[2]);
        seen.insert(row[0].clone());
    }
    let unseen: Vec<&String> = told.iter().map(|r| &r[0]).filter(|k| !seen.contains(*k)).collect();
    assert_eq!(unseen, ["Q:never"], "keys that nothing writes");
    queue.check().await;
}

/// The parts of a record by their names, taken apart by the widths that the page gives: `4` = a number of so many
/// bytes, `1+` = bytes behind their count, `rest`.
fn taken_apart(table: &[Vec<String>], raw: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut rest = raw;
    let mut parts = BTreeMap::new();
    for row in table {
        let number = |bytes: &[u8]| bytes.iter().fold(0usize, |n, byte| n << 8 | usize::from(*byte));
        let (skip, take) = match row[0].strip_suffix('+') {
            Some(width) => {
                let width: usize = width.parse().unwrap();
                (width, number(&rest[..width]))
            }
            None if row[0] == "rest" => (0, rest.len()),
            None => (0, row[0].parse().unwrap()),
        };
        parts.insert(row[1].clone(), rest[skip..skip + take].to_vec());
        rest = &rest[skip + take..];
    }
    assert!(rest.is_empty(), "{} bytes that the page does not tell of", rest.len());
    parts
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

#[tokio::test]
async fn the_data_model_takes_every_record_apart_and_names_every_rare_field_and_counter() {
    let text = page("docs/redis-data-model.md");
    let (table, rare) = (rows(&text, "## The record"), rows(&text, "### Rare fields"));
    let fixed = rows(&text, "### What never changes");
    let told: BTreeSet<String> =
        rare.into_iter().flat_map(|row| row[0].split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    let queue = Queue::start().await;
    leave_everything(&queue).await;
    let mut seen = BTreeSet::new();
    let mut filled = BTreeSet::new();
    for key in queue.redis::<Vec<String>>(&["KEYS", &queue.key("task:*")]) {
        let name = key.rsplit(':').next().unwrap();
        let parts = taken_apart(&table, &queue.raw_record(name));
        let record = queue.record(name).await;
        let numbers = ["rev", "n", "f", "c", "en", "t", "bg"].map(|part| number(&parts[part]));
        let at = record.due_ms.or(record.waiting_ms).or(record.ended_ms).unwrap_or_default();
        let known = [record.rev, record.attempt, record.failures, record.reclaims, record.enqueued_ms];
        assert_eq!(numbers[..5], known, "{name}");
        let begun = [record.token.unwrap_or_default(), record.started_ms.unwrap_or_default()];
        assert_eq!(numbers[5..], begun, "{name}");
        assert_eq!(number(&parts["at"]), at, "{name}");
        assert_eq!((&parts["magic"][..], &parts["v"][..]), (&[0xc1][..], &[FORMAT_BYTE][..]), "{name}");
        let inside = taken_apart(&fixed, &parts["fixed"]);
        assert_eq!(inside["digest"].len(), 8, "{name}");
        if !parts["rare"].is_empty() {
            let fields: BTreeMap<String, serde::de::IgnoredAny> =
                rmp_serde::from_slice(&parts["rare"]).unwrap();
            seen.extend(fields.into_keys());
        }
        let any = parts.into_iter().chain(inside).filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0));
        filled.extend(any.map(|(part, _)| part));
    }
    assert_eq!(seen, told, "rare fields that are written, and those in the data model");
    let empty: Vec<&String> =
        table.iter().chain(&fixed).map(|row| &row[1]).filter(|part| !filled.contains(*part)).collect();
    assert!(empty.is_empty(), "parts that nothing fills: {empty:?}");
    let counters =
        rows(&text, "## Keys of a queue").into_iter().find(|r| r[0] == "Q:totals").unwrap().remove(3);
    for counter in queue.redis::<Vec<String>>(&["HKEYS", &queue.key("totals")]) {
        assert!(counters.split(' ').any(|c| c == counter), "{counter} is not in the data model");
    }
}
