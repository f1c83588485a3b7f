//! What is to be seen of a lane: its members in order, what runs, who is ahead of whom, and since when.

use leasehold_producer::{Lane, TaskRecord, TaskState};

use crate::commands::demo::acts::{Scene, seconds};
use crate::error::Result;

/// Most members that are told.
const SHOWN: usize = 16;

/// A member of the lane.
#[derive(Debug)]
struct Member {
    record: TaskRecord,
    /// How many have their place before it.
    ahead: u64,
}

/// The lane as Redis has it now, a line for each member.
pub(super) async fn look(scene: &Scene, lane: &Lane) -> Result<String> {
    let store = scene.producer.store();
    let (gathering, limit) =
        (store.lane(&scene.queue, lane, SHOWN).await?, store.lane_limit(&scene.queue, lane).await?);
    let mut members = Vec::new();
    for record in gathering.live.tasks {
        // One that ended meanwhile has no place any more.
        if let Some(ahead) = store.ahead_in_lane(&scene.queue, lane, &record.id).await? {
            members.push(Member { record, ahead });
        }
    }
    let head = format!("  lane {lane}: {} have a place, {limit} may run at a time", gathering.total);
    let now = scene.producer.now_ms().await?;
    Ok(std::iter::once(head).chain(lines(&members, now)).collect::<Vec<_>>().join("\n"))
}

fn lines(members: &[Member], now: u64) -> impl Iterator<Item = String> {
    members.iter().enumerate().map(move |(at, member)| {
        let record = &member.record;
        let before: Vec<String> = members[..at].iter().map(name).collect();
        format!(
            "    {}. {:8} {}",
            member.ahead + 1,
            record.id.as_str(),
            why(record, member.ahead, &before, now)
        )
    })
}

/// Whom others wait for: its state, unless it waits as they do.
fn name(member: &Member) -> String {
    match (member.record.id.as_str(), member.record.state) {
        (id, TaskState::Waiting) => id.to_owned(),
        (id, state) => format!("{id} ({state})"),
    }
}

/// What a member does, or waits for.
fn why(record: &TaskRecord, ahead: u64, before: &[String], now: u64) -> String {
    let lasts = |since: Option<u64>| {
        since.map_or_else(String::new, |ms| format!(" for {}", seconds(now.saturating_sub(ms))))
    };
    match record.state {
        TaskState::Running | TaskState::Aborting => {
            let worker = record.worker.as_ref().map_or("nobody", |worker| worker.as_str());
            format!("{} on {worker}, attempt {}{}", record.state, record.attempt, lasts(record.started_ms))
        }
        TaskState::Waiting => {
            format!("waiting{}: {ahead} ahead of it: {}", lasts(record.waiting_ms), before.join(", "))
        }
        state => format!("{state}{}", lasts(Some(record.enqueued_ms))),
    }
}
