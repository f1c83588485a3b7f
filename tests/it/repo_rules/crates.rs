//! Arrows between crates and the libraries they stand on, from `cargo metadata`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Offences;
use super::source::{code_lines, file, files, root};

/// Which of our crates may depend on which, in any kind of dependency.
const ARROWS: [(&str, &[&str]); 8] = [
    ("leasehold-common", &[]),
    ("leasehold-producer", &["leasehold-common"]),
    ("leasehold-worker", &["leasehold-common"]),
    ("leasehold-reaper", &["leasehold-common"]),
    (BENCH, &["leasehold-common", "leasehold-producer", "leasehold-worker", "leasehold-reaper"]),
    ("leasehold", &["leasehold-common", "leasehold-producer", "leasehold-worker", "leasehold-reaper", BENCH]),
    (TESTS, &["leasehold-common", "leasehold-producer", "leasehold-worker", "leasehold-reaper", "leasehold"]),
    (PROOF, &["leasehold-common", TESTS]),
];

/// The libraries that this project is built on, each really used by a crate that ships.
const USED: [&str; 9] =
    ["redis", "deadpool-redis", "tokio", "serde", "rmp-serde", "tracing", "uuid", "futures", "clap"];

const TESTS: &str = "leasehold-tests";
const PROOF: &str = "leasehold-proof";
const BENCH: &str = "leasehold-bench";

/// One of our crates.
struct Crate {
    name: String,
    manifest: String,
    /// Folder below the root.
    folder: String,
    is_binary: bool,
    /// Name and kind (`normal`, `dev`, `build`).
    dependencies: Vec<(String, String)>,
}

impl Crate {
    fn depends_normally_on(&self, library: &str) -> bool {
        self.dependencies.iter().any(|(name, kind)| name == library && kind == "normal")
    }
}

#[test]
fn our_crates_depend_only_along_the_arrows() {
    let crates = our_crates();
    let mut offences = Offences::default();
    for member in &crates {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == member.name) else {
            offences.add(&member.manifest, "a crate without a row in ARROWS");
            continue;
        };
        for (dependency, kind) in &member.dependencies {
            let ours = crates.iter().any(|other| other.name == *dependency);
            if ours && !allowed.contains(&dependency.as_str()) {
                offences.add(&member.manifest, format!("{kind} dependency on {dependency}"));
            }
        }
    }
    offences.judge("producer, worker and reaper know common alone; only bench, cli and tests know them all");
}

#[test]
fn only_common_bench_tests_and_proof_depend_on_redis() {
    let mut offences = Offences::default();
    for member in our_crates() {
        let may = ["leasehold-common", BENCH, TESTS, PROOF].contains(&member.name.as_str());
        for (library, kind) in &member.dependencies {
            if !may && ["redis", "deadpool-redis"].contains(&library.as_str()) {
                offences.add(&member.manifest, format!("{kind} dependency on {library}"));
            }
        }
    }
    offences.judge("Redis is reached through the store of leasehold-common only (bench measures it beside)");
}

#[test]
fn each_library_of_choice_is_used_by_a_crate_that_ships() {
    let crates = our_crates();
    let mut offences = Offences::default();
    for library in USED {
        let mut users = crates.iter().filter(|member| member.name != TESTS);
        if !users.any(|member| member.depends_normally_on(library) && names(&member.folder, library)) {
            offences.add(library, "declared and named in the src of no crate that ships");
        }
    }
    offences.judge("each library of choice is a used dependency");
}

#[test]
fn every_declared_dependency_is_used() {
    let mut offences = Offences::default();
    for member in our_crates() {
        for (library, kind) in &member.dependencies {
            if kind == "normal" && !names(&member.folder, library) {
                offences.add(&member.manifest, format!("{library} is declared and never named"));
            }
        }
    }
    offences.judge("a dependency that nothing names is taken out");
}

#[test]
fn only_binaries_use_clap_and_anyhow() {
    let mut offences = Offences::default();
    for member in our_crates().iter().filter(|member| !member.is_binary && member.name != TESTS) {
        for library in ["clap", "anyhow"] {
            if member.dependencies.iter().any(|(name, kind)| name == library && kind != "dev") {
                offences.add(&member.manifest, format!("depends on {library}"));
            }
        }
    }
    offences.judge("a library has errors of its own and no command line");
}

#[test]
fn there_is_one_version_of_the_redis_client() {
    let lock = file("Cargo.lock");
    let versions: Vec<&str> = lock
        .split("[[package]]")
        .filter(|entry| entry.contains("\nname = \"redis\"\n"))
        .filter_map(|entry| entry.lines().find_map(|line| line.strip_prefix("version = ")))
        .collect();
    assert_eq!(versions.len(), 1, "versions of the redis crate in Cargo.lock: {versions:?}");
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let mut offences = Offences::default();
    // The crates that test have a shorter table of their own, since their fixtures may panic.
    for member in
        our_crates().iter().filter(|member| ![TESTS, "leasehold-proof"].contains(&member.name.as_str()))
    {
        let manifest = file(&member.manifest);
        if !manifest.contains("[lints]\nworkspace = true") {
            offences.add(&member.manifest, "no `[lints] workspace = true`");
        }
    }
    offences.judge("one set of lints holds everywhere");
}

/// Whether a crate's own code names the library (`rmp-serde` as `rmp_serde::`, or `use rmp_serde`).
fn names(folder: &str, library: &str) -> bool {
    let name = library.replace('-', "_");
    let own_code = if folder == "tests" { folder.to_owned() } else { format!("{folder}/src") };
    files(&own_code, ".rs").iter().any(|source| {
        code_lines(&source.text).iter().any(|(_, line)| {
            let used = line.match_indices(&format!("{name}::")).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':')
            });
            // By path, by name, or as text in an attribute (`with = "serde_bytes"`).
            let spellings = [format!("use {name};"), format!("use {name} as "), format!("\"{name}\"")];
            used || spellings.iter().any(|spelling| line.contains(spelling))
        })
    })
}

fn our_crates() -> Vec<Crate> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("run cargo metadata");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON from cargo metadata");
    list(&metadata["packages"]).iter().map(parse_crate).collect()
}

fn parse_crate(package: &Value) -> Crate {
    let manifest =
        Path::new(text(&package["manifest_path"])).strip_prefix(root()).expect("a member's manifest");
    let folder = manifest.parent().expect("a manifest lies in a folder");
    let dependency = |entry: &Value| {
        (text(&entry["name"]).to_owned(), entry["kind"].as_str().unwrap_or("normal").to_owned())
    };
    Crate {
        name: text(&package["name"]).to_owned(),
        manifest: manifest.display().to_string(),
        folder: folder.display().to_string(),
        is_binary: list(&package["targets"]).iter().any(|t| list(&t["kind"]).contains(&Value::from("bin"))),
        dependencies: list(&package["dependencies"]).iter().map(dependency).collect(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string in cargo metadata")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list in cargo metadata")
}
