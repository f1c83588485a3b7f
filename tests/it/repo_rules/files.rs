//! Sizes, key names and unfinished marks in the sources.

use super::Offences;
use super::source::{Source, code_lines, file, files, has_word};

/// The most lines of a file by its ending.
const LIMITS: [(&str, usize); 2] = [(".rs", 500), (".lua", 120)];

/// Files that may be longer, each with exactly the lines it has: `("lua/claim.lua", 187)`.
const EXCEPTIONS: [(&str, usize); 1] = [("lua/claim.lua", 187)];

/// The one module that spells key names.
const KEYS: &str = "common/src/keys.rs";

#[test]
fn rust_and_lua_files_stay_small() {
    let mut offences = Offences::default();
    for (ending, limit) in LIMITS {
        for source in files(".", ending) {
            let lines = source.text.lines().count();
            match EXCEPTIONS.iter().find(|(path, _)| *path == source.path) {
                Some((_, listed)) if lines <= limit => {
                    offences.add(&source.path, format!("{lines} lines, no exception needed: {listed}"));
                }
                Some((_, listed)) if lines != *listed => {
                    offences.add(&source.path, format!("{lines} lines, listed with {listed}"));
                }
                None if lines > limit => offences.add(&source.path, format!("{lines} lines of {limit}")),
                Some(_) | None => {}
            }
        }
    }
    offences.judge("one subject a file: split it, or list it in EXCEPTIONS with its number");
}

#[test]
fn key_names_are_spelled_in_one_module() {
    let prefix = concat!("l", "h:");
    let mut offences = Offences::default();
    for source in files(".", ".rs").iter().filter(|source| ships(source) && source.path != KEYS) {
        for (number, line) in code_lines(&source.text) {
            if has_word(line, prefix) || line.contains(&format!("\"{prefix}")) {
                offences.add(format!("{}:{number}", source.path), line.trim());
            }
        }
    }
    for source in files("lua", ".lua") {
        for (index, line) in source.text.lines().enumerate() {
            let code = line.split("--").next().unwrap_or_default();
            if code.contains(prefix) {
                offences.add(format!("{}:{}", source.path, index + 1), line.trim());
            }
        }
    }
    offences.judge("key names come from common/src/keys.rs; scripts derive theirs from KEYS[1]");
}

#[test]
fn nothing_is_left_unfinished() {
    // Put together here so that this file does not offend itself.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let calls = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[", "ignore")];
    let mut offences = Offences::default();
    for ending in [".rs", ".lua", ".md", ".toml", ".py", ".sh", ".yml", "Makefile", "Dockerfile"] {
        for source in files(".", ending) {
            for (index, line) in source.text.lines().enumerate() {
                if words.iter().any(|word| has_word(line, word))
                    || calls.iter().any(|call| line.contains(call))
                {
                    offences.add(format!("{}:{}", source.path, index + 1), line.trim());
                }
            }
        }
    }
    offences.judge("what is not done is an issue, not a mark in a file");
}

#[test]
fn both_clippy_settings_hold_the_shared_entries() {
    let (root, tests) = (file("clippy.toml"), file("tests/clippy.toml"));
    let mut offences = Offences::default();
    for line in root.lines().filter(|line| !line.starts_with('#')) {
        let shared = line.split(", reason").next().unwrap_or_default();
        if !tests.contains(shared) {
            offences.add("tests/clippy.toml", format!("lacks {shared}"));
        }
    }
    offences.judge("tests/clippy.toml takes the place of the root one, so it repeats the shared entries");
}

/// Whether a file is part of what users run: no tests, no benchmarks.
fn ships(source: &Source) -> bool {
    let in_tests = source.path.split('/').any(|part| part == "tests" || part == "bench" || part == "benches");
    !in_tests && !source.path.ends_with("/tests.rs") && !source.path.ends_with("_tests.rs")
}
