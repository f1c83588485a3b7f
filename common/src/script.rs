//! The scripts: what each takes and answers, and their source with the `lua/lib` files joined in front.

use std::sync::LazyLock;

/// A script's contract. A test holds the header of its file against it.
#[derive(Debug)]
pub struct ScriptSpec {
    /// File name without `.lua`.
    pub name: &'static str,
    /// Files of `lua/lib`, in the order they are joined.
    pub libs: &'static [&'static str],
    /// Names of the leading arguments.
    pub args: &'static [&'static str],
    /// Names of the arguments of each item that follows.
    pub item: &'static [&'static str],
    /// First element of the answer.
    pub tags: &'static [&'static str],
    /// Tag of each item's answer.
    pub item_tags: &'static [&'static str],
    source: LazyLock<String>,
    sha: LazyLock<String>,
}

impl ScriptSpec {
    /// The text sent to Redis.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its SHA-1, as `EVALSHA` takes it.
    #[must_use]
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

/// Libraries of scripts that change tasks.
const FULL: &[&str] = &[
    "base", "record", "policy", "lease", "ledger", "place", "promote", "stop", "pulse", "outcome", "reclaim",
    "events",
];
/// Libraries of scripts that only look.
const LOOK: &[&str] = &["base", "record"];

macro_rules! script {
    ($ident:ident, $name:literal, $libs:expr, args: $args:expr, item: $item:expr, tags: $tags:expr, item_tags: $item_tags:expr) => {
        #[doc = concat!("`lua/", $name, ".lua`.")]
        pub static $ident: ScriptSpec = ScriptSpec {
            name: $name,
            libs: $libs,
            args: $args,
            item: $item,
            tags: $tags,
            item_tags: $item_tags,
            source: LazyLock::new(|| {
                joined($libs, include_str!(concat!("../../lua/", $name, ".lua")), $name)
            }),
            sha: LazyLock::new(|| redis::Script::new(&$ident.source).get_hash().to_owned()),
        };
    };
}

script!(REGISTER, "register", &["base"],
    args: &["format", "lease_ms", "retain_completed_ms", "retain_failed_ms", "retain_timed_out_ms", "retain_aborted_ms"],
    item: &[], tags: &["ok", "format", "wrongtype", "badargs"], item_tags: &[]);
script!(ENQUEUE, "enqueue", FULL,
    args: &["format"], item: &["id", "digest", "level", "when", "policy", "body"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["created", "exists", "conflict", "corrupt"]);
script!(CLAIM, "claim", FULL,
    args: &["format", "incarnation", "worker", "number", "want", "max_bytes", "mode", "woken"],
    item: &[], tags: &["ok", "stale", "closed", "unregistered", "format", "wrongtype", "badargs"], item_tags: &[]);
script!(HEARTBEAT, "heartbeat", FULL,
    args: &["format", "incarnation"], item: &["id", "run"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["ok", "stop", "ended", "gone", "lost", "corrupt"]);
script!(FINISH, "finish", FULL,
    args: &["format", "incarnation"], item: &["id", "run", "outcome", "kind", "delay", "message", "data"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["ok", "repeat", "gone", "lost", "corrupt"]);
script!(UPDATE, "update", LOOK,
    args: &["format", "incarnation", "kind"], item: &["id", "run", "number", "value", "text"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["ok", "gone", "lost", "corrupt"]);
script!(ABORT, "abort", FULL,
    args: &["format"], item: &["id", "request", "grace", "by", "reason"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["ended", "requested", "already", "not_found", "corrupt"]);
script!(SWEEP, "sweep", FULL,
    args: &["format", "limit"], item: &[],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"], item_tags: &[]);
script!(RETRY, "retry", FULL,
    args: &["format"], item: &["id", "rev"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["retried", "changed", "live", "not_found", "corrupt"]);
script!(DELETE, "delete", FULL,
    args: &["format"], item: &["id", "rev"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["deleted", "changed", "live", "not_found", "corrupt"]);
script!(CLEANUP, "cleanup", FULL,
    args: &["format", "limit"], item: &[],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"], item_tags: &[]);
script!(INSPECT, "inspect", LOOK,
    args: &["format"], item: &["id"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"], item_tags: &[]);

/// Every script, in the order of a task's life.
pub static ALL: [&ScriptSpec; 12] = [
    &REGISTER, &ENQUEUE, &CLAIM, &HEARTBEAT, &FINISH, &UPDATE, &ABORT, &SWEEP, &RETRY, &DELETE, &CLEANUP,
    &INSPECT,
];

/// The embedded text of a library.
fn lib(name: &str) -> &'static str {
    match name {
        "base" => include_str!("../../lua/lib/base.lua"),
        "record" => include_str!("../../lua/lib/record.lua"),
        "policy" => include_str!("../../lua/lib/policy.lua"),
        "lease" => include_str!("../../lua/lib/lease.lua"),
        "ledger" => include_str!("../../lua/lib/ledger.lua"),
        "place" => include_str!("../../lua/lib/place.lua"),
        "stop" => include_str!("../../lua/lib/stop.lua"),
        "pulse" => include_str!("../../lua/lib/pulse.lua"),
        "outcome" => include_str!("../../lua/lib/outcome.lua"),
        "promote" => include_str!("../../lua/lib/promote.lua"),
        "reclaim" => include_str!("../../lua/lib/reclaim.lua"),
        "events" => include_str!("../../lua/lib/events.lua"),
        _ => "",
    }
}

fn joined(libs: &[&str], embedded: &str, name: &str) -> String {
    let mut text = String::new();
    for part in libs {
        text.push_str(&from_folder(&format!("lib/{part}")).unwrap_or_else(|| lib(part).to_owned()));
        text.push('\n');
    }
    text.push_str(&from_folder(name).unwrap_or_else(|| embedded.to_owned()));
    text
}

/// Test builds read scripts from the folder that `LEASEHOLD_LUA_DIR` names, so that mutants need no rebuild.
fn from_folder(name: &str) -> Option<String> {
    if !cfg!(debug_assertions) {
        return None;
    }
    let folder = std::env::var_os("LEASEHOLD_LUA_DIR")?;
    std::fs::read_to_string(std::path::Path::new(&folder).join(format!("{name}.lua"))).ok()
}

#[cfg(test)]
mod tests {
    use super::{ALL, lib};

    #[test]
    fn every_library_is_embedded() {
        for script in ALL {
            for name in script.libs {
                assert!(!lib(name).is_empty(), "{name} of {}", script.name);
            }
        }
    }

    /// The words after `-- LABEL:` in a script's header.
    fn header(source: &str, label: &str) -> Vec<String> {
        source
            .lines()
            .find_map(|line| line.strip_prefix("-- ")?.strip_prefix(label)?.strip_prefix(':'))
            .map(|rest| rest.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default()
    }

    #[test]
    fn headers_say_what_rust_declares() {
        for script in ALL {
            let source = script.source();
            let own = &source[source.rfind(&format!("-- {}: ", script.name)).expect(script.name)..];
            for (label, declared) in [
                ("ARGV", script.args),
                ("ITEM", script.item),
                ("TAGS", script.tags),
                ("ITEM TAGS", script.item_tags),
            ] {
                assert_eq!(header(own, label), declared, "{label} of {}.lua", script.name);
            }
            for label in ["TRANSITIONS", "DERIVED", "RETURNS", "RELIES ON", "REPEATABLE"] {
                assert!(own.contains(&format!("-- {label}: ")), "{}.lua has no {label}", script.name);
            }
        }
    }

    #[test]
    fn keys_and_arguments_are_named_before_they_are_used() {
        for script in ALL {
            let source = script.source();
            let own = &source[source.rfind(&format!("-- {}: ", script.name)).expect(script.name)..];
            let after = own.split("local refused").nth(1).expect(script.name);
            assert!(!after.contains("KEYS["), "{}.lua", script.name);
        }
    }
}
