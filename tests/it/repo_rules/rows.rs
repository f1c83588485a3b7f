//! Every requirement row and case of a finished issue has a test that bears its id.

use std::collections::BTreeSet;

use super::Offences;
use super::source::{file, files};

/// Rows and cases of finished issues.
const FINISHED: &str = "tests/rows.txt";

fn is_id(word: &str) -> bool {
    let digits = word.strip_prefix("case_").or_else(|| word.strip_prefix('r'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// The ids in the names of test functions; one name may bear several.
fn ids_of_tests() -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for source in files(".", ".rs") {
        let names =
            source.text.lines().filter_map(|line| line.trim_start().split_once("fn ")?.1.split('(').next());
        for name in names {
            let words: Vec<&str> = name.split('_').collect();
            ids.extend(words.iter().map(|word| (*word).to_owned()).filter(|word| is_id(word)));
            let pairs = words.windows(2).filter(|pair| pair[0] == "case");
            ids.extend(pairs.map(|pair| format!("case_{}", pair[1])).filter(|id| is_id(id)));
        }
    }
    ids
}

#[test]
fn every_row_of_a_finished_issue_has_a_test() {
    let (listed, tested) = (file(FINISHED), ids_of_tests());
    let lines = listed.lines().filter(|line| !line.starts_with('#'));
    let finished: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    assert!(finished.iter().all(|id| is_id(id)), "{FINISHED} lists ids alone");
    let mut offences = Offences::default();
    for id in finished.into_iter().filter(|id| !tested.contains(*id)) {
        offences.add(FINISHED, format!("{id} has no test"));
    }
    offences.judge("name a test after it, or take it off the list while its issue is open");
}
