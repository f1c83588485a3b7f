//! Attempts as the trail shows them.

use std::collections::BTreeMap;

use leasehold_tests::trail::Line;

/// One attempt: at `first` and at `last` it certainly ran.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) task: String,
    pub(super) number: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    /// How often it was started: once.
    pub(super) starts: u64,
    /// It came to its own end.
    pub(super) ended: bool,
    /// What it was told to have spent.
    pub(super) spent: u64,
}

/// All attempts by task, each task's by number.
pub(super) type Attempts = BTreeMap<String, BTreeMap<u64, Attempt>>;

pub(super) fn attempts(lines: &[Line]) -> Attempts {
    let mut all = Attempts::new();
    for line in lines {
        let of_task = all.entry(line.task.clone()).or_default();
        let attempt = of_task.entry(line.attempt).or_insert_with(|| Attempt {
            task: line.task.clone(),
            number: line.attempt,
            first: line.at,
            last: line.at,
            starts: 0,
            ended: false,
            spent: 0,
        });
        // Processes of one attempt may write in another order than they took their times.
        attempt.first = attempt.first.min(line.at);
        attempt.last = attempt.last.max(line.at);
        match line.what.as_str() {
            "start" => attempt.starts += 1,
            "end" => attempt.ended = true,
            other => {
                let amount = other.strip_prefix("spent:").and_then(|amount| amount.parse::<u64>().ok());
                attempt.spent += amount.unwrap_or(0);
            }
        }
    }
    all
}

/// Moments at which more than `limit` of these ran: each with all that did.
pub(super) fn crowds(attempts: &[&Attempt], limit: usize) -> Vec<String> {
    let mut by_start = attempts.to_vec();
    by_start.sort_by_key(|attempt| attempt.first);
    let (mut running, mut found): (Vec<&Attempt>, Vec<String>) = (Vec::new(), Vec::new());
    for attempt in by_start {
        running.retain(|other| other.last > attempt.first);
        running.push(attempt);
        if running.len() > limit {
            let shown: Vec<String> = running.iter().map(|one| describe(one)).collect();
            found.push(format!("{} at once: {}", running.len(), shown.join("; ")));
        }
    }
    found
}

/// For people: whose, and from when to when, in ms of the monotonic clock.
pub(super) fn describe(attempt: &Attempt) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let (first, last) = (ms(attempt.first), ms(attempt.last));
    format!("{}#{} {first:.3} to {last:.3}", attempt.task, attempt.number)
}

#[test]
fn crowds_are_found_where_times_meet_and_nowhere_else() {
    let line = |task: &str, attempt, what: &str, at| Line {
        task: task.to_owned(),
        attempt,
        lane: Some("a".to_owned()),
        what: what.to_owned(),
        at,
        pid: 1,
    };
    let found = attempts(&[
        line("one", 1, "start", 10),
        line("one", 1, "tick", 20),
        line("two", 1, "start", 30),
        line("two", 1, "end", 50),
        // The first attempt of `one` goes on: it met `two`.
        line("one", 1, "spent:4", 40),
        line("one", 2, "start", 60),
    ]);
    let all: Vec<&Attempt> = found.values().flat_map(BTreeMap::values).collect();
    assert_eq!(crowds(&all, 1).len(), 1);
    assert!(crowds(&all, 2).is_empty());
    let (one, two) = (&found["one"], &found["two"]);
    assert_eq!((one[&1].starts, one[&1].spent, one[&1].ended, two[&1].ended), (1, 4, false, true));
    assert!(crowds(&one.values().collect::<Vec<_>>(), 1).is_empty());
}
