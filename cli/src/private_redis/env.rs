//! The environment variables that decide which Redis is used, read once and passed on.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// The variables that name a Redis which already runs, the stronger one first.
const URL_VARIABLES: [&str; 2] = ["LEASEHOLD_REDIS_URL", "REDIS_URL"];

/// A Redis that the user already has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GivenUrl {
    /// The variable that named it; safe to print, which the URL is not (it may hold a password).
    pub(crate) variable: &'static str,
    /// The URL as given.
    pub(crate) url: String,
}

/// The part of the environment that this module looks at. An empty variable counts as unset.
#[derive(Debug, Clone, Default)]
pub(crate) struct Env {
    /// A Redis that already runs.
    pub(crate) given: Option<GivenUrl>,
    /// `REDIS_SERVER`: the server binary to prefer, as a path or a name on `PATH`.
    pub(crate) redis_server: Option<OsString>,
    /// `PATH`.
    pub(crate) path: Option<OsString>,
    /// `XDG_CACHE_HOME`.
    pub(crate) cache_home: Option<PathBuf>,
    /// `HOME`.
    pub(crate) home: Option<PathBuf>,
}

impl Env {
    /// Reads the environment of this process.
    pub(crate) fn from_process() -> Self {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads the variables through `lookup`.
    pub(super) fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let given = URL_VARIABLES.iter().find_map(|&variable| {
            set(variable).map(|url| GivenUrl { variable, url: url.to_string_lossy().into_owned() })
        });
        Self {
            given,
            redis_server: set("REDIS_SERVER"),
            path: set("PATH"),
            cache_home: set("XDG_CACHE_HOME").map(PathBuf::from),
            home: set("HOME").map(PathBuf::from),
        }
    }

    /// The first executable file called `name` on `PATH`; a name with a slash is taken as a path.
    pub(super) fn find(&self, name: impl AsRef<OsStr>) -> Option<PathBuf> {
        let name = Path::new(name.as_ref());
        if name.components().count() > 1 {
            return std::path::absolute(name).ok().filter(|path| is_executable(path));
        }
        std::env::split_paths(self.path.as_ref()?)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|path| is_executable(path))
    }

    /// Where downloads may be kept: `leasehold` in the user's cache folder. The base directory specification says
    /// that a relative `XDG_CACHE_HOME` is ignored.
    pub(super) fn cache_folder(&self) -> Option<PathBuf> {
        let xdg = self.cache_home.clone().filter(|folder| folder.is_absolute());
        let home = || self.home.as_ref().filter(|home| home.is_absolute()).map(|home| home.join(".cache"));
        xdg.or_else(home).map(|folder| folder.join("leasehold"))
    }
}

/// Whether this user may execute the file at `path`.
fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(variables: &[(&str, &str)]) -> Env {
        Env::from_lookup(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    /// `LEASEHOLD_REDIS_URL` beats `REDIS_URL`, and an empty variable is no variable.
    #[test]
    fn stronger_url_variable_wins() {
        let both = env(&[("REDIS_URL", "redis://b"), ("LEASEHOLD_REDIS_URL", "redis://a")]);
        assert_eq!(both.given.map(|given| given.url).as_deref(), Some("redis://a"));
        let one = env(&[("REDIS_URL", "redis://b"), ("LEASEHOLD_REDIS_URL", "")]);
        assert_eq!(one.given.map(|given| given.variable), Some("REDIS_URL"));
        assert_eq!(env(&[("REDIS_URL", "")]).given, None);
    }

    /// The cache folder follows the XDG rules.
    #[test]
    fn cache_folder_follows_xdg() {
        let cases = [
            ("/c", "/h", Some("/c/leasehold")),
            ("c", "/h", Some("/h/.cache/leasehold")),
            ("", "/h", Some("/h/.cache/leasehold")),
            ("", "", None),
        ];
        for (xdg, home, expected) in cases {
            let env = env(&[("XDG_CACHE_HOME", xdg), ("HOME", home)]);
            assert_eq!(env.cache_folder(), expected.map(PathBuf::from), "{xdg:?} {home:?}");
        }
    }

    /// A name is searched on `PATH`, a path is taken as it is, and what cannot be executed is not found.
    #[test]
    fn finds_executables_only() {
        let env = env(&[("PATH", "/nonexistent:/bin:/usr/bin")]);
        assert!(env.find("sh").is_some());
        assert!(env.find("/bin/sh").is_some());
        assert_eq!(env.find("/etc/passwd"), None);
        assert_eq!(env.find("no-such-program-here"), None);
    }
}
