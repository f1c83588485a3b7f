//! Does everything add up? Pure: the rows of a summary in, totals, problems and the last line out.

use leasehold_common::doctor::Severity;
use leasehold_common::state::TaskState;

use super::summary::{Doctor, LeftOver, Summary, TaskRow, Totals};

/// The name under which tasks are counted that were not found.
const MISSING: &str = "missing";

/// At most so many tasks are told one by one for one kind of problem.
const TOLD: usize = 5;

/// Fills in all that follows from the rest.
pub(super) fn close(mut summary: Summary) -> Summary {
    summary.totals = totals(&summary);
    let found = problems(&summary);
    summary.problems.extend(found);
    summary.ok = summary.problems.is_empty();
    summary.line = line(&summary.totals);
    summary
}

fn totals(summary: &Summary) -> Totals {
    let mut totals = Totals { tasks: summary.tasks.len(), ..Totals::default() };
    for task in &summary.tasks {
        *totals.by_state.entry(state_of(task).to_owned()).or_default() += 1;
        totals.verified += usize::from(task.verified == Some(true));
        totals.attempts += task.attempt;
        if let Some(sums) = task.sums() {
            totals.bytes += sums.bytes;
            totals.gzip_bytes += sums.gzip_bytes;
        }
    }
    let took = || summary.reclaims.iter().filter_map(|reclaim| reclaim.took_ms);
    totals.reclaim_ms = took().min().zip(took().max());
    totals
}

/// The states of [`Totals::by_state`] in the order in which they are told: ends first.
pub(super) fn states() -> impl Iterator<Item = &'static str> {
    let (ended, live): (Vec<_>, Vec<_>) = TaskState::ALL.into_iter().partition(|state| state.is_terminal());
    ended.into_iter().chain(live).map(TaskState::as_str).chain([MISSING])
}

/// `demo: 312 tasks: 309 completed, 1 failed, 1 timed_out, 1 aborted`.
fn line(totals: &Totals) -> String {
    let counted = |state: &'static str| Some(format!("{} {state}", totals.by_state.get(state)?));
    let counts: Vec<String> = states().filter_map(counted).collect();
    let s = if totals.tasks == 1 { "" } else { "s" };
    format!("demo: {} task{s}: {}", totals.tasks, counts.join(", "))
}

/// The name under which a task is counted.
pub(super) fn state_of(task: &TaskRow) -> &'static str {
    task.state.map_or(MISSING, TaskState::as_str)
}

fn problems(summary: &Summary) -> Vec<String> {
    let mut found = Vec::new();
    for wrong in [wrong_state, wrong_result, unchecked_result] {
        tell(&mut found, summary.tasks.iter().filter_map(wrong).collect());
    }
    tell(&mut found, duplicates(&summary.tasks));
    tell(&mut found, counts(summary));
    for scenario in summary.scenarios.iter().filter(|scenario| !scenario.ok) {
        found.push(format!("{}: expected {}; {}", scenario.name, scenario.expected, scenario.happened));
    }
    found.extend(breaches(&summary.doctor));
    found.extend(left_over(&summary.left_over, &summary.namespace));
    found
}

/// What the doctor found wrong.
pub(super) fn breaches(doctor: &Doctor) -> Vec<String> {
    let breaches = doctor.findings.iter().filter(|finding| finding.severity == Severity::Breach);
    let mut found: Vec<String> = breaches.map(|breach| format!("the doctor found a {breach}")).collect();
    if !doctor.clean && found.is_empty() {
        found.push("the doctor did not find the queue clean".to_owned());
    }
    found
}

fn wrong_state(task: &TaskRow) -> Option<String> {
    if task.state == Some(task.expected) {
        return None;
    }
    let why = task.failure.as_ref().map(|f| format!(" ({}: {})", f.kind.as_str(), f.message));
    let (state, expected) = (state_of(task), task.expected);
    Some(format!("task {} is {state} instead of {expected}{}", task.id, why.unwrap_or_default()))
}

fn wrong_result(task: &TaskRow) -> Option<String> {
    let file = task.file.as_deref().unwrap_or("its file");
    match task.verified {
        Some(false) if task.file_changed => {
            Some(format!("{file} changed while the demo ran: let it stand still and run the demo again"))
        }
        Some(false) => Some(format!("the result of task {} is not that of {file}", task.id)),
        Some(true) | None => None,
    }
}

fn unchecked_result(task: &TaskRow) -> Option<String> {
    let completed = task.state == Some(TaskState::Completed);
    (task.file.is_some() && completed && task.verified.is_none())
        .then(|| format!("the result of task {} was not compared with its file", task.id))
}

/// The first of many, and how many more.
fn tell(found: &mut Vec<String>, mut problems: Vec<String>) {
    let more = problems.len().saturating_sub(TOLD);
    problems.truncate(TOLD);
    found.append(&mut problems);
    if more > 0 {
        found.push(format!("and {more} more of this kind"));
    }
}

fn duplicates(tasks: &[TaskRow]) -> Vec<String> {
    let mut ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    ids.sort_unstable();
    let twice = ids.windows(2).filter(|pair| pair[0] == pair[1]);
    twice.map(|pair| format!("task {} is listed twice", pair[0])).collect()
}

/// The queue's own counts are those of the rows.
fn counts(summary: &Summary) -> Vec<String> {
    let listed =
        |state: TaskState| summary.tasks.iter().filter(|task| task.state == Some(state)).count() as u64;
    let kept = |state: TaskState| summary.kept.get(&state).copied().unwrap_or_default();
    let differ = |state: &TaskState| listed(*state) != kept(*state);
    let tell = |state: TaskState| {
        format!("the queue counts {} {state}, the list of tasks {}", kept(state), listed(state))
    };
    TaskState::ALL.into_iter().filter(differ).map(tell).collect()
}

/// What should not be there any more.
pub(super) fn left_over(left: &LeftOver, namespace: &str) -> Vec<String> {
    let mut found = Vec::new();
    if !left.processes.is_empty() {
        found.push(format!("processes were left over and had to be killed: {:?}", left.processes));
    }
    found.extend(left.folders.iter().map(|folder| format!("{folder} is left over: remove it")));
    if left.keys > 0 {
        found.push(format!("{} keys are left over in the namespace {namespace}", left.keys));
    }
    found
}

#[cfg(test)]
mod tests;
