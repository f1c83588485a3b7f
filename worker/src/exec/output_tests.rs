//! Random pushes and takes against a model that keeps everything.

use super::*;
use std::time::Duration;

/// A small generator (xorshift), so that failures repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("fits")
    }
}

/// All output of a run, and which stream each byte came from.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    streams: Vec<Stream>,
}

impl Model {
    fn push(&mut self, stream: Stream, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.streams.extend(std::iter::repeat_n(stream, bytes.len()));
    }

    /// Checks chunks against what was pushed; answers the end of the last and the bytes missed.
    fn check(&self, chunks: &[OutputChunk], mut end: u64) -> (u64, u64) {
        let mut missed = 0;
        for chunk in chunks {
            assert!(!chunk.bytes.is_empty() && chunk.bytes.len() <= SEGMENT);
            assert!(chunk.offset >= end, "in order and never twice");
            missed += chunk.offset - end;
            let from = usize::try_from(chunk.offset).expect("fits");
            let range = from..from + chunk.bytes.len();
            assert_eq!(self.bytes[range.clone()], chunk.bytes, "bytes at {range:?}");
            assert!(self.streams[range].iter().all(|stream| *stream == chunk.stream));
            end = chunk.offset + chunk.bytes.len() as u64;
        }
        (end, missed)
    }
}

#[test]
fn order_offsets_cap_and_gaps_hold_for_random_use() {
    for seed in 1..=200_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let cap = 1 + random.below(5000);
        let head = random.below(cap + 10);
        let buffer = OutputBuffer::new(cap, head);
        let (mut model, mut end, mut missed) = (Model::default(), 0, 0);
        for _ in 0..300 {
            if random.below(4) > 0 {
                let stream = if random.below(2) == 0 { Stream::Stdout } else { Stream::Stderr };
                let longest = if random.below(8) == 0 { 20_000 } else { 60 };
                let length = random.below(longest);
                let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
                buffer.push(stream, &bytes);
                model.push(stream, &bytes);
            } else {
                let most = random.below(3000);
                let chunks = buffer.take(most);
                assert!(chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>() <= most);
                let (now, more) = model.check(&chunks, end);
                end = now;
                missed += more;
            }
            assert!(buffer.len() <= cap);
            assert_eq!(buffer.total(), model.bytes.len() as u64);
        }
        let chunks = buffer.take(usize::MAX);
        let (now, more) = model.check(&chunks, end);
        assert!(buffer.is_empty());
        assert_eq!(now, model.bytes.len() as u64, "the newest byte is never dropped");
        assert_eq!(missed + more, buffer.dropped(), "gaps show exactly what was dropped");
    }
}

#[test]
fn the_oldest_and_the_newest_are_kept() {
    let buffer = OutputBuffer::new(100, 40);
    let all: Vec<u8> = (0..250).map(|i| i as u8).collect();
    all.chunks(7).for_each(|piece| buffer.push(Stream::Stdout, piece));
    let chunks = buffer.take(usize::MAX);
    let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes.clone()).collect();
    assert_eq!(bytes, [&all[..40], &all[190..]].concat());
    assert_eq!((buffer.dropped(), buffer.total()), (150, 250));
}

#[test]
fn within_the_cap_nothing_is_dropped_and_small_writes_are_joined() {
    let buffer = OutputBuffer::default();
    for _ in 0..1000 {
        buffer.push(Stream::Stdout, b"0123456789");
    }
    buffer.push(Stream::Stderr, b"no newline");
    let chunks = buffer.take(usize::MAX);
    assert_eq!(chunks.len(), 2);
    assert_eq!((chunks[1].offset, chunks[1].stream), (10_000, Stream::Stderr));
    assert_eq!(buffer.dropped(), 0);
}

#[test]
fn single_bytes_that_change_streams_stay_within_bounds() {
    let buffer = OutputBuffer::new(64 * 1024, 1024);
    for index in 0..100_000 {
        buffer.push(if index % 2 == 0 { Stream::Stdout } else { Stream::Stderr }, b"x");
    }
    let inner = buffer.lock();
    assert!(inner.head.segments.len() + inner.tail.segments.len() <= 1024);
}

#[tokio::test]
async fn the_flusher_is_woken() {
    let buffer = Arc::new(OutputBuffer::default());
    let waiting = tokio::spawn({
        let buffer = Arc::clone(&buffer);
        async move { buffer.filled().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    (buffer.sink())(Stream::Stdout, b"x");
    tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("in time").expect("no panic");
    // Not taken yet: the next wait returns at once.
    tokio::time::timeout(Duration::from_secs(5), buffer.filled()).await.expect("in time");
}
