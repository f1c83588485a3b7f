//! The scripts: what each takes and answers, and their source with the parts of `lua/lib` in the place of each INCLUDE.

use std::sync::LazyLock;

/// A line of a script that names the parts to stand in its place, in order.
const INCLUDE: &str = "-- INCLUDE ";

/// A script's contract. A test holds the header of its file against it.
#[derive(Debug)]
pub struct ScriptSpec {
    /// File name without `.lua`.
    pub name: &'static str,
    /// Names of the leading arguments.
    pub args: &'static [&'static str],
    /// Names of the arguments of each item that follows.
    pub item: &'static [&'static str],
    /// First element of the answer.
    pub tags: &'static [&'static str],
    /// Tag of each item's answer.
    pub item_tags: &'static [&'static str],
    file: LazyLock<String>,
    source: LazyLock<String>,
    sha: LazyLock<String>,
}

impl ScriptSpec {
    /// Its own file, with the contract in front.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The files of `lua/lib` that it includes, in order.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.file.lines().filter_map(included).flatten()
    }

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

macro_rules! script {
    ($ident:ident, $name:literal, args: $args:expr, item: $item:expr, tags: $tags:expr, item_tags: $item_tags:expr) => {
        #[doc = concat!("`lua/", $name, ".lua`.")]
        pub static $ident: ScriptSpec = ScriptSpec {
            name: $name,
            args: $args,
            item: $item,
            tags: $tags,
            item_tags: $item_tags,
            file: LazyLock::new(|| text_of($name, include_str!(concat!("../../lua/", $name, ".lua")))),
            source: LazyLock::new(|| joined(&$ident.file)),
            sha: LazyLock::new(|| redis::Script::new(&$ident.source).get_hash().to_owned()),
        };
    };
}

script!(REGISTER, "register",
    args: &["format", "lease_ms", "retain_completed_ms", "retain_failed_ms", "retain_timed_out_ms", "retain_aborted_ms"],
    item: &[], tags: &["ok", "format", "wrongtype", "badargs"], item_tags: &[]);
script!(ENQUEUE, "enqueue",
    args: &["format", "form"], item: &["id", "level", "fixed", "when", "spec"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["created", "exists", "conflict", "corrupt"]);
script!(CLAIM, "claim",
    args: &["format", "incarnation", "worker", "number", "want", "max_bytes", "mode", "woken"],
    item: &[], tags: &["ok", "stale", "closed", "dead", "unregistered", "format", "wrongtype", "badargs"], item_tags: &[]);
script!(HEARTBEAT, "heartbeat",
    args: &["format", "incarnation"], item: &["id", "run"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["ok", "stop", "ended", "gone", "lost", "corrupt"]);
script!(FINISH, "finish",
    args: &["format", "incarnation"], item: &["id", "run", "outcome", "data"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["ok", "repeat", "gone", "lost", "corrupt"]);
script!(UPDATE, "update",
    args: &["format", "incarnation", "kind"], item: &["id", "run", "number", "value", "text"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["ok", "exceeded", "unknown", "gone", "lost", "corrupt"]);
script!(ABORT, "abort",
    args: &["format"], item: &["id", "request", "grace", "by", "reason", "mode"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["ended", "requested", "already", "not_found", "corrupt"]);
script!(SWEEP, "sweep",
    args: &["format", "limit"], item: &["dead", "cursor"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"], item_tags: &[]);
script!(RETRY, "retry",
    args: &["format"], item: &["id", "rev", "mode"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["retried", "changed", "live", "no_checkpoint", "not_found", "corrupt"]);
script!(DELETE, "delete",
    args: &["format"], item: &["id", "rev"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["deleted", "changed", "live", "not_found", "corrupt"]);
script!(CLEANUP, "cleanup",
    args: &["format", "limit"], item: &[],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"], item_tags: &[]);
script!(LANE, "lane",
    args: &["format", "lane", "limit"], item: &[],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"], item_tags: &[]);
script!(REPAIR, "repair",
    args: &["format", "by"], item: &["id", "where"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"],
    item_tags: &["sound", "repaired", "removed", "corrupt"]);
script!(INSPECT, "inspect",
    args: &["format"], item: &["id"],
    tags: &["ok", "unregistered", "format", "wrongtype", "badargs"], item_tags: &[]);

/// Every script, in the order of a task's life.
pub static ALL: [&ScriptSpec; 14] = [
    &REGISTER, &ENQUEUE, &CLAIM, &HEARTBEAT, &FINISH, &UPDATE, &ABORT, &SWEEP, &RETRY, &DELETE, &CLEANUP,
    &LANE, &REPAIR, &INSPECT,
];

/// The embedded text of a library.
fn lib(name: &str) -> &'static str {
    match name {
        "base" => include_str!("../../lua/lib/base.lua"),
        "types" => include_str!("../../lua/lib/types.lua"),
        "plain" => include_str!("../../lua/lib/plain.lua"),
        "plain_new" => include_str!("../../lua/lib/plain_new.lua"),
        "plain_start" => include_str!("../../lua/lib/plain_start.lua"),
        "plain_end" => include_str!("../../lua/lib/plain_end.lua"),
        "known" => include_str!("../../lua/lib/known.lua"),
        "fixed" => include_str!("../../lua/lib/fixed.lua"),
        "notes" => include_str!("../../lua/lib/notes.lua"),
        "alike" => include_str!("../../lua/lib/alike.lua"),
        "levels" => include_str!("../../lua/lib/levels.lua"),
        "ledger" => include_str!("../../lua/lib/ledger.lua"),
        "ended" => include_str!("../../lua/lib/ended.lua"),
        "policy" => include_str!("../../lua/lib/policy.lua"),
        "record" => include_str!("../../lua/lib/record.lua"),
        "codec" => include_str!("../../lua/lib/codec.lua"),
        "sound" => include_str!("../../lua/lib/sound.lua"),
        "lease" => include_str!("../../lua/lib/lease.lua"),
        "bounds" => include_str!("../../lua/lib/bounds.lua"),
        "lane" => include_str!("../../lua/lib/lane.lua"),
        "lane_row" => include_str!("../../lua/lib/lane_row.lua"),
        "ending" => include_str!("../../lua/lib/ending.lua"),
        "phase" => include_str!("../../lua/lib/phase.lua"),
        "failure" => include_str!("../../lua/lib/failure.lua"),
        "look" => include_str!("../../lua/lib/look.lua"),
        "late" => include_str!("../../lua/lib/late.lua"),
        "log" => include_str!("../../lua/lib/log.lua"),
        "told" => include_str!("../../lua/lib/told.lua"),
        "mend" => include_str!("../../lua/lib/mend.lua"),
        "mend_rows" => include_str!("../../lua/lib/mend_rows.lua"),
        "lane_mend" => include_str!("../../lua/lib/lane_mend.lua"),
        "lane_watch" => include_str!("../../lua/lib/lane_watch.lua"),
        "sums" => include_str!("../../lua/lib/sums.lua"),
        "settle" => include_str!("../../lua/lib/settle.lua"),
        "proof" => include_str!("../../lua/lib/proof.lua"),
        "place" => include_str!("../../lua/lib/place.lua"),
        "promote" => include_str!("../../lua/lib/promote.lua"),
        "stop" => include_str!("../../lua/lib/stop.lua"),
        "dead" => include_str!("../../lua/lib/dead.lua"),
        "declare" => include_str!("../../lua/lib/declare.lua"),
        "pulse" => include_str!("../../lua/lib/pulse.lua"),
        "outcome" => include_str!("../../lua/lib/outcome.lua"),
        "leave" => include_str!("../../lua/lib/leave.lua"),
        "reclaim" => include_str!("../../lua/lib/reclaim.lua"),
        "events" => include_str!("../../lua/lib/events.lua"),
        "offer" => include_str!("../../lua/lib/offer.lua"),
        "offered" => include_str!("../../lua/lib/offered.lua"),
        "watch" => include_str!("../../lua/lib/watch.lua"),
        "handed" => include_str!("../../lua/lib/handed.lua"),
        "claim_rare" => include_str!("../../lua/lib/claim_rare.lua"),
        "beat_rare" => include_str!("../../lua/lib/beat_rare.lua"),
        "finish_plain" => include_str!("../../lua/lib/finish_plain.lua"),
        "finish_rare" => include_str!("../../lua/lib/finish_rare.lua"),
        "enqueue_rare" => include_str!("../../lua/lib/enqueue_rare.lua"),
        _ => "",
    }
}

/// The parts that a line includes.
fn included(line: &str) -> Option<impl Iterator<Item = &str>> {
    line.trim_start().strip_prefix(INCLUDE).map(str::split_whitespace)
}

fn joined(file: &str) -> String {
    let mut text = String::new();
    for line in file.lines() {
        match included(line) {
            Some(parts) => {
                for part in parts {
                    text.push_str(&text_of(&format!("lib/{part}"), lib(part)));
                    text.push('\n');
                }
            }
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

fn text_of(name: &str, embedded: &str) -> String {
    from_folder(name).unwrap_or_else(|| embedded.to_owned())
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
    use super::{ALL, INCLUDE, lib};

    #[test]
    fn every_library_is_embedded() {
        for script in ALL {
            for name in script.parts() {
                assert!(!lib(name).is_empty(), "{name} of {}", script.name);
            }
            assert!(!script.source().contains(INCLUDE), "{}", script.name);
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
            let own = script.file();
            assert!(own.starts_with(&format!("-- {}: ", script.name)), "{}", script.name);
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
            let own = script.file();
            assert!(own.starts_with(&format!("-- {}: ", script.name)), "{}", script.name);
            let after = own.split("local refused").nth(1).expect(script.name);
            assert!(!after.contains("KEYS["), "{}.lua", script.name);
        }
    }
}
