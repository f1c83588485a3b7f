//! The last resort: let the system's package manager install a server.
//!
//! As root it is run directly; otherwise only after a person on a terminal has agreed to the exact command.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use super::binary::{Origin, ServerBinary};
use super::env::Env;
use super::locate::Step;
use super::reporter::{Confirmation, Reporter};

/// The servers that packages bring, in the order in which they are tried.
const SERVERS: [&str; 2] = ["redis-server", "valkey-server"];

/// Where a link to a Debian binary lies below the cache folder.
const LINKS: &str = "apt";

/// A package manager and how it is asked.
#[derive(Debug)]
struct Manager {
    name: &'static str,
    install: &'static [&'static str],
    packages: [&'static str; 2],
    /// Refreshes the list of packages; a fresh container has none.
    refresh: Option<&'static [&'static str]>,
    /// Whether it must run as root; brew must not.
    root: bool,
}

/// In the order of preference; a machine rarely has two.
///
/// On Debian the packages `redis-server` and `valkey-server` start a system daemon, so they are not installed. The
/// `-tools` packages hold the same program: `redis-server` there is a link to `redis-check-rdb`, which looks at the
/// name it is called by. See [`link`].
const MANAGERS: [Manager; 5] = [
    Manager {
        name: "brew",
        install: &["install"],
        packages: ["redis", "valkey"],
        refresh: None,
        root: false,
    },
    Manager {
        name: "apt-get",
        install: &["install", "-y", "--no-install-recommends"],
        packages: ["redis-tools", "valkey-tools"],
        refresh: Some(&["update"]),
        root: true,
    },
    Manager {
        name: "dnf",
        install: &["install", "-y"],
        packages: ["redis", "valkey"],
        refresh: None,
        root: true,
    },
    Manager {
        name: "apk",
        install: &["add"],
        packages: ["redis", "valkey"],
        refresh: Some(&["update"]),
        root: true,
    },
    Manager {
        name: "pacman",
        install: &["-S", "--noconfirm"],
        packages: ["valkey", "redis"],
        refresh: None,
        root: true,
    },
];

/// The Debian binary that an earlier run has linked.
pub(super) fn linked(env: &Env) -> Step {
    let Some(folder) = env.cache_folder().map(|folder| folder.join(LINKS)) else { return Ok(None) };
    match SERVERS.iter().map(|server| folder.join(server)).find(|path| path.is_symlink()) {
        Some(path) => ServerBinary::examine(&path, Origin::Package("apt-get")).map(Some),
        None => Ok(None),
    }
}

/// Installs a server with the package manager of this machine.
pub(super) fn install(env: &Env, reporter: &dyn Reporter) -> Step {
    install_as(env, reporter, nix::unistd::geteuid().is_root())
}

/// [`install`] for a user who is root or is not.
pub(super) fn install_as(env: &Env, reporter: &dyn Reporter, is_root: bool) -> Step {
    let (manager, program) = MANAGERS
        .iter()
        .find_map(|manager| env.find(manager.name).map(|program| (manager, program)))
        .ok_or("none of brew, apt-get, dnf, apk, pacman is on PATH")?;
    let name = manager.name;
    let sudo = match (manager.root, is_root) {
        (true, false) => {
            Some(env.find("sudo").ok_or_else(|| format!("{name} needs root, and sudo is not on PATH"))?)
        }
        (false, true) => return Err(format!("{name} refuses to run as root")),
        (true, true) | (false, false) => None,
    };
    if !is_root {
        let prefix = if sudo.is_some() { "sudo " } else { "" };
        let command = format!("{prefix}{name} {} {}", manager.install.join(" "), manager.packages[0]);
        match reporter.confirm(&format!("redis: no server found; install one with `{command}`?")) {
            Confirmation::Yes => {}
            Confirmation::No => return Err(format!("`{command}` was declined")),
            Confirmation::NoTerminal => {
                return Err(format!("`{command}` was not run: there is no terminal to ask on"));
            }
        }
    }
    let run = |arguments: &[&str]| {
        let mut command = match &sudo {
            Some(sudo) => {
                let mut command = Command::new(sudo);
                command.arg(&program);
                command
            }
            None => Command::new(&program),
        };
        reporter.say(&format!("redis: running {name} {}", arguments.join(" ")));
        run(command.args(arguments))
    };
    let try_install = || {
        manager.packages.iter().find_map(|package| {
            let arguments: Vec<&str> =
                manager.install.iter().copied().chain(std::iter::once(*package)).collect();
            match run(&arguments).and_then(|()| installed(env, manager)) {
                Ok(binary) => Some(binary),
                Err(why) => {
                    reporter.say(&format!("redis: {name} {package}: {why}"));
                    None
                }
            }
        })
    };
    let refreshed = || manager.refresh.and_then(|refresh| run(refresh).ok()).and_then(|()| try_install());
    match try_install().or_else(refreshed) {
        Some(binary) => Ok(Some(binary)),
        None => Err(format!("{name} installed no server that can be used")),
    }
}

/// The server that the package has brought.
fn installed(env: &Env, manager: &Manager) -> Result<ServerBinary, String> {
    let origin = Origin::Package(manager.name);
    if let Some(path) = SERVERS.iter().find_map(|server| env.find(server)) {
        return ServerBinary::examine(&path, origin);
    }
    if manager.name != "apt-get" {
        return Err(String::from("no redis-server or valkey-server is on PATH afterwards"));
    }
    let folder = env.cache_folder().ok_or("neither XDG_CACHE_HOME nor HOME is an absolute path")?.join(LINKS);
    let (server, program) = SERVERS
        .iter()
        .find_map(|server| env.find(server.replace("server", "check-rdb")).map(|program| (server, program)))
        .ok_or("no redis-check-rdb or valkey-check-rdb is on PATH afterwards")?;
    let path = folder.join(server);
    link(&program, &folder, &path).map_err(|error| format!("could not link {}: {error}", path.display()))?;
    ServerBinary::examine(&path, origin)
}

/// Gives Debian's `redis-check-rdb` the name under which it is a server.
fn link(program: &Path, folder: &Path, path: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    symlink(program, path)
}

/// Runs `command` with its output on our stderr, since our stdout is for data. sudo asks for the password on the
/// terminal itself.
fn run(command: &mut Command) -> Result<(), String> {
    let stderr = io::stderr().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::from(stderr))
        .status()
        .map_err(|error| format!("did not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: {status}")) }
}
