//! The environment of a command: what it was given, and four variables of the worker.

use crate::guard::procs::TOKEN_ENV;
use leasehold_common::name::Incarnation;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The only variables a command gets from its worker.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// The child's variables: the worker's four, then the command's, then the caller's, then the
/// run's token.
pub(super) fn compose(
    worker: impl Fn(&str) -> Option<OsString>,
    command: &BTreeMap<String, String>,
    caller: &BTreeMap<String, String>,
    token: &str,
) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> =
        INHERITED.iter().filter_map(|name| Some((OsString::from(name), worker(name)?))).collect();
    for (name, value) in command.iter().chain(caller) {
        env.insert(name.into(), value.into());
    }
    env.insert(TOKEN_ENV.into(), token.into());
    env
}

/// A token for a new run of the worker's incarnation, by which a later worker finds what is left of it. In a worker that
/// belongs to a run itself it begins with that run's.
pub(super) fn new_token(incarnation: &Incarnation) -> String {
    let own = format!("{incarnation}.{}", uuid::Uuid::new_v4().simple());
    match std::env::var(TOKEN_ENV) {
        Ok(outer) if !outer.is_empty() && !outer.contains(char::is_whitespace) => format!("{outer}.{own}"),
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_four_variables_are_inherited_and_later_ones_win() {
        let worker = |name: &str| match name {
            "PATH" => Some("/bin".into()),
            "LANG" => Some("C".into()),
            "HOME" | "TMPDIR" => None,
            other => panic!("asked for {other}"),
        };
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let command = map(&[("LANG", "de"), ("X", "1"), ("LEASEHOLD_RUN_TOKEN", "forged")]);
        let caller = map(&[("X", "2")]);
        let env = compose(worker, &command, &caller, "real");
        let expected = [("LANG", "de"), ("LEASEHOLD_RUN_TOKEN", "real"), ("PATH", "/bin"), ("X", "2")];
        assert!(
            env.iter().map(|(a, b)| (a.to_str(), b.to_str())).eq(expected.map(|(a, b)| (Some(a), Some(b))))
        );
    }
}
