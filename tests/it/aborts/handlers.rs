//! The handlers of these tests, in a worker inside the test process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_worker::{Context, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};

/// What a handler does.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Act {
    /// Works for so many ms; obeys a stop meanwhile.
    Obey(u64),
    /// Works for so many ms, then returns, whatever it is told.
    Finish(u64),
    /// Works for so many ms in its thread, without ever giving it back.
    Block(u64),
    /// Never ends, and tells of progress all the time.
    Endless,
    /// Fails.
    Fail,
    /// Returns so many bytes.
    Return(usize),
}

impl Task for Act {
    const NAME: &'static str = "act";
    type Output = serde_bytes::ByteBuf;
}

/// When handlers began, and when they were told to stop.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen(Arc<Mutex<BTreeMap<String, Times>>>);

/// Of one task: how often it began, and when it was told to stop.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) begun: usize,
    pub(super) stopped: Option<Instant>,
}

impl Times {
    fn told(&mut self) {
        self.stopped.get_or_insert_with(Instant::now);
    }
}

impl Seen {
    pub(super) fn of(&self, id: &str) -> Times {
        self.0.lock().unwrap().get(id).copied().unwrap_or_default()
    }

    fn note(&self, id: &str, change: impl FnOnce(&mut Times)) {
        change(self.0.lock().unwrap().entry(id.to_owned()).or_default());
    }

    /// Adds the handler that notes here.
    pub(super) fn handler(&self, worker: Worker) -> Worker {
        let seen = self.clone();
        worker.handle(move |context: Context, act: Act| act_out(seen.clone(), context, act))
    }
}

async fn act_out(seen: Seen, context: Context, act: Act) -> Result<serde_bytes::ByteBuf, TaskError> {
    let id = context.id().to_string();
    seen.note(&id, |times| times.begun += 1);
    let stopped = context.stopped().clone();
    let watched = seen.clone();
    let watching = tokio::spawn({
        let id = id.clone();
        async move {
            stopped.cancelled().await;
            watched.note(&id, Times::told);
        }
    });
    let ended = work(&context, act).await;
    watching.abort();
    if context.stopped().is_cancelled() {
        seen.note(&id, Times::told);
    }
    ended
}

async fn work(context: &Context, act: Act) -> Result<serde_bytes::ByteBuf, TaskError> {
    let nothing = serde_bytes::ByteBuf::new();
    match act {
        Act::Obey(ms) => tokio::select! {
            // cancel-safe: nothing is kept of either.
            () = pause(ms) => Ok(nothing),
            () = context.stopped().cancelled() => Err(TaskError::retry("stopped")),
        },
        Act::Finish(ms) => {
            pause(ms).await;
            Ok(nothing)
        }
        Act::Block(ms) => {
            tokio::task::block_in_place(|| {
                leasehold_tests::let_time_pass("blocking", Duration::from_millis(ms))
            });
            Ok(nothing)
        }
        Act::Endless => loop {
            context.progress(0.5, "still here")?;
            pause(20).await;
        },
        Act::Fail => Err(TaskError::retry("no")),
        Act::Return(bytes) => Ok(serde_bytes::ByteBuf::from(vec![7; bytes])),
    }
}

async fn pause(ms: u64) {
    tokio::time::timeout(Duration::from_millis(ms), std::future::pending::<()>()).await.ok();
}

/// Nothing happens for a moment shorter than the scheduler's: some microseconds, by yielding.
pub(super) async fn for_a_blink(micros: u64) {
    let until = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < until {
        tokio::task::yield_now().await;
    }
}
