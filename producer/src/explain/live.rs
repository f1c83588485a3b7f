//! Tasks that have not ended.

use leasehold_common::text::{printable, shell_word};
use leasehold_common::time::{as_ms, display_duration, display_seconds};

use super::words::{self, by_whom, leaves_attempts, moment, next_bound, outcome_of, quote, several, worker};
use super::{Facts, Said, TOLD};
use crate::{Bounds, QueueName, StopCause, TaskDetail, TaskRecord, TaskState};

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
    let turns = facts.lane_turns.iter().take(TOLD);
    why.extend(turns.map(|(task, bounds)| turn(task, bounds.as_ref(), now)));
    why.extend(facts.lane_unreadable.iter().map(|id| {
        let id = printable(id.as_str());
        format!(
            "The record of task {id}, which is at its head, cannot be read: `leasehold doctor` tells more."
        )
    }));
    if facts.lane_turns.len() > TOLD {
        why.push("Others have their turn beside.".to_owned());
    }
    // A limit that fell holds for those that come: more may have their turn than it says.
    let next = match facts.ahead_in_lane.map(|ahead| (ahead + 1).saturating_sub(facts.lane_limit)) {
        Some(1) => {
            "Once 1 of those ahead has ended, however it does, the same script queues it: nobody has to help."
                .to_owned()
        }
        Some(n) if n > 1 => format!(
            "Once {n} of those ahead have ended, however they do, the same script queues it: nobody has to help."
        ),
        _ => "The next script that ends a task of its lane queues it: nobody has to help.".to_owned(),
    };
    Said { since_ms: r.waiting_ms, why, next: vec![next], by_ms: None }
}

/// What the deadline of a task that has not ended does, where nothing else says so.
pub(super) fn deadline(detail: &TaskDetail, deadline: u64, facts: &Facts) -> Option<String> {
    let (r, at) = (&detail.record, moment(deadline, facts.now_ms));
    let grace = display_duration(r.policy.stop_grace);
    match (r.state, &r.stop) {
        (TaskState::Scheduled | TaskState::Waiting | TaskState::Queued, _) => Some(format!(
            "Wherever it waits then, its deadline ends it at {at}, as timed_out; a run of it is asked to end then, and \
             what is left is killed {grace} later."
        )),
        (TaskState::Running, Some(stop)) if leaves_attempts(stop.cause, r) => {
            Some(format!("There is no next attempt after its deadline at {at}: it ends timed_out instead."))
        }
        (TaskState::Running, None) => {
            let bounds = detail.body.as_ref().map(|body| &body.bounds);
            let first = next_bound(r, bounds).map(|(cause, _)| cause);
            let end = moment(deadline + hard_end_after(r, facts), facts.now_ms);
            (first != Some(StopCause::Deadline)).then(|| {
                format!(
                    "Whichever attempt it is then, its deadline asks it to end at {at}: it has ended, as timed_out, at \
                     {end} at the latest."
                )
            })
        }
        // What was asked to end for good is beyond its deadline.
        _ => None,
    }
}

/// From the moment when a run is asked to end until nobody waits for it any longer, ms.
fn hard_end_after(r: &TaskRecord, facts: &Facts) -> u64 {
    as_ms(r.policy.stop_grace) + as_ms(facts.lease) + as_ms(facts.lease) / 3
}

/// What a task does with its turn, and what ends that.
fn turn(task: &TaskRecord, bounds: Option<&Bounds>, now: u64) -> String {
    let id = printable(task.id.as_str());
    match task.state {
        TaskState::Running | TaskState::Aborting => {
            let since = task.started_ms.map(|ms| format!(" since {}", moment(ms, now))).unwrap_or_default();
            let bound = match (&task.stop, next_bound(task, bounds)) {
                _ if task.unkillable.is_some() => ", whose processes the system does not end".to_owned(),
                (Some(stop), _) => format!(", ends at {} at the latest", moment(stop.hard_end_ms, now)),
                (None, Some((cause, at))) => {
                    let grace = display_duration(task.policy.stop_grace);
                    format!(", until its {} at {} and {grace} of grace", cause.as_str(), moment(at, now))
                }
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
        format!("Nobody acts until a worker of queue {queue} claims it. {}", words::no_worker(queue))
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
            "The reaper decides at its second look, within {within}: without a lease then {}.",
            words::without_lease(r)
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
            Some(at + hard_end_after(r, facts))
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
