//! Which files the demo works on: regular ones below a folder, within bounds, each skipped one told.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::fcntl::OFlag;
use serde::Serialize;
use walkdir::WalkDir;

use crate::error::{Failure, Result};

/// Folders that hold nothing of the user's own making, wherever they lie.
const SKIPPED: [&str; 3] = [".git", "target", ".leasehold"];

/// How much is taken at most: a demo must end soon wherever it is started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Files. Defaults to 2,000.
    pub(super) files: usize,
    /// Bytes of one file. Defaults to 16 MiB.
    pub(super) bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { files: 2000, bytes: 16 * 1024 * 1024 }
    }
}

/// Why something is not worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Skip {
    /// `.git`, `target` or `.leasehold`.
    Folder,
    /// A symbolic link: it is not followed.
    Link,
    /// No regular file: a socket, a pipe, a device.
    Special,
    /// Over the bound of one file.
    TooLarge,
    /// More files than are taken; where they begin, nothing further is looked at.
    TooMany,
    /// The system refuses to open or list it.
    Unreadable,
}

impl Skip {
    /// For people.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folders of tools",
            Self::Link => "links",
            Self::Special => "special files",
            Self::TooLarge => "too large",
            Self::TooMany => "over the number of files taken",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What was skipped for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Skipped {
    /// How many.
    pub(super) count: usize,
    /// The first of them, relative to the folder.
    pub(super) first: String,
}

/// One file to work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Where it is, absolute.
    pub(super) path: PathBuf,
    /// Relative to the folder.
    pub(super) name: PathBuf,
    /// Its size when it was found.
    pub(super) bytes: u64,
    /// When it had been changed last, then; none where the system does not tell.
    pub(super) modified: Option<SystemTime>,
}

impl Found {
    /// Whether it is not the file any more that was found.
    pub(super) fn has_changed(&self) -> bool {
        std::fs::symlink_metadata(&self.path).map_or(true, |now| {
            !now.is_file() || now.len() != self.bytes || now.modified().ok() != self.modified
        })
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// In the order of their names.
    pub(super) files: Vec<Found>,
    /// By reason.
    pub(super) skipped: BTreeMap<Skip, Skipped>,
}

impl Listing {
    fn skip(&mut self, why: Skip, name: &Path) {
        let skipped = self.skipped.entry(why);
        skipped.or_insert_with(|| Skipped { count: 0, first: name.to_string_lossy().into_owned() }).count +=
            1;
    }
}

/// Lists the files below `folder`. Blocks.
pub(super) fn list(folder: &Path, bounds: Bounds) -> Result<Listing> {
    let shown = folder.display();
    let root = std::fs::canonicalize(folder).map_err(|error| {
        Failure::usage("DIR", format!("{shown}: {error}")).hint("name a folder that you can read")
    })?;
    if !root.is_dir() {
        return Err(
            Failure::usage("DIR", format!("{shown} is not a folder")).hint("name the folder that holds it")
        );
    }
    let mut listing = Listing::default();
    let mut walk = WalkDir::new(&root).min_depth(1).sort_by_file_name().into_iter();
    while let Some(entry) = walk.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                let name = error.path().and_then(|path| path.strip_prefix(&root).ok());
                listing.skip(Skip::Unreadable, name.unwrap_or_else(|| Path::new("?")));
                continue;
            }
        };
        let name = entry.path().strip_prefix(&root).unwrap_or_else(|_| entry.path());
        let kind = entry.file_type();
        if kind.is_dir() {
            if SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                listing.skip(Skip::Folder, name);
                walk.skip_current_dir();
            }
        } else if listing.files.len() == bounds.files {
            listing.skip(Skip::TooMany, name);
            break;
        } else {
            match judge(&entry, bounds) {
                Ok((bytes, modified)) => {
                    let (path, name) = (entry.path().to_owned(), name.to_owned());
                    listing.files.push(Found { path, name, bytes, modified });
                }
                Err(why) => listing.skip(why, name),
            }
        }
    }
    if listing.files.is_empty() {
        return Err(Failure::usage("DIR", format!("{shown} holds no file that the demo can work on"))
            .hint("name a folder with some files, such as a source tree"));
    }
    Ok(listing)
}

/// Size and last change of a file that is worked on, else why it is not.
fn judge(entry: &walkdir::DirEntry, bounds: Bounds) -> Result<(u64, Option<SystemTime>), Skip> {
    let kind = entry.file_type();
    if kind.is_symlink() {
        return Err(Skip::Link);
    }
    if !kind.is_file() {
        return Err(Skip::Special);
    }
    let facts = entry.metadata().map_err(|_| Skip::Unreadable)?;
    if facts.len() > bounds.bytes {
        return Err(Skip::TooLarge);
    }
    open(entry.path()).map_err(|_| Skip::Unreadable)?;
    Ok((facts.len(), facts.modified().ok()))
}

/// Opens a regular file for reading: no link, and nothing that could make the reader wait.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file any more"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(listing: &Listing) -> Vec<&str> {
        listing.files.iter().filter_map(|file| file.name.to_str()).collect()
    }

    #[test]
    fn regular_files_are_taken_and_everything_else_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for folder in ["sub", "target", ".git", "sub/target"] {
            fs::create_dir(path(folder)).unwrap();
            fs::write(path(folder).join("a b.txt"), "x").unwrap();
        }
        fs::write(path("ü\n.txt"), "").unwrap();
        fs::write(path("large"), [0; 20]).unwrap();
        symlink("large", path("link")).unwrap();
        symlink(".", path("sub/loop")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let listing = list(dir.path(), Bounds { files: 10, bytes: 19 }).unwrap();
        assert_eq!(names(&listing), ["sub/a b.txt", "ü\n.txt"]);
        let counts: Vec<_> = listing.skipped.iter().map(|(why, s)| (*why, s.count)).collect();
        let expected = [(Skip::Folder, 3), (Skip::Link, 2), (Skip::Special, 1), (Skip::TooLarge, 1)];
        assert_eq!(counts, expected);
    }

    #[test]
    fn no_more_files_than_the_bound_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c", "d"] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        let listing = list(dir.path(), Bounds { files: 2, bytes: 1 }).unwrap();
        assert_eq!(names(&listing), ["a", "b"]);
        assert_eq!(listing.skipped[&Skip::TooMany].first, "c");
    }

    #[test]
    fn a_folder_without_files_is_refused_saying_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let text = list(dir.path(), Bounds::default()).unwrap_err().text();
        assert!(text.contains("no file") && text.contains("name a folder"), "{text}");
        assert!(list(&dir.path().join("none"), Bounds::default()).is_err());
    }
}
