//! The server that `leasehold dev` runs in `./.leasehold`, found by commands typed in another terminal.

use std::fs::{File, TryLockError};
use std::path::Path;

use serde::Deserialize;

use crate::private_redis::Address;

/// The folder of the dev server, below the current one.
pub(crate) const FOLDER: &str = ".leasehold";

/// What of `redis.json` says where the server listens.
#[derive(Deserialize)]
struct Record {
    port: Option<u16>,
}

/// The URL of the server that lives on `folder`, if one does: it holds the lock of `redis.alive` as long as it lives.
pub(super) fn url(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let alive = File::open(folder.join("redis.alive")).ok()?;
    match alive.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let record: Record = serde_json::from_slice(&std::fs::read(folder.join("redis.json")).ok()?).ok()?;
    Some(record.port.map_or_else(|| Address::Unix(folder.join("r.sock")), Address::Tcp).url())
}

#[cfg(test)]
mod tests {
    use super::url;

    #[test]
    fn only_a_server_that_lives_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(url(dir.path()), None);
        std::fs::write(dir.path().join("redis.json"), r#"{"pid":1,"port":7001,"server":"x","command":[]}"#)
            .unwrap();
        let alive = std::fs::File::create(dir.path().join("redis.alive")).unwrap();
        assert_eq!(url(dir.path()), None);
        alive.lock().unwrap();
        assert_eq!(url(dir.path()).as_deref(), Some("redis://127.0.0.1:7001"));
    }
}
