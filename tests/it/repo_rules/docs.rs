//! Docs that stay true: named tests exist, links lead somewhere, commands are understood.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use leasehold_tests::process::check_cli_parses;

use super::Offences;
use super::source::{Source, files, root};

#[test]
fn tests_named_in_docs_exist() {
    let tests: BTreeSet<String> =
        files(".", ".rs").iter().flat_map(|source| test_functions(&source.text)).collect();
    let mut offences = Offences::default();
    for source in documents() {
        for name in named_tests(&source.text) {
            let function = name.rsplit("::").next().unwrap_or_default();
            if !tests.contains(function) {
                offences.add(&source.path, format!("no test is called {name}"));
            }
        }
    }
    offences.judge("docs name tests (after \"test: \", or in a table column headed \"test\") that exist");
}

#[test]
fn links_in_docs_resolve() {
    let mut offences = Offences::default();
    for source in documents() {
        for link in links(&source.text) {
            if let Err(problem) = follow(&source, &link) {
                offences.add(&source.path, format!("{link}: {problem}"));
            }
        }
    }
    offences.judge("every link to a file or heading of this repository leads there");
}

#[test]
fn commands_in_docs_are_understood_by_the_binary() {
    let mut offences = Offences::default();
    for source in documents() {
        for line in command_lines(&source.text) {
            let Some(words) = shell_words(&line) else { continue };
            if let Err(problem) = check_cli_parses(&words[1..]) {
                offences.add(&source.path, format!("{line}\n    {}", problem.trim()));
            }
        }
    }
    offences.judge(
        "a line in a code block that begins with `leasehold ` (or `$ leasehold `) can be run as it stands",
    );
}

fn documents() -> Vec<Source> {
    files(".", ".md")
}

/// Functions that carry a test attribute, and tests named by a string (`Trial::test("name", ..)`).
fn test_functions(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        }
        if let Some((_, rest)) = line.split_once("Trial::test(\"") {
            names.push(rest.split('"').next().unwrap_or_default().to_owned());
        }
        let Some((_, rest)) = line.split_once("fn ").filter(|_| marked && !line.starts_with("//")) else {
            continue;
        };
        names.push(rest.split(['(', '<']).next().unwrap_or_default().to_owned());
        marked = false;
    }
    names
}

/// Names in backticks after "test: " or "tests: ", and in table columns headed "test" or "tests".
fn named_tests(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut column = None;
    for line in text.lines() {
        for marker in ["est: `", "ests: `"] {
            for (at, _) in line.match_indices(marker) {
                names.extend(leading_names(&line[at + marker.len() - 1..]));
            }
        }
        if !line.starts_with('|') {
            column = None;
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let heads_tests = |cell: &&str| matches!(cell.to_lowercase().as_str(), "test" | "tests");
        if let Some(at) = cells.iter().position(heads_tests) {
            column = Some(at);
        } else if let Some(cell) = column.and_then(|at| cells.get(at)) {
            names.extend(cell.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    names.retain(|name| is_test_name(name));
    names
}

/// "`a`, `b` and `c` ..." as a, b, c.
fn leading_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.strip_prefix('`').and_then(|inner| inner.split_once('`')) {
        names.push(name.to_owned());
        let next = [", and ", ", ", " and "].iter().find_map(|joint| after.strip_prefix(joint));
        rest = next.unwrap_or_default();
    }
    names
}

fn is_test_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|l| l.is_ascii_lowercase() || l.is_ascii_digit() || "_:".contains(l))
}

/// Targets of `[text](target)` outside of code.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(text) {
        for (index, piece) in line.split("](").enumerate() {
            if let Some((target, _)) = piece.split_once(')').filter(|_| index > 0) {
                links.push(target.split(' ').next().unwrap_or_default().to_owned());
            }
        }
    }
    links
}

fn follow(source: &Source, link: &str) -> Result<(), String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(());
    }
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
    let here = root().join(&source.path);
    let target = if path.is_empty() { here } else { normal(&here.parent().expect("a folder").join(path)) };
    if !target.starts_with(root()) {
        return Err("leaves the repository".to_owned());
    }
    if !target.exists() {
        return Err("no such file".to_owned());
    }
    let Some(heading) = heading else { return Ok(()) };
    let text = std::fs::read_to_string(&target).map_err(|error| error.to_string())?;
    let headings = prose(&text).into_iter().filter(|line| line.starts_with('#'));
    let found = headings.map(|line| anchor(line.trim_start_matches('#'))).any(|name| name == heading);
    if found { Ok(()) } else { Err("no such heading".to_owned()) }
}

/// Resolves `..` without asking the file system.
fn normal(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => resolved.push(part),
        }
    }
    resolved
}

/// A heading's anchor as code hosts make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// The lines outside of code blocks.
fn prose(text: &str) -> Vec<&str> {
    fenced(text).into_iter().filter(|(in_code, _)| !in_code).map(|(_, line)| line).collect()
}

/// Lines of code blocks that call `leasehold`.
fn command_lines(text: &str) -> Vec<String> {
    let code = fenced(text).into_iter().filter(|(in_code, _)| *in_code);
    let calls = code.map(|(_, line)| line.trim().trim_start_matches("$ ").to_owned());
    calls.filter(|line| line.starts_with("leasehold ")).collect()
}

fn fenced(text: &str) -> Vec<(bool, &str)> {
    let mut in_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else {
            lines.push((in_code, line));
        }
    }
    lines
}

/// Splits as a shell would; `None` where a shell would do more than split.
fn shell_words(line: &str) -> Option<Vec<String>> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '#') if word.is_none() => break,
            (Some('"') | None, '$' | '`' | '\\') | (None, '|' | '>' | '<' | '&' | ';' | '(') => return None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Some(words)
}

#[test]
fn the_rules_on_docs_find_what_they_look_for() {
    let table =
        "| crash | test |\n|---|---|\n| x | `a_b`, `c_d` |\n\nHeld by a test: `e_f` and `g`, not `h`.";
    assert_eq!(named_tests(table), ["a_b", "c_d", "e_f", "g"]);
    assert_eq!(test_functions("#[tokio::test(flavor = \"x\")]\nasync fn a_b() {\nfn c() {"), ["a_b"]);
    assert_eq!(links("see [a](b.md#c) and\n```\n[d](e)\n```"), ["b.md#c"]);
    assert_eq!(anchor(" Keys, and `TTL`s"), "keys-and-ttls");
    let words = shell_words("leasehold exec q -- sh -c 'echo hi; exit 3' # says hi").unwrap();
    assert_eq!(words, ["leasehold", "exec", "q", "--", "sh", "-c", "echo hi; exit 3"]);
    assert_eq!(shell_words("leasehold task show $ID"), None);
}
