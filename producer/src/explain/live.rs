//! Tasks that have not ended.

use leasehold_common::text::{printable, shell_word};
use leasehold_common::time::{as_ms, display_duration, display_seconds};

use super::words::{self, by_whom, moment, next_bound, outcome_of, quote, several, worker};
use super::{Facts, Said};
use crate::{QueueName, TaskDetail, TaskRecord, TaskState};

/// How long a name that no worker knows is handed back: the bound of `lua/lib/outcome.lua`.
const UNKNOWN_NAME_MS: u64 = 300_000;

pub(super) fn scheduled(detail: &TaskDetail, facts: &Facts) -> Said {
    let (r, now) = (&detail.record, facts.now_ms);
    let due = r.due_ms.unwrap_or(now);
    let last = detail.last_failure().filter(|failure| failure.attempt == r.attempt);
    let (since_ms, why) = match (r.unknown_since_ms, last) {
        _ if r.attempt == 0 => (Some(r.enqueued_ms), "It was enqueued for later.".to_owned()),
        (Some(since), _) => {
            let name = detail.body.as_ref().map(|body| format!(" {}", body.name)).unwrap_or_default();
            let until = moment(since + UNKNOWN_NAME_MS, now);
            let why = format!(
                "No worker that claimed it since {} knew its name{name}: it is handed back with growing delay, at no \
                 cost, and fails as rejected when none knows it at {until}.",
                moment(since, now)
            );
            (None, why)
        }
        (None, Some(failure)) => {
            let spent = format!("failure {} of at most {}", r.failures, r.policy.max_attempts);
            let why = format!(
                "Attempt {} failed ({}), {spent}: it waits out the delay before its next attempt.",
                r.attempt,
                words::failure(failure)
            );
            (Some(failure.at_ms), why)
        }
        (None, None) => (None, format!("Attempt {} asked for later (snooze), at no cost.", r.attempt)),
    };
    // Who has run keeps its place across attempts.
    let turn = if r.attempt > 0 { ", with the turn that it has kept" } else { " and it takes its turn" };
    let lane = r.lane.as_ref().map(|lane| format!("{turn} in lane {:?}", lane.as_str())).unwrap_or_default();
    let what = if r.attempt > 0 { " for its next attempt" } else { "" };
    let when = if due > now {
        format!(
            "At {} it is due{what}: a claim of a worker or a sweep of the reaper queues it{lane}.",
            moment(due, now)
        )
    } else {
        format!("It is due{what}: the next claim of a worker or sweep of the reaper queues it{lane}.")
    };
    Said { since_ms, why: vec![why], next: vec![when], by_ms: Some(due) }
}

pub(super) fn waiting(r: &TaskRecord, facts: &Facts) -> Said {
    let now = facts.now_ms;
    let lane = r.lane.as_ref().map_or("", |lane| lane.as_str());
    let at_a_time = several(facts.lane_limit, "task");
    let ahead = match facts.ahead_in_lane {
        Some(n) => format!("{} ahead of it", if n == 1 { "1 is".to_owned() } else { format!("{n} are") }),
        None => "it has lost its place there, which `leasehold doctor` tells more of".to_owned(),
    };
    let mut why =
        vec![format!("It takes its turn in lane {lane:?}, where {at_a_time} may run at a time: {ahead}.")];
    why.extend(facts.lane_turns.iter().map(|task| turn(task, now)));
    why.extend(facts.lane_unreadable.iter().map(|id| {
        let id = printable(id.as_str());
        format!(
            "The record of task {id}, which is at its head, cannot be read: `leasehold doctor` tells more."
        )
    }));
    let more = facts.lane_limit.saturating_sub(facts.lane_turns.len() as u64);
    if !facts.lane_turns.is_empty() && more > 0 {
        why.push(format!("Up to {more} more have their turn beside."));
    }
    let next = "When one of those ends, however it does, the same script queues the next in order: nobody has to help.";
    Said { since_ms: r.waiting_ms, why, next: vec![next.to_owned()], by_ms: None }
}

/// What a task does with its turn, and what ends that.
fn turn(task: &TaskRecord, now: u64) -> String {
    let id = printable(task.id.as_str());
    match task.state {
        TaskState::Running | TaskState::Aborting => {
            let since = task.started_ms.map(|ms| format!(" since {}", moment(ms, now))).unwrap_or_default();
            let bound = match (&task.stop, next_bound(task, None)) {
                _ if task.unkillable.is_some() => ", whose processes the system does not end".to_owned(),
                (Some(stop), _) => format!(", ends at {} at the latest", moment(stop.hard_end_ms, now)),
                (None, Some((cause, at))) => format!(", until its {} at {}", cause.as_str(), moment(at, now)),
                (None, None) => ", without a bound of time".to_owned(),
            };
            format!("Task {id} is {} there on {}{since}{bound}.", task.state, worker(task))
        }
        TaskState::Scheduled => {
            let due = task.due_ms.map(|ms| format!(" at {}", moment(ms, now))).unwrap_or_default();
            format!("Task {id} keeps its turn until its next attempt{due}.")
        }
        state => format!("Task {id} has its turn and is {state}."),
    }
}

pub(super) fn queued(queue: &QueueName, r: &TaskRecord, facts: &Facts) -> Said {
    let (level, since) = r.queued_in().map_or(("normal", None), |(level, ms)| (level, Some(ms)));
    let before = facts.queued_up_to_it.saturating_sub(1);
    let place = if words::is_again(level) {
        "It came back from a worker that stopped or died, and goes before others of its priority".to_owned()
    } else {
        format!("It is ready at priority {level}")
    };
    let mut why = vec![format!("{place}; at most {} before it.", several(before, "task"))];
    if r.attempt > 0 {
        why.push(format!("It was claimed {} before.", several(r.attempt, "time")));
    }
    if let Some(lane) = &r.lane {
        why.push(format!("It has its turn in lane {:?}.", lane.as_str()));
    }
    let next = if facts.workers > 0 {
        let (workers, slots) = (several(facts.workers as u64, "worker"), several(facts.slots as u64, "slot"));
        format!("A worker of queue {queue} claims it as soon as a slot is free: {workers} with {slots} live.")
    } else {
        format!(
            "Nobody acts until a worker of queue {queue} claims it, and none lives: start one, such as `leasehold worker \
             --queue {queue}=8`."
        )
    };
    Said { since_ms: since, why, next: vec![next], by_ms: None }
}

pub(super) fn running(detail: &TaskDetail, facts: &Facts) -> Said {
    let (r, now) = (&detail.record, facts.now_ms);
    let mut why = vec![format!("{} runs it, attempt {}.", capital(&worker(r)), r.attempt)];
    if let Some(phase) = r.phase.as_ref().filter(|phase| phase.ended_ms.is_none()) {
        let most = phase.timeout_ms.map_or_else(
            || "without a bound of its own".to_owned(),
            |ms| format!("which may take {}", display_seconds(ms)),
        );
        why.push(format!("It is in phase {} since {}, {most}.", phase.name, moment(phase.since_ms, now)));
    }
    why.extend(words::silence(r, now));
    let mut next = Vec::new();
    if r.suspected {
        let within = display_duration(facts.lease + facts.lease / 3);
        why.push("A look of the reaper found no lease: its worker may be dead.".to_owned());
        next.push(format!(
            "The reaper decides at its second look, within {within}: without a lease then it is reclaimed."
        ));
    }
    let grace = display_duration(r.policy.stop_grace);
    let bound = next_bound(r, detail.body.as_ref().map(|body| &body.bounds));
    let by_ms = match (&r.stop, bound) {
        (Some(stop), _) => {
            why.push(format!("It was asked to end ({}){}.", stop.cause.as_str(), by_whom(stop)));
            next.push(ends(r, stop.at_ms + stop.grace_ms, stop.hard_end_ms, now));
            next.push(format!("{}.", capital(outcome_of(stop.cause, r))));
            Some(stop.hard_end_ms)
        }
        (None, Some((cause, at))) => {
            let name = cause.as_str();
            next.push(format!(
                "Its worker ends it; else its {name} passes at {}: it is asked to end, what is left is killed {grace} \
                 later, and {}.",
                moment(at, now),
                outcome_of(cause, r)
            ));
            Some(at + as_ms(r.policy.stop_grace) + as_ms(facts.lease) + as_ms(facts.lease) / 3)
        }
        (None, None) => {
            next.push("Its worker ends it, however long that takes: it has no bound of time.".to_owned());
            None
        }
    };
    if let Some(pids) = &r.unkillable {
        next.push(unkillable(r, pids));
    }
    Said { since_ms: r.started_ms, why, next, by_ms: by_ms.filter(|_| r.unkillable.is_none()) }
}

pub(super) fn aborting(r: &TaskRecord, facts: &Facts) -> Said {
    let now = facts.now_ms;
    let mut why = Vec::new();
    if let Some(stop) = &r.stop {
        let earlier = stop.earlier_cause.map(|cause| format!(", after a {}", cause.as_str()));
        why.push(format!("Its abort was requested{}{}.", by_whom(stop), earlier.unwrap_or_default()));
    }
    why.push("Termination requested; process still running.".to_owned());
    why.extend(words::silence(r, now));
    let stop = r.stop.as_ref();
    let (next, by_ms) = match (&r.unkillable, stop) {
        (Some(pids), _) => (unkillable(r, pids), None),
        (None, Some(stop)) => {
            (ends(r, stop.at_ms + stop.grace_ms, stop.hard_end_ms, now), Some(stop.hard_end_ms))
        }
        (None, None) => (format!("{} ends it.", capital(&worker(r))), None),
    };
    Said { since_ms: stop.map(|stop| stop.at_ms), why, next: vec![next], by_ms }
}

/// Who ends a run that was asked to end, and by when.
fn ends(r: &TaskRecord, kill_at: u64, hard_end: u64, now: u64) -> String {
    let kill = if kill_at > now { format!("at {}", moment(kill_at, now)) } else { "now".to_owned() };
    format!(
        "{} ends it; what is left is killed {kill}, and the reaper ends it at {} at the latest.",
        capital(&worker(r)),
        moment(hard_end, now)
    )
}

fn unkillable(r: &TaskRecord, pids: &str) -> String {
    let id = shell_word(&printable(r.id.as_str()));
    format!(
        "The system does not end its processes {}: KILL is repeated and no bound ends it meanwhile; a person may give it \
         up on record with `leasehold task abort {id} --abandon`.",
        quote(pids)
    )
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
