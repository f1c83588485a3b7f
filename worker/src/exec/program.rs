//! Finding the program a command names, and saying why it does not execute.

use super::error::StartError;
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Searched when the child has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Checks that `cwd` can be a working directory.
pub(super) fn check_cwd(cwd: &Path) -> Result<(), StartError> {
    match std::fs::metadata(cwd) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(StartError::CwdNotDirectory { path: text(cwd) }),
        Err(error) => Err(explain_cwd(cwd, &error)),
    }
}

/// Why `cwd` could not be entered.
pub(super) fn explain_cwd(cwd: &Path, error: &std::io::Error) -> StartError {
    let path = text(cwd);
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => StartError::CwdMissing { path },
        Some(Errno::ENOTDIR) => StartError::CwdNotDirectory { path },
        _ => StartError::CwdDenied { path, reason: error.to_string() },
    }
}

/// The file that `program` names: absolute, links not resolved.
pub(super) fn resolve(program: &str, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, StartError> {
    if program.contains('/') {
        let file = cwd.join(program);
        return match judge(&file) {
            Candidate::Good => Ok(file),
            Candidate::Missing => Err(StartError::NotFound { program: program.to_owned(), path: None }),
            Candidate::Directory => Err(StartError::IsDirectory { path: text(&file) }),
            Candidate::Denied => Err(StartError::NotExecutable { path: text(&file) }),
        };
    }
    let path = path.unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    let mut denied = None;
    for directory in std::env::split_paths(path) {
        let file = cwd.join(directory).join(program);
        match judge(&file) {
            Candidate::Good => return Ok(file),
            Candidate::Denied => denied = denied.or(Some(file)),
            Candidate::Missing | Candidate::Directory => {}
        }
    }
    Err(match denied {
        Some(file) => StartError::NotExecutable { path: text(&file) },
        None => StartError::NotFound {
            program: program.to_owned(),
            path: Some(path.to_string_lossy().into_owned()),
        },
    })
}

enum Candidate {
    Good,
    Missing,
    Directory,
    Denied,
}

fn judge(file: &Path) -> Candidate {
    match std::fs::metadata(file) {
        Ok(meta) if meta.is_dir() => Candidate::Directory,
        Ok(_) if access(file, AccessFlags::X_OK).is_ok() => Candidate::Good,
        Ok(_) => Candidate::Denied,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Candidate::Denied,
        Err(_) => Candidate::Missing,
    }
}

/// Why `file` did not execute.
pub(super) fn explain_exec(file: &Path, errno: Errno, bytes: u64) -> StartError {
    let path = text(file);
    match errno {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP if file.exists() => {
            let interpreter = interpreter(file).unwrap_or_else(|| "its dynamic loader".to_owned());
            StartError::MissingInterpreter { path, interpreter }
        }
        Errno::ENOENT | Errno::ENOTDIR => StartError::NotFound { program: path, path: None },
        Errno::EACCES | Errno::EPERM => match judge(file) {
            Candidate::Directory => StartError::IsDirectory { path },
            // The file may be executed: then its interpreter may not, or the file system has
            // `noexec`.
            Candidate::Good => match interpreter(file) {
                Some(interpreter) if access(Path::new(&interpreter), AccessFlags::X_OK).is_err() => {
                    StartError::NotExecutable { path: interpreter }
                }
                _ => StartError::NotExecutable { path },
            },
            Candidate::Missing | Candidate::Denied => StartError::NotExecutable { path },
        },
        Errno::ENOEXEC => StartError::NotAProgram { path },
        Errno::E2BIG => StartError::TooLong { bytes },
        Errno::ETXTBSY => StartError::Busy { path },
        Errno::EAGAIN | Errno::ENOMEM | Errno::ENFILE | Errno::EMFILE => {
            StartError::Exhausted { reason: errno.desc().to_owned() }
        }
        other => StartError::Other { path, reason: other.desc().to_owned() },
    }
}

/// What the `#!` line names, exactly as the kernel takes it.
fn interpreter(file: &Path) -> Option<String> {
    let mut head = Vec::new();
    std::fs::File::open(file).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let name = line.trim_start_matches([' ', '\t']).split([' ', '\t']).next()?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(dir: &Path, name: &str, mode: u32, content: &str) -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, content).expect("writes");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("sets");
        path
    }

    #[test]
    fn programs_are_searched_in_the_given_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::create_dir_all(a.join("tool")).expect("makes");
        std::fs::create_dir_all(&b).expect("makes");
        let tool = file(&b, "tool", 0o755, "");
        file(&a, "locked", 0o644, "");
        let path = std::env::join_paths([&a, &b]).expect("joins");
        let find = |program: &str| resolve(program, Some(&path), dir.path());
        // The directory named `tool` is passed over.
        assert_eq!(find("tool"), Ok(tool.clone()));
        assert_eq!(find("b/tool"), Ok(dir.path().join("b/tool")));
        assert_eq!(find("./b/tool").map(|p| p.exists()), Ok(true));
        assert_eq!(
            find("a"),
            Err(StartError::NotFound {
                program: "a".into(),
                path: Some(path.to_string_lossy().into_owned()),
            })
        );
        assert!(find("nowhere").is_err_and(|error| error.to_string().contains("searched PATH=")));
        assert_eq!(find("./nowhere"), Err(StartError::NotFound { program: "./nowhere".into(), path: None }));
        assert!(matches!(find("locked"), Err(StartError::NotExecutable { .. })));
        assert!(matches!(find("./a"), Err(StartError::IsDirectory { .. })));
        // A relative entry counts from the working directory.
        assert_eq!(resolve("tool", Some(OsStr::new("b")), dir.path()), Ok(tool));
        assert!(resolve("sh", None, dir.path()).is_ok());
    }

    #[test]
    fn interpreters_are_named_as_the_kernel_sees_them() {
        let dir = tempfile::tempdir().expect("a directory");
        for (content, expected) in [
            ("#!/bin/sh -e\n", Some("/bin/sh")),
            ("#!  /no/such\r\n", Some("/no/such\r")),
            ("#!/x", Some("/x")),
            ("echo", None),
        ] {
            let path = file(dir.path(), "script", 0o755, content);
            assert_eq!(interpreter(&path).as_deref(), expected, "{content:?}");
        }
    }
}
