//! What of a task never changes: its name, payload, policy and headers. The scripts never look into it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::FORMAT;
use crate::bounds::Bounds;
use crate::error::{Error, Result};
use crate::limits::{Limits, check_size};
use crate::name::{Lane, Owner, TaskName};
use crate::origin::{Origin, Origins};
use crate::policy::{Policy, Priority};
use crate::result_rule::ResultRule;

/// What kind of work a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// A handler in a worker of the user's.
    #[default]
    Handler,
    /// A command: the payload is an [`ExecPayload`].
    Exec,
}

/// The immutable part of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// Which handler runs it.
    pub name: TaskName,
    /// Handler or command.
    pub kind: TaskKind,
    /// MessagePack, as the handler expects it.
    pub payload: Vec<u8>,
    /// Its bounds.
    pub policy: Policy,
    /// Its place among others.
    pub priority: Priority,
    /// Whom it belongs to.
    pub owner: Option<Owner>,
    /// What it takes its turn in.
    pub lane: Option<Lane>,
    /// Bounds that few tasks have.
    pub bounds: Bounds,
    /// Passed through to the handler: trace context and the like.
    pub headers: BTreeMap<String, String>,
    /// What counts as its result.
    pub result_rule: ResultRule,
    /// Who set its bounds. Like headers, no part of what makes it the same task.
    pub origins: Origins,
}

/// The stored form: an array, its version first. What is at its default is nil, for it lies in Redis a million times.
#[derive(Serialize, Deserialize)]
struct Stored<'a>(
    u32,
    Cow<'a, str>,
    Option<TaskKind>,
    #[serde(borrow, with = "serde_bytes")] Cow<'a, [u8]>,
    Option<Policy>,
    Option<Priority>,
    Option<Cow<'a, str>>,
    Cow<'a, BTreeMap<String, String>>,
    // Not there at all at its default: most tasks have none of it.
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<More>,
);

/// What few tasks have.
#[derive(Serialize, Deserialize, Default, PartialEq)]
struct More {
    #[serde(default)]
    lane: Option<Lane>,
    #[serde(default)]
    bounds: Bounds,
    #[serde(default)]
    result_rule: ResultRule,
    #[serde(default)]
    origins: Origins,
}

impl Body {
    /// Checks the policy, the sizes and the headers.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the field and its limit.
    pub fn validate(&self, limits: &Limits) -> Result<()> {
        self.policy.validate()?;
        self.bounds.validate()?;
        self.check_result_rule()?;
        check_size("payload", self.payload.len(), limits.payload)?;
        check_size("number of headers", self.headers.len(), limits.headers)?;
        for (key, value) in &self.headers {
            check_size("header", key.len() + value.len(), limits.header_bytes)?;
        }
        crate::secret::check_body(self)
    }

    fn check_result_rule(&self) -> Result<()> {
        if self.kind == TaskKind::Exec && !self.result_rule.is_any() {
            let reason = "is for handlers: a command reports no result yet; leave it at any";
            return Err(Error::invalid("result rule", reason));
        }
        self.result_rule.validate()
    }

    /// The stored form.
    ///
    /// # Errors
    /// [`Error::Protocol`] if it cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.encode_into(&mut bytes)?;
        Ok(bytes)
    }

    /// As [`encode`](Self::encode), behind what `bytes` holds.
    pub(crate) fn encode_into(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let stored = Stored(
            FORMAT,
            Cow::Borrowed(self.name.as_str()),
            unless_default(self.kind),
            Cow::Borrowed(&self.payload),
            unless_default(self.policy),
            unless_default(self.priority),
            self.owner.as_ref().map(|o| Cow::Borrowed(o.as_str())),
            Cow::Borrowed(&self.headers),
            unless_default(More { origins: self.origins.clone(), ..self.more() }),
        );
        rmp_serde::encode::write(bytes, &stored).map_err(|e| Error::Protocol(e.to_string()))
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`Error::NewerFormat`] for a version this release does not know, [`Error::Protocol`] for junk.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        check_version(bytes)?;
        let junk = |e: &dyn std::fmt::Display| Error::Protocol(format!("a task's body cannot be read: {e}"));
        let s: Stored<'_> = rmp_serde::from_slice(bytes).map_err(|e| junk(&e))?;
        let more = s.8.unwrap_or_default();
        Ok(Self {
            name: TaskName::new(s.1).map_err(|e| junk(&e))?,
            kind: s.2.unwrap_or_default(),
            payload: s.3.into_owned(),
            policy: s.4.unwrap_or_default(),
            priority: s.5.unwrap_or_default(),
            owner: s.6.map(Owner::new).transpose().map_err(|e| junk(&e))?,
            lane: more.lane,
            bounds: more.bounds,
            headers: s.7.into_owned(),
            result_rule: more.result_rule,
            origins: more.origins,
        })
    }

    /// Notes `origin` for each bound that is not the default of its kind, and that nobody is known to have set.
    pub fn mark_origins(&mut self, origin: Origin) {
        let usual = match self.kind {
            TaskKind::Handler => (Policy::default(), Bounds::default()),
            TaskKind::Exec => (Policy::command(), Bounds::command()),
        };
        self.origins.mark((&self.policy, &self.bounds), (&usual.0, &usual.1), origin);
    }

    /// As far as it makes a task another one.
    fn more(&self) -> More {
        More {
            lane: self.lane.clone(),
            bounds: self.bounds.clone(),
            result_rule: self.result_rule.clone(),
            origins: Origins::default(),
        }
    }

    /// Of name, payload and spec, headers apart: the same id with the same digest is the same task.
    #[must_use]
    pub fn digest(&self) -> [u8; 8] {
        let mut hash = Sha256::new();
        let owner = self.owner.as_ref().map_or("", Owner::as_str);
        let usual = (self.kind, self.policy, self.priority);
        let spec = match unless_default(self.more()) {
            None => rmp_serde::to_vec(&usual),
            Some(more) => rmp_serde::to_vec(&(usual, more)),
        };
        let spec = spec.unwrap_or_default();
        for part in [self.name.as_str().as_bytes(), &self.payload, &spec, owner.as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut digest = [0; 8];
        digest.copy_from_slice(&hash.finalize()[..8]);
        digest
    }
}

fn unless_default<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// The first element is the version, so that a newer form is told apart from junk.
fn check_version(bytes: &[u8]) -> Result<()> {
    // A MessagePack array of up to 15 elements, then a positive integer below 128.
    if let [marker, found, ..] = bytes
        && (0x90..=0x9f).contains(marker)
        && u32::from(*found) > FORMAT
        && *found < 0x80
    {
        return Err(Error::NewerFormat {
            what: "a task's body".into(),
            found: (*found).into(),
            known: FORMAT,
        });
    }
    Ok(())
}

/// The payload of a command task.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecPayload {
    /// The command and its arguments; the first is looked up on the child's PATH.
    pub argv: Vec<String>,
    /// Added to the child's environment, which else is PATH, HOME, LANG, TMPDIR and `LEASEHOLD_*`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names among `env` whose values show as `***` wherever the run tells something. They lie in Redis as part of the
    /// payload. Values of 4 bytes or more; an empty one is no secret. Defaults to none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub secret_env: BTreeSet<String>,
    /// Its working directory. Defaults to the worker's.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Its standard input. Defaults to none (`/dev/null`).
    #[serde(default, with = "serde_bytes", skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Vec<u8>>,
}

/// The name of every command task.
pub const EXEC_NAME: &str = "exec";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Bound;

    fn body() -> Body {
        Body {
            name: TaskName::new("resize").unwrap(),
            kind: TaskKind::Handler,
            payload: vec![0xc1, 0, 255],
            policy: Policy::command(),
            priority: Priority::High,
            owner: Some(Owner::new("user 7").unwrap()),
            lane: Some(Lane::new("session ö").unwrap()),
            bounds: Bounds::command(),
            headers: BTreeMap::from([("traceparent".to_owned(), "00-1".to_owned())]),
            result_rule: ResultRule::Any,
            origins: Origins::default(),
        }
    }

    #[test]
    fn bodies_round_trip() {
        assert_eq!(Body::decode(&body().encode().unwrap()).unwrap(), body());
        let mut told = body();
        told.origins.set(Bound::StopGrace, Origin::File);
        assert_eq!(Body::decode(&told.encode().unwrap()).unwrap(), told);
        assert_eq!(told.digest(), body().digest(), "who set a bound makes no other task");
        let ruled = Body { result_rule: ResultRule::Required, ..body() };
        assert_eq!(Body::decode(&ruled.encode().unwrap()).unwrap(), ruled);
    }

    #[test]
    fn r63_a_body_without_a_rule_is_stored_and_told_apart_as_before() {
        let plain = Body { lane: None, bounds: Bounds::default(), ..body() };
        let bytes = plain.encode().unwrap();
        assert_eq!(bytes[0], 0x98, "eight elements");
        assert_eq!(plain.digest(), [18, 120, 146, 6, 177, 126, 64, 86]);
        let ruled = Body { result_rule: ResultRule::Required, ..body() };
        assert_ne!(ruled.digest(), body().digest());
        let other = Body { result_rule: ResultRule::JsonSchema(true.into()), ..body() };
        assert_ne!(ruled.digest(), other.digest());
    }

    #[test]
    fn r63_a_command_has_no_rule_yet() {
        let limits = Limits::default();
        for (kind, result_rule, accepted) in [
            (TaskKind::Exec, ResultRule::Required, false),
            (TaskKind::Exec, ResultRule::Any, true),
            (TaskKind::Handler, ResultRule::Required, true),
        ] {
            assert_eq!(Body { kind, result_rule, ..body() }.validate(&limits).is_ok(), accepted, "{kind:?}");
        }
    }

    #[test]
    fn the_digest_ignores_headers_only() {
        let mut other = body();
        other.headers.clear();
        assert_eq!(other.digest(), body().digest());
        other.payload.push(0);
        assert_ne!(other.digest(), body().digest());
    }

    #[test]
    fn r16_a_newer_body_is_refused_and_says_so() {
        let mut bytes = body().encode().unwrap();
        bytes[1] = 3;
        assert!(matches!(Body::decode(&bytes), Err(Error::NewerFormat { found: 3, .. })));
        assert!(matches!(Body::decode(b"junk"), Err(Error::Protocol(_))));
    }
}
