//! Output on its way from the command to the log: bounded, in order, with gaps that show.

use super::launch::OutputSink;
use super::spec::Stream;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Bytes an [`OutputBuffer`] holds unless told otherwise.
pub const DEFAULT_CAP: usize = 1024 * 1024;

/// Of these, how many are kept for the oldest output.
pub const DEFAULT_HEAD: usize = 64 * 1024;

/// Small writes of one stream are put together up to this size; larger ones are cut.
const SEGMENT: usize = 16 * 1024;

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// How many bytes of output, of both streams, came before it in the run. Where it is more
    /// than the end of the chunk before, what lies between was dropped.
    pub offset: u64,
    /// Where it came from.
    pub stream: Stream,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// Holds output until it is taken. Over its cap it keeps the oldest bytes (the head) and the
/// newest, and drops in the middle.
#[derive(Debug)]
pub struct OutputBuffer {
    inner: Mutex<Inner>,
    filled: Notify,
}

#[derive(Debug)]
struct Inner {
    cap: usize,
    head_cap: usize,
    head: Queue,
    tail: Queue,
    total: u64,
    dropped: u64,
}

#[derive(Debug, Default)]
struct Queue {
    segments: VecDeque<Segment>,
    len: usize,
}

#[derive(Debug)]
struct Segment {
    offset: u64,
    stream: Stream,
    bytes: Vec<u8>,
    /// So many bytes at the front are taken or dropped already.
    gone: usize,
}

impl Default for OutputBuffer {
    fn default() -> Self {
        Self::new(DEFAULT_CAP, DEFAULT_HEAD)
    }
}

impl OutputBuffer {
    /// A buffer for `cap` bytes (at least one), `head` of them for the oldest.
    #[must_use]
    pub fn new(cap: usize, head: usize) -> Self {
        let cap = cap.max(1);
        // The newest must have room, too.
        let head_cap = head.min(cap - 1);
        let (head, tail) = (Queue::default(), Queue::default());
        let inner = Inner { cap, head_cap, head, tail, total: 0, dropped: 0 };
        Self { inner: Mutex::new(inner), filled: Notify::new() }
    }

    /// Adds output. Never blocks and never fails; over the cap something older is dropped.
    pub fn push(&self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.lock().push(stream, bytes);
        self.filled.notify_one();
    }

    /// Takes the oldest output, at most `max_bytes` of it.
    pub fn take(&self, max_bytes: usize) -> Vec<OutputChunk> {
        let mut inner = self.lock();
        let mut taken = Vec::new();
        let mut left = max_bytes;
        while left > 0 {
            let queue = if inner.head.len > 0 { &mut inner.head } else { &mut inner.tail };
            let Some(chunk) = queue.take(left) else {
                break;
            };
            left -= chunk.bytes.len();
            taken.push(chunk);
        }
        taken
    }

    /// Waits until there is something to take. Cancel-safe; for one waiter.
    pub async fn filled(&self) {
        loop {
            let notified = self.filled.notified();
            if !self.is_empty() {
                return;
            }
            notified.await;
        }
    }

    /// Nothing to take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that can be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        let inner = self.lock();
        inner.head.len + inner.tail.len
    }

    /// Bytes of output in the whole run so far, dropped ones included.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// Bytes dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// This buffer as the receiver of a command's output.
    #[must_use]
    pub fn sink(self: &Arc<Self>) -> OutputSink {
        let buffer = Arc::clone(self);
        Arc::new(move |stream, bytes| buffer.push(stream, bytes))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn push(&mut self, stream: Stream, bytes: &[u8]) {
        for piece in bytes.chunks(SEGMENT) {
            self.tail.append(self.total, stream, piece);
            self.total += piece.len() as u64;
            self.shrink();
        }
    }

    /// Segments have a cost of their own: single bytes that change streams must not take many
    /// times the cap.
    fn most_segments(&self) -> usize {
        (self.cap / 64).max(16)
    }

    fn excess(&self) -> usize {
        (self.head.len + self.tail.len).saturating_sub(self.cap)
    }

    fn shrink(&mut self) {
        // The head is only set apart once something must go.
        while self.excess() > 0 || self.head.segments.len() + self.tail.segments.len() > self.most_segments()
        {
            let room = self.head_cap - self.head.len.min(self.head_cap);
            let full = self.head.segments.len() >= self.most_segments() / 2;
            if room > 0
                && !full
                && let Some(chunk) = self.tail.take(room)
            {
                self.head.append(chunk.offset, chunk.stream, &chunk.bytes);
                continue;
            }
            let goes = if self.excess() > 0 { self.excess() } else { usize::MAX };
            self.dropped += self.tail.drop_front(goes) as u64;
        }
    }
}

impl Queue {
    fn append(&mut self, offset: u64, stream: Stream, bytes: &[u8]) {
        self.len += bytes.len();
        if let Some(last) = self.segments.back_mut()
            && last.stream == stream
            && last.offset + last.bytes.len() as u64 == offset
            && last.bytes.len() + bytes.len() <= SEGMENT
        {
            last.bytes.extend_from_slice(bytes);
        } else {
            self.segments.push_back(Segment { offset, stream, bytes: bytes.to_vec(), gone: 0 });
        }
    }

    /// Takes at most `most` bytes of the first segment.
    fn take(&mut self, most: usize) -> Option<OutputChunk> {
        let first = self.segments.front_mut()?;
        let from = first.gone;
        let length = (first.bytes.len() - from).min(most);
        let offset = first.offset + from as u64;
        let stream = first.stream;
        self.len -= length;
        let bytes = if from + length < first.bytes.len() {
            first.gone += length;
            first.bytes[from..from + length].to_vec()
        } else {
            let mut bytes = self.segments.pop_front()?.bytes;
            bytes.drain(..from);
            bytes
        };
        Some(OutputChunk { offset, stream, bytes })
    }

    /// Drops at most `most` bytes of the first segment; answers how many.
    fn drop_front(&mut self, most: usize) -> usize {
        let Some(first) = self.segments.front_mut() else {
            return 0;
        };
        let length = (first.bytes.len() - first.gone).min(most);
        first.gone += length;
        if first.gone == first.bytes.len() {
            self.segments.pop_front();
        }
        self.len -= length;
        length
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
