//! The task of the demo: checksum and compress one file.

use std::ffi::OsString;
use std::io::{self, Read as _, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use leasehold_common::name::QueueName;
use leasehold_common::policy::{Backoff, Policy};
use leasehold_common::task::{Spec, Task};
use leasehold_worker::{Context, TaskError};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::files;

/// The queue of the demo, in a namespace of its own.
pub(super) const QUEUE: &str = "demo";

/// What a task's first try says that is meant to fail.
pub(super) const FAILS_ONCE: &str = "the first try of this file fails on purpose";

/// Bytes read at once, between two looks at the stop token.
const CHUNK: usize = 128 * 1024;

/// Files from this size on tell their progress.
const LARGE: u64 = 1024 * 1024;

/// The queue as a name.
pub(super) fn queue() -> Result<QueueName, leasehold_common::Error> {
    QueueName::new(QUEUE)
}

/// Checksum and compress one file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Checksum {
    /// The file, absolute.
    pub(super) path: OsString,
    /// The run takes at least so long, so that there is something to watch and to kill.
    pub(super) pace_ms: u64,
    /// The first try fails.
    pub(super) fails_once: bool,
}

impl Task for Checksum {
    const NAME: &'static str = "demo.checksum";
    const QUEUE: &'static str = QUEUE;
    type Output = Sums;

    fn spec() -> Spec {
        let backoff = Backoff {
            base: Duration::from_millis(300),
            cap: Duration::from_millis(600),
            ..Backoff::default()
        };
        let stop_grace = Duration::from_secs(2);
        let run_timeout = Some(Duration::from_secs(120));
        let policy = Policy { max_attempts: 3, backoff, stop_grace, run_timeout, ..Policy::default() };
        Spec { policy, ..Spec::default() }
    }
}

/// What is found out about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sums {
    /// Its size.
    pub(super) bytes: u64,
    /// SHA-256 of its content, hexadecimal.
    pub(super) sha256: String,
    /// Its size as gzip.
    pub(super) gzip_bytes: u64,
    /// SHA-256 of the gzip, hexadecimal.
    pub(super) gzip_sha256: String,
}

/// The handler.
pub(super) async fn checksum(context: Context, job: Checksum) -> Result<Sums, TaskError> {
    if job.fails_once && context.failures() == 0 {
        return Err(TaskError::retry(FAILS_ONCE));
    }
    let begun = Instant::now();
    let run = context.clone();
    let sums = tokio::task::spawn_blocking(move || {
        sums(Path::new(&job.path), |done, all| {
            if run.stopped().is_cancelled() {
                return Err(io::Error::other("stopped on the way"));
            }
            if all >= LARGE {
                // A message within its limit is never refused.
                let _ = run.progress(share(done, all), format!("{done} of {all} bytes"));
            }
            Ok(())
        })
    });
    let sums = sums.await??;
    pause(&context, begun, Duration::from_millis(job.pace_ms)).await;
    Ok(sums)
}

/// Reads a file once: its sums. `each` hears how far it is, and may end it. Blocks.
pub(super) fn sums(path: &Path, mut each: impl FnMut(u64, u64) -> io::Result<()>) -> io::Result<Sums> {
    let mut file = files::open(path)?;
    let all = file.metadata()?.len();
    let mut hash = Sha256::new();
    let mut gzip = GzEncoder::new(Tally::default(), Compression::default());
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        hash.update(&chunk[..read]);
        gzip.write_all(&chunk[..read])?;
        bytes += read as u64;
        each(bytes, all)?;
    }
    let gzip = gzip.finish()?;
    Ok(Sums {
        bytes,
        sha256: hex(&hash.finalize()),
        gzip_bytes: gzip.bytes,
        gzip_sha256: hex(&gzip.hash.finalize()),
    })
}

/// Counts and hashes what is written, and keeps none of it.
#[derive(Default)]
struct Tally {
    hash: Sha256,
    bytes: u64,
}

impl Write for Tally {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes its time, unless it is to stop.
async fn pause(context: &Context, begun: Instant, pace: Duration) {
    while let Some(left) = pace.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
        let done = begun.elapsed().as_secs_f64() / pace.as_secs_f64();
        let _ = context.progress(done.min(1.0), "taking its time");
        tokio::select! {
            // cancel-safe: waiting only.
            () = context.stopped().cancelled() => return,
            () = tokio::time::sleep(left.min(Duration::from_millis(250))) => {}
        }
    }
}

fn share(done: u64, all: u64) -> f64 {
    if all == 0 { 1.0 } else { (done as f64 / all as f64).min(1.0) }
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of nothing and of `abc`, as everybody knows them.
    #[test]
    fn sums_are_those_of_the_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        for (content, sha256) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            std::fs::write(&path, content).unwrap();
            let sums = sums(&path, |_, _| Ok(())).unwrap();
            assert_eq!((sums.bytes, sums.sha256.as_str()), (content.len() as u64, sha256));
            assert!(sums.gzip_bytes > 0 && sums.gzip_sha256.len() == 64);
        }
    }

    #[test]
    fn a_link_is_not_followed_and_a_stop_ends_the_reading() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("x"), dir.path().join("link"));
        std::fs::write(&file, "abc").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(sums(&link, |_, _| Ok(())).is_err());
        assert!(sums(&file, |_, _| Err(io::Error::other("stop"))).is_err());
    }

    #[test]
    fn any_path_survives_the_journey() {
        use std::os::unix::ffi::OsStringExt as _;
        let path = OsString::from_vec(b"/tmp/\xff \n".to_vec());
        let job = Checksum { path: path.clone(), pace_ms: 1, fails_once: true };
        let bytes = leasehold_common::task::encode("payload", &job).unwrap();
        let back: Checksum = leasehold_common::task::decode("payload", &bytes).unwrap();
        assert_eq!(back.path, path);
    }
}
