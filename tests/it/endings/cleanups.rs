//! What a handler left to be done runs on every way out, before the end is told, and changes nothing of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_producer::{Policy, Store, TaskId, TaskState};
use leasehold_tests::{eventually_async, let_time_pass_async};
use leasehold_worker::{Context, FailureKind, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};

use crate::aborts::kit::{Kit, LIMIT, quick};

/// How the handler ends.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Leave {
    Ok,
    Err,
    Panic,
    Obey,
    Ignore,
    /// With an `Ok`, after cleanups that panic and that hang.
    Messy,
    /// Without end, and so does its cleanup.
    Hang,
}

impl Task for Leave {
    const NAME: &'static str = "leave";
    type Output = u64;
}

/// What the handler says before its cleanup.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum EndInTime {
    Snooze,
    Fail,
}

impl Task for EndInTime {
    const NAME: &'static str = "end_in_time";
    type Output = u64;
}

/// Task and number of a cleanup, and the state of the task meanwhile.
type Sight = (String, u32, Option<TaskState>);

/// What each cleanup saw.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Sight>>>);

impl Seen {
    fn of(&self, id: &str) -> Vec<(u32, Option<TaskState>)> {
        let seen = self.0.lock().unwrap();
        seen.iter().filter(|(task, ..)| task == id).map(|(_, number, state)| (*number, *state)).collect()
    }

    fn handler(&self, store: &Store, worker: Worker) -> Worker {
        let (seen, store) = (self.clone(), store.clone());
        worker.handle(move |context: Context, how: Leave| leave(seen.clone(), store.clone(), context, how))
    }

    fn note(&self, store: &Store, context: &Context, number: u32) {
        let (seen, store, inner) = (self.clone(), store.clone(), context.clone());
        context.on_end(async move || {
            let record = store.record(inner.queue(), inner.id()).await.unwrap();
            let state = record.map(|record| record.state);
            seen.0.lock().unwrap().push((inner.id().to_string(), number, state));
        });
    }
}

async fn leave(seen: Seen, store: Store, context: Context, how: Leave) -> Result<u64, TaskError> {
    seen.note(&store, &context, 1);
    match how {
        Leave::Messy => {
            context.on_end(std::future::pending::<()>);
            context.on_end(async || panic!("in a cleanup"));
        }
        Leave::Hang => context.on_end(std::future::pending::<()>),
        _ => {}
    }
    seen.note(&store, &context, 2);
    match how {
        Leave::Ok | Leave::Messy => Ok(7),
        Leave::Err => Err(TaskError::fatal("no")),
        Leave::Panic => panic!("no"),
        Leave::Obey => {
            context.stopped().cancelled().await;
            Err(TaskError::retry("stopped"))
        }
        Leave::Ignore | Leave::Hang => std::future::pending().await,
    }
}

fn once() -> Policy {
    Policy { max_attempts: 1, stop_grace: Duration::from_millis(100), ..quick() }
}

async fn cleaned(seen: &Seen, id: &TaskId, state: Option<TaskState>) {
    eventually_async(&format!("{id} is cleaned up"), LIMIT, async || {
        let seen = seen.of(id.as_str());
        if seen == [(2, state), (1, state)] { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r69_cleanups_run_on_every_way_out_before_the_end_is_told() {
    let (kit, seen) = (Kit::new().await, Seen::default());
    let hands = kit.hands(8, |worker| seen.handler(kit.store(), worker)).await;
    for (how, end) in [
        (Leave::Ok, TaskState::Completed),
        (Leave::Err, TaskState::Failed),
        (Leave::Panic, TaskState::Failed),
    ] {
        let id = kit.enqueue(&format!("{how:?}"), &how, once()).await;
        kit.reaches(&id, end).await;
        cleaned(&seen, &id, Some(TaskState::Running)).await;
    }
    for how in [Leave::Obey, Leave::Ignore] {
        let id = kit.enqueue(&format!("aborted {how:?}"), &how, once()).await;
        kit.reaches(&id, TaskState::Running).await;
        kit.abort(&id).await;
        kit.reaches(&id, TaskState::Aborted).await;
        cleaned(&seen, &id, Some(TaskState::Aborting)).await;
        let policy = Policy { run_timeout: Some(Duration::from_millis(50)), ..once() };
        let id = kit.enqueue(&format!("late {how:?}"), &how, policy).await;
        kit.reaches(&id, TaskState::TimedOut).await;
        cleaned(&seen, &id, Some(TaskState::Running)).await;
    }
    let mut handed_back = Vec::new();
    for how in [Leave::Obey, Leave::Ignore] {
        let id = kit.enqueue(&format!("drained {how:?}"), &how, once()).await;
        kit.reaches(&id, TaskState::Running).await;
        handed_back.push(id);
    }
    hands.stop().await;
    for id in handed_back {
        assert_eq!(kit.record(&id).await.state, TaskState::Queued);
        cleaned(&seen, &id, Some(TaskState::Running)).await;
    }
    kit.end([]).await;
}

/// A handler whose cleanup waits until Redis has recorded that the run timeout has passed.
async fn ends_in_time(store: Store, context: Context, how: EndInTime) -> Result<u64, TaskError> {
    let (id, queue) = (context.id().clone(), context.queue().clone());
    context.on_end(move || async move {
        // The cleanup's own time bounds it.
        while store.record(&queue, &id).await.unwrap().unwrap().stop.is_none() {
            let_time_pass_async("the bound passes meanwhile", Duration::from_millis(10)).await;
        }
    });
    match how {
        EndInTime::Snooze => Err(TaskError::snooze(Duration::from_secs(3600))),
        EndInTime::Fail => Err(TaskError::retry("boom")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r69_a_bound_that_passes_during_the_cleanups_does_not_change_the_end() {
    let kit = Kit::new().await;
    let store = kit.store().clone();
    let handler = move |context: Context, how: EndInTime| ends_in_time(store.clone(), context, how);
    let hands = kit.hands(2, |worker| worker.handle(handler)).await;
    let policy = Policy { run_timeout: Some(Duration::from_millis(300)), ..once() };
    let snoozed = kit.enqueue("snoozed", &EndInTime::Snooze, policy).await;
    let failed = kit.enqueue("failed", &EndInTime::Fail, policy).await;
    kit.reaches(&failed, TaskState::Failed).await;
    assert_eq!(kit.record(&failed).await.failure_kind, Some(FailureKind::Error));
    kit.reaches(&snoozed, TaskState::Scheduled).await;
    assert_eq!(kit.record(&snoozed).await.failures, 0, "a snooze costs nothing");
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r69_a_lost_run_is_cleaned_up_and_says_nothing() {
    let (kit, seen) = (Kit::new().await, Seen::default());
    let hands = kit.hands(2, |worker| seen.handler(kit.store(), worker)).await;
    let id = kit.enqueue("lost", &Leave::Ignore, once()).await;
    kit.reaches(&id, TaskState::Running).await;
    kit.redis.command::<()>(&["FLUSHALL"]);
    cleaned(&seen, &id, None).await;
    assert!(kit.store().record(&kit.queue, &id).await.unwrap().is_none());
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r69_cleanups_that_panic_or_hang_are_noted_and_change_nothing() {
    let (kit, seen) = (Kit::new().await, Seen::default());
    let set = |worker: Worker| worker.configure(|config| config.cleanup_timeout = Duration::from_secs(2));
    let hands = kit.hands(2, |worker| set(seen.handler(kit.store(), worker))).await;
    let id = kit.enqueue("messy", &Leave::Messy, once()).await;
    kit.reaches(&id, TaskState::Completed).await;
    cleaned(&seen, &id, Some(TaskState::Running)).await;
    let log = kit.log_text(&id).await;
    assert!(log.contains(&format!("leasehold: a cleanup panicked at {}:", file!())), "{log}");
    assert!(log.contains("leasehold: a cleanup took longer than 2s and was dropped\n"), "{log}");
    assert!(kit.detail(&id).await.failures.is_empty());
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r69_a_cleanup_that_hangs_is_over_before_the_hard_end_of_a_stop() {
    let kit = Kit::with_lease(Duration::from_secs(1)).await;
    let seen = Seen::default();
    let set = |worker: Worker| worker.configure(|config| config.cleanup_timeout = Duration::from_secs(600));
    let hands = kit.hands(2, |worker| set(seen.handler(kit.store(), worker))).await;
    let id = kit.enqueue("hangs", &Leave::Hang, once()).await;
    kit.reaches(&id, TaskState::Running).await;
    kit.abort(&id).await;
    // No reaper is there to end it: its worker does.
    kit.reaches(&id, TaskState::Aborted).await;
    let log = kit.log_text(&id).await;
    assert!(log.contains("was dropped: the stop of the run left no more time\n"), "{log}");
    assert!(log.contains("1 cleanups were not run"), "{log}");
    hands.stop().await;
    kit.end([]).await;
}
