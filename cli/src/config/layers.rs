//! Where a setting comes from: flags beat the environment, which beats the file, which beats the defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use leasehold_common::origin::Origin;
use leasehold_common::text::printable;

use crate::error::{Failure, Result};
use crate::exit::Exit;

/// The file that is read where none is named.
pub(super) const FILE: &str = "leasehold.toml";
/// Names another file.
pub(super) const FILE_VARIABLE: &str = "LEASEHOLD_CONFIG";

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A flag of this call.
    Flag,
    /// This environment variable.
    Environment(String),
    /// This file.
    File(PathBuf),
    /// The server that `leasehold dev` runs in this folder.
    DevServer(PathBuf),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "file {}", printable(&path.display().to_string())),
            Self::DevServer(path) => {
                write!(f, "dev server in {}", printable(&path.display().to_string()))
            }
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it comes from.
    pub(crate) source: Source,
}

impl Source {
    /// What the record of a task is told of it.
    pub(crate) fn origin(&self) -> Origin {
        match self {
            Self::Flag => Origin::Caller,
            Self::Environment(_) => Origin::Environment,
            Self::File(_) | Self::DevServer(_) => Origin::File,
            Self::Default => Origin::Default,
        }
    }
}

impl<T: Clone> Setting<T> {
    /// The value, unless this call's own flag says otherwise.
    pub(crate) fn or_flag(&self, flag: Option<T>) -> T {
        flag.unwrap_or_else(|| self.value.clone())
    }
}

/// Environment and file, read once; what is wrong in them is gathered, so that it is told all at once.
pub(super) struct Layers<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    file: BTreeMap<String, String>,
    path: PathBuf,
    known: Vec<&'static str>,
    problems: Vec<String>,
}

impl<'a> Layers<'a> {
    /// Reads the file that the environment names, else `leasehold.toml` in `folder` if there is one.
    pub(super) fn read(folder: &Path, lookup: &'a dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let named = lookup(FILE_VARIABLE);
        let path = named.as_ref().map_or_else(|| folder.join(FILE), PathBuf::from);
        let file = match std::fs::read_to_string(&path) {
            Ok(text) => flat(&text, &path)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => BTreeMap::new(),
            Err(error) => {
                return Err(Failure::new(Exit::Usage, format!("cannot read {}: {error}", path.display())));
            }
        };
        Ok(Self { lookup, file, path, known: Vec::new(), problems: Vec::new() })
    }

    /// The setting `key`: `variables` are looked at in order, and before the file.
    pub(super) fn find(&mut self, key: &'static str, variables: &[&str]) -> Option<(String, Source)> {
        self.known.push(key);
        for name in variables {
            if let Some(text) = (self.lookup)(name).filter(|text| !text.is_empty()) {
                return Some((text, Source::Environment((*name).to_owned())));
            }
        }
        self.file.get(key).map(|text| (text.clone(), Source::File(self.path.clone())))
    }

    /// The setting `key`, from the flag, `LEASEHOLD_<KEY>`, the file, or the default.
    pub(super) fn get<T, E: fmt::Display>(
        &mut self,
        key: &'static str,
        flag: Option<T>,
        default: T,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Setting<T> {
        let found = self.find(key, &[&variable(key)]);
        if let Some(value) = flag {
            return Setting { value, source: Source::Flag };
        }
        let Some((text, source)) = found else { return Setting { value: default, source: Source::Default } };
        match parse(&text) {
            Ok(value) => Setting { value, source },
            Err(error) => {
                self.problems.push(format!("{key} ({source}): {error}"));
                Setting { value: default, source: Source::Default }
            }
        }
    }

    /// Refuses what is wrong and what is unknown; to be called once all settings were asked for.
    pub(super) fn finish(mut self) -> Result<()> {
        for key in self.file.keys().filter(|key| !self.known.contains(&key.as_str())) {
            let (path, key) = (self.path.display(), printable(key));
            self.problems.push(format!("unknown key {key} in {path}"));
        }
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(Failure::new(Exit::Usage, format!("wrong settings:\n  {}", self.problems.join("\n  ")))
            .hint("`leasehold config show` in another folder lists the keys there are"))
    }
}

/// The environment variable of a key: `worker.drain_grace` is `LEASEHOLD_WORKER_DRAIN_GRACE`.
pub(crate) fn variable(key: &str) -> String {
    format!("LEASEHOLD_{}", key.replace('.', "_").to_uppercase())
}

/// The keys of a TOML document, `table.key`, with their values as text.
fn flat(text: &str, path: &Path) -> Result<BTreeMap<String, String>> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        let reason = error.message();
        Failure::new(Exit::Usage, format!("{} line {line}: {reason}", path.display()))
    })?;
    let mut found = BTreeMap::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => {
                for (name, value) in inner {
                    found.insert(format!("{key}.{name}"), plain(&value));
                }
            }
            value => {
                found.insert(key, plain(&value));
            }
        }
    }
    Ok(found)
}

/// A value as its check reads it: what is no plain value reaches the check as TOML, and is refused there.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(n) => n.to_string(),
        toml::Value::Boolean(b) => b.to_string(),
        toml::Value::Float(f) => f.to_string(),
        toml::Value::Datetime(t) => t.to_string(),
        toml::Value::Array(_) | toml::Value::Table(_) => "a list or table".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Layers, Source};

    fn read(file: &str, env: &[(&str, &str)], check: impl Fn(&mut Layers<'_>)) -> Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("leasehold.toml"), file).unwrap();
        let lookup = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        let mut layers = Layers::read(dir.path(), &lookup).map_err(|e| e.text())?;
        check(&mut layers);
        layers.finish().map_err(|e| e.text())
    }

    #[test]
    fn flags_beat_environment_beats_file_beats_default() {
        let parse = |text: &str| text.parse::<u32>();
        let file = "[worker]\nslots = 3\n";
        let env = [("LEASEHOLD_WORKER_SLOTS", "4")];
        read(file, &env, |l| {
            assert_eq!(l.get("worker.slots", Some(5), 1, parse).value, 5);
            assert_eq!(l.get("worker.slots", None, 1, parse).value, 4);
        })
        .unwrap();
        read(file, &[], |l| {
            let setting = l.get("worker.slots", None, 1, parse);
            assert_eq!(setting.value, 3);
            assert!(matches!(setting.source, Source::File(_)));
        })
        .unwrap();
        read("", &[("LEASEHOLD_WORKER_SLOTS", "")], |l| {
            assert_eq!(l.get("worker.slots", None, 1, parse).source, Source::Default);
        })
        .unwrap();
    }

    #[test]
    fn r97_unknown_keys_and_wrong_values_are_told_together() {
        let error = read("[worker]\nslots = \"many\"\nleese = \"5s\"\n", &[], |l| {
            l.get("worker.slots", None, 1, |text| text.parse::<u32>());
        })
        .unwrap_err();
        assert!(error.contains("worker.slots") && error.contains("worker.leese"), "{error}");
        let error = read("a = \n", &[], |_| {}).unwrap_err();
        assert!(error.contains("leasehold.toml line 1"), "{error}");
    }
}
