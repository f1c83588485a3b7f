//! Which programs a worker may run.

use super::error::StartError;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::path::Path;

/// Whether a worker runs commands, and which. Defaults to `Off`.
///
/// A list is matched against the program file only, absolute and with links resolved; allowing
/// a shell or an interpreter allows everything it can do.
#[derive(Debug, Clone, Default)]
pub enum ExecPolicy {
    /// None.
    #[default]
    Off,
    /// Any.
    Any,
    /// Programs whose resolved absolute path matches one of the patterns.
    Globs(GlobSet),
}

/// A pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// It could never match.
    #[error("{0:?} can match no program: patterns are matched against absolute paths")]
    NotAbsolute(String),
    /// It is malformed.
    #[error("not a pattern")]
    Glob(#[from] globset::Error),
}

impl ExecPolicy {
    /// The policy for the values of `--allow-exec`: no option at all is `Off`, the option
    /// without a value (an empty one) is `Any`, else the patterns, in which `*` and `?` do not
    /// match a slash and `**` does.
    ///
    /// # Errors
    /// When a pattern is malformed, or relative so that it could never match.
    pub fn from_options<S: AsRef<str>>(options: &[S]) -> Result<Self, PolicyError> {
        if options.is_empty() {
            return Ok(Self::Off);
        }
        let mut set = GlobSetBuilder::new();
        for pattern in options.iter().map(AsRef::as_ref) {
            if pattern.is_empty() {
                return Ok(Self::Any);
            }
            if !pattern.starts_with(['/', '*', '{', '[', '?']) {
                return Err(PolicyError::NotAbsolute(pattern.to_owned()));
            }
            set.add(GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build()?);
        }
        Ok(Self::Globs(set.build()?))
    }

    /// Whether commands may run at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Decides about a program: `path` is absolute, its links resolved.
    pub(super) fn check(&self, program: &str, path: &Path) -> Result<(), StartError> {
        match self {
            Self::Off => Err(StartError::Off),
            Self::Any => Ok(()),
            Self::Globs(set) if set.is_match(path) => Ok(()),
            Self::Globs(_) => Err(StartError::NotAllowed {
                program: program.to_owned(),
                path: path.to_string_lossy().into_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_policies() {
        assert!(matches!(ExecPolicy::from_options::<&str>(&[]), Ok(ExecPolicy::Off)));
        assert!(matches!(ExecPolicy::from_options(&["/bin/*", ""]), Ok(ExecPolicy::Any)));
        assert!(matches!(ExecPolicy::from_options(&["git"]), Err(PolicyError::NotAbsolute(_))));
        assert!(matches!(ExecPolicy::from_options(&["/a["]), Err(PolicyError::Glob(_))));
    }

    #[test]
    fn stars_stay_within_a_directory() {
        let policy = ExecPolicy::from_options(&["/usr/bin/*", "/opt/**/run"]).expect("patterns");
        let allowed = |path: &str| policy.check("x", Path::new(path)).is_ok();
        assert!(allowed("/usr/bin/git") && allowed("/opt/a/b/run") && allowed("/opt/run"));
        assert!(!allowed("/usr/bin/sub/git") && !allowed("/bin/git") && !allowed("/opt/a/runs"));
        assert_eq!(ExecPolicy::Off.check("x", Path::new("/x")), Err(StartError::Off));
        assert_eq!(ExecPolicy::Any.check("x", Path::new("/x")), Ok(()));
    }
}
