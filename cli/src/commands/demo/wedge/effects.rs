//! What really ran, as the commands themselves wrote it to a file outside Redis. Pure.

use std::collections::BTreeSet;

use serde::Serialize;

/// One run of one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Run {
    /// The task.
    pub(super) task: String,
    /// Which attempt.
    pub(super) attempt: u64,
    /// When it began, ns of this machine's clock.
    pub(super) begin_ns: u64,
    /// When it wrote last.
    pub(super) last_ns: u64,
    /// Steps between begin and end.
    pub(super) steps: usize,
    /// Whether it came to its own end.
    pub(super) ended: bool,
}

/// All runs in the order of their begins, and where the file contradicts "one at a time".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Effects {
    /// The runs.
    pub(super) runs: Vec<Run>,
    /// Lines of the file.
    pub(super) lines: usize,
    /// What should not be.
    pub(super) problems: Vec<String>,
}

/// Reads the file. The order of its lines is judged, not the times in them: lines are appended one after the other,
/// while a clock can be set. A run that was killed has no end, but must never write again once another began.
pub(super) fn read(text: &str) -> Effects {
    let mut effects = Effects::default();
    let mut told = BTreeSet::new();
    for line in text.lines() {
        effects.lines += 1;
        if let Err(problem) = effects.take(line)
            && told.insert(problem.clone())
        {
            effects.problems.push(problem);
        }
    }
    effects
}

impl Effects {
    fn take(&mut self, line: &str) -> Result<(), String> {
        let unreadable = || format!("a line of the effects file cannot be read: {line:?}");
        let fields: Vec<&str> = line.split(' ').collect();
        let [task, attempt, what, ns] = fields[..] else { return Err(unreadable()) };
        let (Ok(attempt), Ok(ns)) = (attempt.parse::<u64>(), ns.parse::<u64>()) else {
            return Err(unreadable());
        };
        let at = self.runs.iter().position(|run| run.task == task && run.attempt == attempt);
        match (what, at) {
            ("begin", None) => {
                let (task, steps) = (task.to_owned(), 0);
                self.runs.push(Run { task, attempt, begin_ns: ns, last_ns: ns, steps, ended: false });
                // The one before must have ended, or been killed; if it still lives, its next line tells.
                Ok(())
            }
            ("begin", Some(_)) => Err(format!("attempt {attempt} of {task} began twice")),
            ("step" | "end", Some(at)) => self.go_on(at, what == "end", ns),
            _ => Err(unreadable()),
        }
    }

    fn go_on(&mut self, at: usize, end: bool, ns: u64) -> Result<(), String> {
        let name = |run: &Run| format!("attempt {} of {}", run.attempt, run.task);
        let later = self.runs.get(at + 1).map(name);
        let run = &mut self.runs[at];
        let this = name(run);
        if run.ended {
            return Err(format!("{this} went on after its end"));
        }
        run.last_ns = ns;
        run.steps += usize::from(!end);
        run.ended = end;
        later.map_or(Ok(()), |later| Err(format!("two ran at once: {this} still ran when {later} had begun")))
    }

    /// The longest time between the last line of a run and the first of the next, ms, and that next run.
    pub(super) fn longest_gap(&self) -> Option<(u64, &Run)> {
        let gap = |pair: &[Run]| pair[1].begin_ns.saturating_sub(pair[0].last_ns) / 1_000_000;
        self.runs.windows(2).map(|pair| (gap(pair), &pair[1])).max_by_key(|(ms, _)| *ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        read(text).problems
    }

    #[test]
    fn one_after_the_other_is_as_it_should_be() {
        let text =
            "a 1 begin 1000000\na 1 step 2000000\nb 1 begin 9000000\nb 1 step 9500000\nb 1 end 9600000\n";
        let effects = read(text);
        assert_eq!((effects.lines, effects.problems.len()), (5, 0));
        let ran: Vec<_> = effects.runs.iter().map(|run| (run.task.as_str(), run.steps, run.ended)).collect();
        assert_eq!(ran, [("a", 1, false), ("b", 1, true)], "a was killed after its first step");
        assert_eq!(effects.longest_gap().map(|(ms, run)| (ms, run.task.as_str())), Some((7, "b")));
    }

    #[test]
    fn a_run_that_writes_once_another_has_begun_is_found_once() {
        let found = problems("a 1 begin 1\nb 1 begin 2\na 1 step 3\na 1 step 4\nb 1 end 5\n");
        assert_eq!(found, ["two ran at once: attempt 1 of a still ran when attempt 1 of b had begun"]);
        let found = problems("a 1 begin 1\na 2 begin 2\na 1 end 3\na 2 end 4\n");
        assert_eq!(found, ["two ran at once: attempt 1 of a still ran when attempt 2 of a had begun"]);
    }

    #[test]
    fn what_began_twice_went_on_or_cannot_be_read_is_found() {
        assert_eq!(problems("a 1 begin 1\na 1 begin 2\n"), ["attempt 1 of a began twice"]);
        assert_eq!(
            problems("a 1 begin 1\na 1 end 2\na 1 step 3\n"),
            ["attempt 1 of a went on after its end"]
        );
        for torn in ["a 1 step 1", "a 1", "a x begin 1", "a 1 begin x", "a 1 ends 1", ""] {
            assert_eq!(problems(&format!("{torn}\n")).len(), 1, "{torn:?}");
        }
    }
}
