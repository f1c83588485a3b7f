//! What a run tells while it runs: its newest progress, and its output. Calls leave a worker at most every
//! 100 ms per run, however often a handler calls.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_common::Error;
use leasehold_common::name::Incarnation;
use leasehold_common::store::{LogPiece, OutputStream, Progress, Store, UpdateAnswer};
use tokio::sync::Notify;

use crate::exec::{OutputBuffer, OutputChunk, Stream};
use crate::redact::Secrets;
use crate::run::Run;
use crate::runs::Runs;

/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(100);
/// Output of one run in one call.
const CALL_BYTES: usize = 192 * 1024;

/// What one run has to tell.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    progress: Mutex<Newest>,
    pub(crate) output: Arc<OutputBuffer>,
    /// What none of it may show.
    pub(crate) secrets: Arc<Secrets>,
    /// One sender at a time, so that pieces go out in order; what is not answered yet is sent again.
    sending: tokio::sync::Mutex<Vec<OutputChunk>>,
}

#[derive(Debug, Default)]
struct Newest {
    number: u64,
    share: Option<f64>,
    message: String,
    untold: bool,
}

impl Telling {
    /// Sets the newest progress.
    pub(crate) fn set_progress(&self, share: Option<f64>, message: &str) {
        let message = self.secrets.mask(message);
        let mut newest = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        newest.number += 1;
        newest.untold = true;
        newest.share = share.or(newest.share);
        if !message.is_empty() {
            newest.message = message;
        }
    }

    /// Adds a line to the log.
    pub(crate) fn log(&self, text: &str) {
        self.push(Stream::Stdout, text.as_bytes());
    }

    /// As [`log`](Self::log), among the errors.
    pub(crate) fn log_error(&self, text: &str) {
        self.push(Stream::Stderr, text.as_bytes());
    }

    /// Adds output, its secrets masked. Offsets and sizes count what is told, not what was written.
    pub(crate) fn push(&self, stream: Stream, bytes: &[u8]) {
        self.secrets.pass(stream, bytes, |told| self.output.push(stream, told));
    }

    /// Adds what was held back as the possible beginning of a secret: nothing follows it.
    pub(crate) fn finish_output(&self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.secrets.finish(stream, |told| self.output.push(stream, told));
        }
    }

    /// The newest progress: share and message.
    pub(crate) fn newest(&self) -> (Option<f64>, String) {
        let newest = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        (newest.share, newest.message.clone())
    }

    fn take_progress(&self, run: &Run) -> Option<Progress> {
        let mut newest = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut newest.untold) {
            return None;
        }
        Some(Progress {
            id: run.key.id.clone(),
            run: run.key.run.clone(),
            number: newest.number,
            share: newest.share,
            message: newest.message.clone(),
        })
    }

    fn retell_progress(&self) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).untold = true;
    }
}

/// Sends what one run has to tell, one round. True when there is more, or it must be tried again.
pub(crate) async fn tell(store: &Store, incarnation: &Incarnation, run: &Run) -> bool {
    let mut unanswered = run.telling.sending.lock().await;
    let mut again = false;
    if let Some(progress) = run.telling.take_progress(run)
        && let Err(error) = store.progress(&run.key.queue, incarnation, &[progress]).await
        && error.is_retryable()
    {
        run.telling.retell_progress();
        again = true;
    }
    if unanswered.is_empty() {
        *unanswered = run.telling.output.take(CALL_BYTES);
    }
    if unanswered.is_empty() {
        return again;
    }
    let pieces: Vec<LogPiece> = unanswered.iter().map(|chunk| piece(run, chunk)).collect();
    match store.append_log(&run.key.queue, incarnation, &pieces).await {
        Err(error @ Error::StorageFull { .. }) => {
            // A full Redis takes no log: the gap of offsets shows it, and the run goes on.
            tracing::warn!(task = %run.key.id, %error, "log text dropped");
            unanswered.clear();
        }
        Err(error) if error.is_retryable() => return true,
        Err(error) => {
            tracing::warn!(task = %run.key.id, %error, "log text dropped");
            unanswered.clear();
        }
        Ok(answers) => {
            unanswered.clear();
            if answers.first() == Some(&UpdateAnswer::Lost) {
                tracing::debug!(task = %run.key.id, run = %run.key.run, "log text of a lost run refused");
                return false;
            }
        }
    }
    again || !run.telling.output.is_empty()
}

fn piece(run: &Run, chunk: &OutputChunk) -> LogPiece {
    LogPiece {
        id: run.key.id.clone(),
        run: run.key.run.clone(),
        offset: chunk.offset,
        stream: match chunk.stream {
            Stream::Stdout => OutputStream::Out,
            Stream::Stderr => OutputStream::Err,
        },
        text: chunk.bytes.clone(),
    }
}

/// Wakes the teller of a worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Teller {
    news: Arc<Notify>,
}

impl Teller {
    /// There is something to tell.
    pub(crate) fn news(&self) {
        self.news.notify_one();
    }

    /// Tells what there is, until it is aborted. The first news of a quiet time go out at once.
    pub(crate) async fn run(self, store: Store, incarnation: Incarnation, runs: Arc<Runs>) {
        loop {
            self.news.notified().await;
            let mut more = true;
            while more {
                more = false;
                for run in runs.all() {
                    if !run.is_ending() {
                        more |= tell(&store, &incarnation, &run).await;
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
