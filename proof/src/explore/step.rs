//! One step of a path, and how it is written as Rust.

use std::fmt::Write as _;
use std::time::Duration;

use leasehold_common::store::{Outcome, RetryAdvice};

use crate::words::{Call, Run};

/// What happens between two states.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A call is made, and its answer arrives.
    Heard(Call),
    /// A call is made, and its answer is lost; or it is a late duplicate, whose answer nobody waits for.
    Unheard(Call),
    /// A beat passes, then the reaper sweeps.
    Tick,
    /// From here on the replica hears nothing: what is written is lost if it takes over.
    Lag,
    /// The replica takes over.
    FailOver,
    /// Redis restarts from its append-only file.
    Restart,
}

impl Step {
    /// As Rust, with the names of [`Step`], [`Call`] and [`Outcome`] in scope.
    pub fn code(&self) -> String {
        match self {
            Self::Heard(call) => format!("Heard({})", call_code(call)),
            Self::Unheard(call) => format!("Unheard({})", call_code(call)),
            other => format!("{other:?}"),
        }
    }

    /// The call, if it is one.
    pub fn call(&self) -> Option<&Call> {
        match self {
            Self::Heard(call) | Self::Unheard(call) => Some(call),
            Self::Tick | Self::Lag | Self::FailOver | Self::Restart => None,
        }
    }
}

fn run_code(run: Run) -> String {
    format!("Run {{ task: {}, attempt: {} }}", run.task, run.attempt)
}

fn duration_code(duration: Duration) -> String {
    format!("Duration::from_millis({})", duration.as_millis())
}

fn outcome_code(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed(output) => format!("Outcome::Completed(vec!{output:?})"),
        Outcome::Failed { kind, message, retry, .. } => {
            let retry = match retry {
                RetryAdvice::After(delay) => format!("After({})", duration_code(*delay)),
                other => format!("{other:?}"),
            };
            format!(
                "Outcome::Failed {{ kind: FailureKind::{kind:?}, message: {message:?}.to_owned(), \
                 retry: RetryAdvice::{retry}, detail: FailureDetail::default() }}"
            )
        }
        Outcome::Stopped { cause, message, .. } => format!(
            "Outcome::Stopped {{ cause: StopCause::{cause:?}, message: {message:?}.to_owned(), \
             detail: FailureDetail::default() }}"
        ),
        Outcome::Snoozed(delay) => format!("Outcome::Snoozed({})", duration_code(*delay)),
        Outcome::Released => "Outcome::Released".to_owned(),
        Outcome::Unknown { name } => format!("Outcome::Unknown {{ name: {name:?}.to_owned() }}"),
    }
}

fn call_code(call: &Call) -> String {
    let code = match call {
        Call::Enqueue(tasks) => format!("Enqueue(vec!{tasks:?})"),
        Call::Finish { worker, run, outcome, before_stop } => {
            let (run, outcome) = (run_code(*run), outcome_code(outcome));
            format!(
                "Finish {{ worker: {worker}, run: {run}, outcome: {outcome}, before_stop: {before_stop} }}"
            )
        }
        Call::Beat { worker, runs, stopping } => {
            let runs = runs.iter().map(|run| run_code(*run)).collect::<Vec<_>>().join(", ");
            format!("Beat {{ worker: {worker}, runs: vec![{runs}], stopping: {stopping} }}")
        }
        Call::Retry { task, rev, mode } => {
            format!("Retry {{ task: {task}, rev: {rev}, mode: RetryMode::{mode:?} }}")
        }
        // The rest is written as `Debug` shows it.
        other => format!("{other:?}"),
    };
    format!("Call::{code}")
}

/// A whole test that takes these steps in a world.
pub fn test_code(world: &str, steps: &[Step]) -> String {
    let mut code = String::new();
    let mut line = |text: &str| writeln!(code, "{text}").expect("text can be written");
    line("#[test]");
    line(&format!("fn the_path_found_in_{}_breaks_nothing() {{", world.replace('-', "_")));
    line("    retrace(");
    line(&format!("        {world:?},"));
    line("        &[");
    for step in steps {
        line(&format!("            {},", step.code()));
    }
    line("        ],");
    line("    );");
    line("}");
    code
}
