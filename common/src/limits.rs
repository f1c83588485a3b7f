//! Sizes. What is over its limit is refused before Redis is touched.

use crate::error::{Error, Result};

/// The most that any size limit may be raised to: Redis and its clients hold values whole in memory.
pub const MOST: usize = 16 * 1024 * 1024;

/// Size limits of a producer or worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of a payload, in bytes. Defaults to 1 MiB.
    pub payload: usize,
    /// Of a result, in bytes. Defaults to 1 MiB.
    pub result: usize,
    /// Of a checkpoint, in bytes. Defaults to 1 MiB.
    pub checkpoint: usize,
    /// Of a failure's message, in bytes; longer ones are cut. Defaults to 4 KiB.
    pub error: usize,
    /// Of a progress message, in bytes. Defaults to 1 KiB.
    pub progress: usize,
    /// Number of headers. Defaults to 32.
    pub headers: usize,
    /// Of one header, name and value together, in bytes. Defaults to 1 KiB.
    pub header_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload: 1024 * 1024,
            result: 1024 * 1024,
            checkpoint: 1024 * 1024,
            error: 4096,
            progress: 1024,
            headers: 32,
            header_bytes: 1024,
        }
    }
}

/// Items of one script call.
pub const BATCH_ITEMS: usize = 128;
/// Bytes of one script call; a larger item goes alone.
pub const BATCH_BYTES: usize = 256 * 1024;
/// Bytes of bodies that one claim returns; the first always goes.
pub const CLAIM_BYTES: usize = 1024 * 1024;

/// Checks a size.
///
/// # Errors
/// [`Error::Invalid`] naming the field and its limit.
pub fn check_size(field: &'static str, size: usize, most: usize) -> Result<()> {
    if size <= most {
        return Ok(());
    }
    Err(Error::invalid(field, format!("{size} is over the limit of {most}")))
}

/// Cuts a list into the batches of one call each, in order.
pub fn batches<T>(items: &[T], bytes_of: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut cuts = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (i, item) in items.iter().enumerate() {
        let size = bytes_of(item);
        if i > start && (i - start == BATCH_ITEMS || bytes + size > BATCH_BYTES) {
            cuts.push(&items[start..i]);
            (start, bytes) = (i, 0);
        }
        bytes += size;
    }
    if start < items.len() {
        cuts.push(&items[start..]);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::{BATCH_BYTES, BATCH_ITEMS, batches};

    #[test]
    fn batches_keep_order_count_and_bytes() {
        let items: Vec<usize> = (0..BATCH_ITEMS * 2 + 3).collect();
        let cut = batches(&items, |_| 1);
        assert_eq!(cut.iter().map(|b| b.len()).collect::<Vec<_>>(), [BATCH_ITEMS, BATCH_ITEMS, 3]);
        assert_eq!(cut.concat(), items);
        assert_eq!(batches(&[1, 2, 3], |_| BATCH_BYTES).len(), 3);
        assert_eq!(batches(&[BATCH_BYTES * 2, 1, 1], |b| *b).len(), 2);
        assert!(batches(&[0u8; 0], |_| 1).is_empty());
    }
}
