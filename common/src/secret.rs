//! Values that no message and no output may show.

use std::fmt;

use crate::body::{Body, ExecPayload, TaskKind};
use crate::error::{Error, Result};
use crate::task::decode;

/// A secret has at least so many bytes: shorter ones would be found all over in what has nothing to do with them.
pub const LEAST_SECRET: usize = 4;

/// Checks a value that is to be masked. An empty one is no secret, and there is nothing to mask.
///
/// # Errors
/// [`Error::Invalid`] naming `field` for 1 to 3 bytes, without quoting the value.
pub fn check_secret(field: &'static str, name: &str, value: &[u8]) -> Result<()> {
    if value.is_empty() || value.len() >= LEAST_SECRET {
        return Ok(());
    }
    let name = crate::text::printable(name);
    Err(Error::invalid(
        field,
        format!(
            "the value of {name:?} has {} bytes; one of {LEAST_SECRET} or more can be masked",
            value.len()
        ),
    ))
}

impl fmt::Debug for ExecPayload {
    /// Its size, and names of variables: neither arguments nor values belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecPayload")
            .field("program", &self.argv.first())
            .field("arguments", &self.argv.len().saturating_sub(1))
            .field("env", &self.env.keys())
            .field("secret_env", &self.secret_env)
            .field("cwd", &self.cwd)
            .field("stdin_bytes", &self.stdin.as_ref().map(Vec::len))
            .finish()
    }
}

impl ExecPayload {
    /// The values that may not be shown: those of the variables that `secret_env` names.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secret_env.iter().filter_map(|name| self.env.get(name)).map(String::as_str)
    }

    /// Checks that each secret variable is there, and long enough to be masked.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming `secret_env`; a value is never quoted.
    pub fn validate(&self) -> Result<()> {
        for name in &self.secret_env {
            let Some(value) = self.env.get(name) else {
                let name = crate::text::printable(name);
                return Err(Error::invalid(
                    "secret_env",
                    format!("{name:?} is not among the variables of env"),
                ));
            };
            check_secret("secret_env", name, value.as_bytes())?;
        }
        Ok(())
    }
}

/// Of a command's body: what [`ExecPayload::validate`] says. A payload that cannot be read is for the worker to reject.
pub(crate) fn check_body(body: &Body) -> Result<()> {
    match body.kind {
        TaskKind::Exec => decode::<ExecPayload>("payload", &body.payload).map_or(Ok(()), |p| p.validate()),
        TaskKind::Handler => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use crate::body::ExecPayload;

    fn check(name: &str, value: &str) -> Result<(), String> {
        let env = BTreeMap::from([("TOKEN".to_owned(), value.to_owned())]);
        let secret_env = BTreeSet::from([name.to_owned()]);
        ExecPayload { env, secret_env, ..ExecPayload::default() }.validate().map_err(|e| e.to_string())
    }

    #[test]
    fn r30_a_secret_variable_is_there_and_can_be_masked() {
        assert_eq!((check("TOKEN", "hunter22"), check("TOKEN", "")), (Ok(()), Ok(())));
        let missing = check("TOKN", "hunter22").unwrap_err();
        assert_eq!(missing, "invalid secret_env: \"TOKN\" is not among the variables of env");
        let short = check("TOKEN", "abc").unwrap_err();
        assert!(short.contains("has 3 bytes; one of 4 or more") && !short.contains("abc"), "{short}");
    }

    #[test]
    fn a_payload_in_a_log_shows_no_value() {
        let payload = ExecPayload {
            argv: vec!["curl".into(), "hunter22".into()],
            env: BTreeMap::from([("TOKEN".into(), "hunter22".into())]),
            stdin: Some(b"hunter22".to_vec()),
            ..ExecPayload::default()
        };
        let shown = format!("{payload:?}");
        assert!(!shown.contains("hunter22") && shown.contains("TOKEN"), "{shown}");
    }

    #[test]
    fn payloads_without_secrets_are_encoded_as_before() {
        let payload = crate::task::encode("payload", &ExecPayload::default()).unwrap();
        assert!(!payload.windows(6).any(|bytes| bytes == b"secret"));
    }
}
