//! Finding the built `leasehold` binary, and asking it whether it understands a command line.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The binary beside the test executable (`target/<profile>/leasehold`), or `$LEASEHOLD_BIN`.
///
/// Cargo builds it only when asked (`make build`), so a note is printed when a source is newer than it.
pub fn binary() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

/// Whether the binary takes these arguments (without the leading `leasehold`); `Err` has what it said instead.
///
/// With `LEASEHOLD_CHECK_ARGS=1` the binary only parses, prints `ok` and exits 0, or exits 2: nothing is
/// connected or started.
pub fn check_cli_parses(arguments: &[impl AsRef<str>]) -> Result<(), String> {
    let mut command = Command::new(binary());
    command.args(arguments.iter().map(AsRef::as_ref)).env("LEASEHOLD_CHECK_ARGS", "1").stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("cannot run leasehold: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let asks_for_help = arguments.iter().any(|argument| ["--help", "--version"].contains(&argument.as_ref()));
    match output.status.success() {
        true if asks_for_help || said.trim() == "ok" => Ok(()),
        true => Err(format!("it did not answer LEASEHOLD_CHECK_ARGS with `ok`, but with {said:?}")),
        false => Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

fn find() -> PathBuf {
    if let Some(named) = env::var_os("LEASEHOLD_BIN") {
        return PathBuf::from(named);
    }
    let test = env::current_exe().expect("the path of the test executable");
    // The test executable is target/<profile>/deps/it-<hash>.
    let profile = test.ancestors().nth(2).expect("a test executable lies in target/<profile>/deps");
    let binary = profile.join("leasehold");
    assert!(binary.is_file(), "{} is missing: run `make build` first", binary.display());
    if let Some(newer) = newer_source(&binary) {
        eprintln!(
            "note: {newer} is newer than the leasehold binary: run `make build` for the tests to see it"
        );
    }
    binary
}

/// A source newer than the binary, by the dependency file that cargo writes beside it.
fn newer_source(binary: &Path) -> Option<String> {
    let built = modified(binary)?;
    let rule = fs::read_to_string(binary.with_extension("d")).ok()?;
    let (_target, sources) = rule.split_once(": ")?;
    let newer = sources.split_whitespace().find(|source| modified(Path::new(source)) > Some(built));
    newer.map(str::to_owned)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
