//! The explorer on few steps of each world, and on scripts that are broken on purpose.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use leasehold_proof::explore::{Limits, search, test_code, with_model, worlds};

#[test]
fn nothing_breaks_within_few_steps_of_any_world() {
    for plan in worlds::all() {
        // A restart takes as long as a hundred calls.
        let depth = Some(if plan.restarts { 1 } else { 2 });
        let limits = Limits { depth, pairs: 500, jobs: 2, time: Duration::from_secs(30) };
        let report = search(plan, limits, with_model);
        assert!(report.pairs >= 5 && report.states >= 3, "{report:?}");
        if let Some(breach) = &report.breach {
            panic!("{}\n{}", breach.problems.join("\n"), test_code(report.world, &breach.steps));
        }
        assert!(report.drained > 0 && report.replayed > 0, "{report:?}");
    }
}

/// A copy of the scripts, with one text in the place of another.
fn altered(folder: &Path, file: &str, from: &str, to: &str) -> PathBuf {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lua");
    for part in ["", "lib"] {
        fs::create_dir_all(folder.join(part)).unwrap();
        for entry in fs::read_dir(scripts.join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, folder.join(part).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    let path = folder.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{from:?} stands once in {file}");
    fs::write(&path, text.replace(from, to)).unwrap();
    folder.to_owned()
}

/// Explores a world on altered scripts: there must be a breach that says so, after at most so many steps.
#[track_caller]
fn must_break(world: &str, (file, from, to): (&str, &str, &str), says: &str, steps: usize) {
    let folder = tempfile::tempdir().unwrap();
    let scripts = altered(folder.path(), file, from, to);
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-explore"));
    command.args(["--world", world, "--pairs", "20000", "--jobs", "2", "--minutes", "2"]);
    let output = command.env("LEASEHOLD_LUA_DIR", scripts).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains(says), "{told}");
    let taken = told.lines().filter(|line| line.starts_with("            ")).count();
    assert!((1..=steps).contains(&taken), "{taken} steps in\n{told}");
}

#[test]
fn the_explorer_notices_a_finish_that_compares_no_fence() {
    let mutant = (
        "lib/finish_rare.lua",
        "if owns(rec, run, inc) then",
        "if rec.st == 'running' or rec.st == 'aborting' then",
    );
    must_break("one", mutant, "ghost:", 5);
}

#[test]
fn the_explorer_notices_an_enqueue_that_forgets_what_it_has_just_decided() {
    let mutant = ("enqueue.lua", "(there > 0 or known[key])", "there > 0");
    must_break("pair", mutant, "2 were enqueued, 1 are here", 1);
}

#[test]
fn the_explorer_notices_a_sweep_that_looks_only_once() {
    let mutant = ("lib/proof.lua", " and suspicion_left(rec, pulse or read_pulse()) == 0", "");
    must_break("one", mutant, "without a second look", 4);
}
