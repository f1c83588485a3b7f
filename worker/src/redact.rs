//! Secrets of a run: what its messages, progress, log and output show as `***` instead.
//!
//! Found are the values as they are, byte for byte: not what is encoded (base64, percent, a JSON string with
//! escapes), nor one that is spread over both streams. Where values overlap, all that any of them covers is masked,
//! which a search for leftmost-longest matches would not do; and a stream is cut where one may still go on, which
//! needs to be known of each value at each byte. So each value has an automaton of its own (Knuth, Morris, Pratt)
//! whose state stays from chunk to chunk: a handful of values costs a handful of steps per byte.

use std::fmt;
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use leasehold_common::error::{Error, Result};
use leasehold_common::secret::check_secret;

use crate::exec::Stream;

/// What stands in the place of a secret.
const MASK: &[u8] = b"***";

/// The names of a worker's own variables whose values are secrets of every run, as values.
///
/// A name that is not set is refused: with a slip in it the value would show.
pub(crate) fn of_environment(names: &[String]) -> Result<Secrets> {
    use std::os::unix::ffi::OsStrExt as _;
    let secrets = Secrets::default();
    for name in names {
        let Some(value) = std::env::var_os(name) else {
            let name = leasehold_common::text::printable(name);
            return Err(Error::invalid("redact", format!("{name:?} is not set in the worker's environment")));
        };
        check_secret("redact", name, value.as_bytes())?;
        secrets.add("redact", value.as_bytes())?;
    }
    Ok(secrets)
}

/// The secrets of all runs in hand, for what is told of nobody knows whom.
static KNOWN: Mutex<Vec<Weak<Needle>>> = Mutex::new(Vec::new());

/// A text with the secrets of all runs in hand masked. None when they cannot be looked at just now.
pub(crate) fn mask_all_known(text: &str) -> Option<String> {
    // Whoever holds the lock may be the one that panics.
    let known: Vec<Arc<Needle>> = KNOWN.try_lock().ok()?.iter().filter_map(Weak::upgrade).collect();
    Some(masked(&known, text))
}

/// A whole text with these masked.
fn masked(needles: &[Arc<Needle>], text: &str) -> String {
    if needles.is_empty() {
        return text.to_owned();
    }
    let (mut masker, mut masked) = (Masker::default(), Vec::with_capacity(text.len()));
    masker.push(needles, text.as_bytes(), &mut masked);
    masker.finish(&mut masked);
    // A value that is no whole text may leave half a character.
    String::from_utf8(masked).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned())
}

/// The secrets of a run. Only ever added to; they mask what is told from then on.
#[derive(Default)]
pub(crate) struct Secrets {
    needles: RwLock<Vec<Arc<Needle>>>,
    streams: Mutex<[Masker; 2]>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.needles().len())
    }
}

impl Secrets {
    fn needles(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Needle>>> {
        self.needles.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a value. An empty one is none.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming `field` for 1 to 3 bytes.
    pub(crate) fn add(&self, field: &'static str, value: &[u8]) -> Result<()> {
        check_secret(field, "secret", value)?;
        let known = self.needles().iter().any(|needle| needle.bytes == value);
        if !value.is_empty() && !known {
            let needle = Arc::new(Needle::new(value));
            if let Ok(mut known) = KNOWN.lock() {
                known.retain(|needle| needle.strong_count() > 0);
                known.push(Arc::downgrade(&needle));
            }
            self.needles.write().unwrap_or_else(PoisonError::into_inner).push(needle);
        }
        Ok(())
    }

    /// Adds all of another's.
    pub(crate) fn add_all(&self, others: &Self) {
        let others = others.needles();
        if !others.is_empty() {
            let mut needles = self.needles.write().unwrap_or_else(PoisonError::into_inner);
            needles.extend(others.iter().cloned());
        }
    }

    /// A whole text with its secrets masked.
    pub(crate) fn mask(&self, text: &str) -> String {
        masked(&self.needles(), text)
    }

    /// Passes on a stream's next bytes, masked, but for the end of them that may be the beginning of a secret.
    pub(crate) fn pass(&self, stream: Stream, bytes: &[u8], sink: impl FnOnce(&[u8])) {
        let needles = self.needles();
        if needles.is_empty() {
            return sink(bytes);
        }
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let mut masked = Vec::with_capacity(bytes.len());
        streams[index(stream)].push(&needles, bytes, &mut masked);
        sink(&masked);
    }

    /// Passes on what was held back: nothing follows.
    pub(crate) fn finish(&self, stream: Stream, sink: impl FnOnce(&[u8])) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let mut masked = Vec::new();
        streams[index(stream)].finish(&mut masked);
        sink(&masked);
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

/// A value to be found.
struct Needle {
    bytes: Vec<u8>,
    /// Of each beginning of it: how much of its own beginning it ends with.
    borders: Vec<usize>,
}

impl Needle {
    fn new(bytes: &[u8]) -> Self {
        let mut borders = vec![0; bytes.len() + 1];
        let mut length = 0;
        for at in 1..bytes.len() {
            while length > 0 && bytes[length] != bytes[at] {
                length = borders[length];
            }
            length += usize::from(bytes[length] == bytes[at]);
            borders[at + 1] = length;
        }
        Self { bytes: bytes.to_vec(), borders }
    }

    /// How much of it is matched after one more byte.
    fn step(&self, mut matched: usize, byte: u8) -> usize {
        if matched == self.bytes.len() {
            matched = self.borders[matched];
        }
        while matched > 0 && self.bytes[matched] != byte {
            matched = self.borders[matched];
        }
        matched + usize::from(self.bytes[matched] == byte)
    }

    /// How much at the end of what was read may still become it.
    fn open(&self, matched: usize) -> usize {
        if matched == self.bytes.len() { self.borders[matched] } else { matched }
    }
}

/// Masks one stream.
#[derive(Default)]
struct Masker {
    /// Bytes not passed on yet.
    held: Vec<u8>,
    /// Where in `held` secrets lie, apart from each other and in order.
    found: Vec<(usize, usize)>,
    /// What was passed on last was a mask.
    masking: bool,
    /// How much of each value is matched.
    matched: Vec<usize>,
}

impl Masker {
    fn push(&mut self, needles: &[Arc<Needle>], bytes: &[u8], out: &mut Vec<u8>) {
        self.matched.resize(needles.len(), 0);
        let start = self.held.len();
        self.held.extend_from_slice(bytes);
        let mut open = 0;
        for (needle, matched) in needles.iter().zip(&mut self.matched) {
            let mut state = *matched;
            for (at, byte) in bytes.iter().enumerate() {
                state = needle.step(state, *byte);
                if state == needle.bytes.len() {
                    let end = start + at + 1;
                    // One that was added in the middle of a stream begins no earlier than what is held.
                    self.found.push((end.saturating_sub(state), end));
                }
            }
            *matched = state;
            open = open.max(needle.open(state));
        }
        let cut = self.held.len() - open.min(self.held.len());
        self.pass_on(cut, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.pass_on(self.held.len(), out);
        self.masking = false;
        self.matched.clear();
    }

    /// Passes on all before `cut`.
    fn pass_on(&mut self, cut: usize, out: &mut Vec<u8>) {
        self.join();
        let mut at = 0;
        for (start, end) in take(&mut self.found) {
            if start < cut {
                self.plain(at, start, out);
                if !self.masking {
                    out.extend_from_slice(MASK);
                    self.masking = true;
                }
                at = end.min(cut);
            }
            if end > cut {
                self.found.push((start.max(cut) - cut, end - cut));
            }
        }
        self.plain(at, cut, out);
        self.held.drain(..cut);
    }

    fn plain(&mut self, from: usize, to: usize, out: &mut Vec<u8>) {
        if from < to {
            out.extend_from_slice(&self.held[from..to]);
            self.masking = false;
        }
    }

    /// Puts together what overlaps or touches.
    fn join(&mut self) {
        self.found.sort_unstable();
        self.found.dedup_by(|next, kept| {
            let joined = next.0 <= kept.1;
            if joined {
                kept.1 = kept.1.max(next.1);
            }
            joined
        });
    }
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
