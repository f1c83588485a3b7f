//! What to run.

use super::error::StartError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A command: no shell is involved unless `argv` names one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// The program and its arguments. The program is looked up in the child's `PATH` unless it
    /// holds a slash; a relative path counts from `cwd`.
    pub argv: Vec<String>,
    /// Variables beside `PATH`, `HOME`, `LANG` and `TMPDIR`, which come from the worker. These
    /// win.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Working directory. Defaults to the worker's.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Standard input, whole. Defaults to nothing (`/dev/null`).
    #[serde(default, with = "serde_bytes")]
    pub stdin: Option<Vec<u8>>,
}

impl CommandSpec {
    /// A command with these arguments and nothing else.
    pub fn new<I: IntoIterator<Item: Into<String>>>(argv: I) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Whether the system could take it at all, found without asking it.
    ///
    /// # Errors
    /// When the command is empty, holds a NUL, or a variable has no proper name.
    pub fn validate(&self) -> Result<(), StartError> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(StartError::Empty);
        }
        for (index, argument) in self.argv.iter().enumerate() {
            if argument.contains('\0') {
                return Err(StartError::Nul { what: format!("argument {index}") });
            }
        }
        if self.cwd.as_ref().is_some_and(|cwd| cwd.as_os_str().as_encoded_bytes().contains(&0)) {
            return Err(StartError::Nul { what: "working directory".to_owned() });
        }
        validate_variables(&self.env)
    }
}

/// Checks names and values of variables.
pub(super) fn validate_variables(env: &BTreeMap<String, String>) -> Result<(), StartError> {
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(StartError::VariableName { name: name.clone() });
        }
        if value.contains('\0') {
            return Err(StartError::Nul { what: format!("variable {name}") });
        }
    }
    Ok(())
}

/// Where output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_read_with_defaults_and_survives_messagepack() {
        let spec: CommandSpec = serde_json::from_str(r#"{"argv":["ls"]}"#).expect("reads");
        assert_eq!(spec, CommandSpec::new(["ls"]));
        let spec = CommandSpec {
            env: BTreeMap::from([("A".into(), "1".into())]),
            cwd: Some("/tmp".into()),
            stdin: Some(vec![0, 255, 10]),
            ..spec
        };
        let bytes = rmp_serde::to_vec_named(&spec).expect("writes");
        assert_eq!(rmp_serde::from_slice::<CommandSpec>(&bytes).expect("reads"), spec);
    }

    #[test]
    fn what_no_system_takes_is_refused() {
        let check = |spec: &CommandSpec| spec.validate().map_err(|error| error.to_string());
        assert_eq!(check(&CommandSpec::default()), Err("the command is empty".into()));
        assert!(check(&CommandSpec::new(["a", "b\0c"])).is_err_and(|e| e.contains("argument 1")));
        for (name, value, word) in [("", "x", "name"), ("A=B", "x", "A=B"), ("A", "x\0", "variable A")] {
            let env = BTreeMap::from([(name.into(), value.into())]);
            let error = check(&CommandSpec { env, ..CommandSpec::new(["ls"]) });
            assert!(error.clone().is_err_and(|e| e.contains(word)), "{error:?}");
        }
    }
}
