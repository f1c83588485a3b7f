//! The end of a demo whose own process was killed: the reaper, the last to stay, takes down what it left.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::processes::{self, MARK_VARIABLE};
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::private_redis::{StderrReporter, stop};

/// Workers notice the end of the demo by themselves. Until they have handed back what they hold, Redis is needed.
const WORKERS_END_WITHIN: Duration = Duration::from_secs(6);

/// What temporary folders of the demo and its Redis begin with.
pub(super) const PREFIX: &str = "leasehold-";

/// Ends what of the demo does not end by itself (a worker that it froze), removes its keys, ends the private Redis that lives in one of these folders, and removes them.
pub(super) async fn take_down(context: &Context, folders: &[PathBuf]) -> Result<()> {
    let mark = std::env::var(MARK_VARIABLE).unwrap_or_default();
    if mark.is_empty() || !processes::has_proc() {
        tokio::time::sleep(WORKERS_END_WITHIN).await;
    } else {
        processes::unmarked(&mark, WORKERS_END_WITHIN).await.into_iter().for_each(processes::end);
        // Guards end what a killed worker had started.
        processes::unmarked(&mark, WORKERS_END_WITHIN).await.into_iter().for_each(processes::end);
    }
    context.store()?.remove_namespace().await?;
    let folders: Vec<PathBuf> = folders.iter().filter(|folder| is_ours(folder)).cloned().collect();
    let ending = tokio::task::spawn_blocking(move || folders.iter().try_for_each(|folder| end(folder)));
    ending.await.map_err(|error| Failure::failed(format!("the demo's folders are left: {error}")))?
}

fn end(folder: &Path) -> Result<()> {
    stop(folder, &StderrReporter)?;
    fs::remove_dir_all(folder)
        .map_err(|error| Failure::io(format!("cannot remove {}", folder.display()), &error))
}

/// Nothing but a temporary folder of ours is ever removed, whatever the arguments say.
fn is_ours(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    let temporary = fs::canonicalize(std::env::temp_dir()).ok();
    name.is_some_and(|name| name.starts_with(PREFIX))
        && temporary.is_some()
        && folder.parent().and_then(|parent| fs::canonicalize(parent).ok()) == temporary
        && fs::symlink_metadata(folder).is_ok_and(|facts| facts.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_folders_of_ours_are_taken_down() {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap();
        assert!(is_ours(dir.path()));
        fs::create_dir(dir.path().join("leasehold-x")).unwrap();
        for other in ["/", "/tmp", "/etc", "leasehold-", &format!("{}/leasehold-x", dir.path().display())] {
            assert!(!is_ours(Path::new(other)), "{other}");
        }
    }
}
