//! The task that is measured: 200 bytes of payload, a handler that does nothing, a small output.

use leasehold_worker::Task;
use serde::{Deserialize, Serialize};

/// Bytes of a payload, and of a raw entry's value.
pub(crate) const PAYLOAD: usize = 200;

/// Bytes that MessagePack adds: a map of one field, its name, and the head of the bytes.
const AROUND: usize = 8;

/// A task with 200 bytes of payload, of which the first eight of the data carry a number.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    #[serde(with = "serde_bytes")]
    data: Vec<u8>,
}

impl Task for Job {
    const NAME: &'static str = "bench";
    type Output = u32;
}

impl Job {
    /// A task that carries `mark`: when it was sent, say.
    pub(crate) fn new(mark: u64) -> Self {
        let mut data = vec![b'x'; PAYLOAD - AROUND];
        data[..8].copy_from_slice(&mark.to_le_bytes());
        Self { data }
    }

    /// What it carries.
    pub(crate) fn mark(&self) -> u64 {
        self.data.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{Job, PAYLOAD};

    #[test]
    fn a_payload_has_200_bytes_whatever_it_carries() {
        for mark in [0, 255, u64::MAX] {
            let bytes = leasehold_common::task::encode("payload", &Job::new(mark)).unwrap();
            assert_eq!(bytes.len(), PAYLOAD);
            let back: Job = leasehold_common::task::decode("payload", &bytes).unwrap();
            assert_eq!(back.mark(), mark);
        }
    }
}
