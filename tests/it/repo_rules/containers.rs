//! `Dockerfile` and `docker-compose.yml`: their command lines are ones the binary takes.

use leasehold_tests::process::check_cli_parses;

use super::Offences;
use super::source::file;

const COMPOSE: &str = "docker-compose.yml";
const DOCKERFILE: &str = "Dockerfile";

#[test]
fn container_files_hold_commands_that_the_binary_takes() {
    let mut offences = Offences::default();
    let mut commands = Vec::new();
    for (path, markers) in [(COMPOSE, &["command:"][..]), (DOCKERFILE, &["CMD", "ENTRYPOINT"][..])] {
        for (number, words) in command_arrays(path, markers, &mut offences) {
            let ours: Vec<String> = match words.first().map(String::as_str) {
                Some("redis-server") | None => continue,
                Some("leasehold") => words[1..].to_vec(),
                Some(_) => words,
            };
            if ours.is_empty() {
                continue;
            }
            if let Err(problem) = check_cli_parses(&ours) {
                offences
                    .add(format!("{path}:{number}"), format!("leasehold {ours:?}\n    {}", problem.trim()));
            }
            commands.push(ours[0].clone());
        }
    }
    for needed in ["worker", "reaper"] {
        if !commands.iter().any(|command| command == needed) {
            offences.add(COMPOSE, format!("starts no {needed}"));
        }
    }
    offences.judge("command lines in container files are parsed by the real binary");
}

#[test]
fn the_image_runs_leasehold_itself_and_not_as_root() {
    let dockerfile = file(DOCKERFILE);
    assert!(dockerfile.contains("ENTRYPOINT [\"leasehold\"]"), "signals must reach leasehold itself");
    let user = dockerfile.lines().rev().find_map(|line| line.strip_prefix("USER "));
    assert!(user.is_some_and(|user| user != "root" && user != "0"), "USER of the image: {user:?}");
}

/// The JSON arrays after a marker, with their line numbers; a command in another form is an offence.
fn command_arrays(path: &str, markers: &[&str], offences: &mut Offences) -> Vec<(usize, Vec<String>)> {
    let text = file(path);
    let mut arrays = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(rest) = markers.iter().find_map(|marker| line.trim_start().strip_prefix(marker)) else {
            continue;
        };
        match serde_json::from_str(rest.trim()) {
            Ok(words) => arrays.push((index + 1, words)),
            Err(_) => {
                offences.add(format!("{path}:{}", index + 1), "write the command as a JSON array on one line")
            }
        }
    }
    arrays
}
