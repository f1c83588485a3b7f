//! Trials of handlers: what a user's test sees is what a worker would make of the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_worker::testing::{Ended, Trial};
use leasehold_worker::{
    Bounds, Context, Deadline, FailureKind, Policy, RetryAdvice, Spec, StopCause, Task, TaskError,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Sum {
    numbers: Vec<u64>,
}

impl Task for Sum {
    const NAME: &'static str = "sum";
    type Output = u64;

    fn spec() -> Spec {
        let policy = Policy {
            run_timeout: Some(Duration::from_secs(3600)),
            stop_grace: Duration::from_secs(10),
            ..Policy::default()
        };
        Spec { policy, ..Spec::default() }
    }
}

fn sum(numbers: &[u64]) -> Sum {
    Sum { numbers: numbers.to_vec() }
}

#[tokio::test(start_paused = true)]
async fn a_trial_tells_all_that_the_handler_said() {
    let trial = Trial::of(&sum(&[1, 2, 3])).attempt(2, 1).checkpoint(&10_u64).budget("calls", 5);
    let report = trial
        .run(|context: Context, task: Sum| async move {
            assert_eq!((context.attempt(), context.failures()), (2, 1));
            let before = context.checkpoint::<u64>().await?.unwrap_or_default();
            context.phase("adding", Duration::from_secs(60)).await?;
            for n in &task.numbers {
                context.spend("calls", 1).await?;
                context.log(&format!("plus {n}"));
            }
            context.progress(0.5, "half")?;
            let sum = before + task.numbers.iter().sum::<u64>();
            context.set_checkpoint(&sum).await?;
            Ok::<_, TaskError>(sum)
        })
        .await;
    assert_eq!(report.ended, Ended::Completed(16));
    assert_eq!(report.phases, [("adding".to_owned(), Some(Duration::from_secs(60)))]);
    assert_eq!((report.progress, report.note.as_str()), (Some(0.5), "half"));
    assert_eq!(report.log, "plus 1\nplus 2\nplus 3\n");
    assert_eq!(report.spent["calls"], 3);
    assert_eq!(report.checkpoint, Some(vec![16]));
}

#[tokio::test(start_paused = true)]
async fn bounds_pass_by_the_clock_of_the_test() {
    let begun = std::time::Instant::now();
    let report = Trial::of(&sum(&[]))
        .run(|context: Context, _: Sum| async move {
            context.stopped().cancelled().await;
            Err::<u64, _>(TaskError::retry("told to stop"))
        })
        .await;
    assert_eq!(
        report.ended,
        Ended::Stopped { cause: StopCause::RunTimeout, message: "told to stop".to_owned() }
    );
    let report = Trial::of(&sum(&[]))
        .stop_after(Duration::from_secs(60), StopCause::Abort)
        .run(|_: Context, _: Sum| std::future::pending::<Result<u64, TaskError>>())
        .await;
    assert!(matches!(report.ended, Ended::Stopped { cause: StopCause::Abort, .. }), "{report:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "an hour has passed, but not here");
}

#[tokio::test(start_paused = true)]
async fn r62_a_budget_ends_a_trial_as_it_ends_a_run() {
    let report = Trial::of(&sum(&[]))
        .budget("calls", 2)
        .run(|context: Context, _: Sum| async move {
            loop {
                context.spend("calls", 1).await?;
            }
            #[expect(unreachable_code, reason = "the type of the handler's error")]
            Ok::<u64, TaskError>(0)
        })
        .await;
    let Ended::Stopped { cause: StopCause::BudgetExceeded, message } = report.ended else {
        panic!("{report:?}")
    };
    assert!(message.contains("budget calls is exceeded"), "{message}");
    assert_eq!(report.spent["calls"], 2);
}

#[tokio::test(start_paused = true)]
async fn r62_a_result_in_spite_of_a_refused_charge_is_none() {
    let report = Trial::of(&sum(&[]))
        .budget("calls", 0)
        .run(|context: Context, _: Sum| async move {
            context.spend("calls", 1).await.unwrap_err();
            Ok::<u64, TaskError>(7)
        })
        .await;
    let message = "the run went on after a charge was refused".to_owned();
    assert_eq!(report.ended, Ended::Stopped { cause: StopCause::BudgetExceeded, message });
}

#[tokio::test(start_paused = true)]
async fn r08_whatever_a_run_says_after_an_abort_but_a_result_is_an_abort() {
    let aborted = |trial: Trial| trial.stop_after(Duration::from_secs(1), StopCause::Abort);
    let told = async |context: Context| context.stopped().cancelled().await;
    let panicked = aborted(Trial::of(&sum(&[]))).run(move |context: Context, task: Sum| async move {
        told(context).await;
        Ok::<u64, TaskError>(task.numbers[7])
    });
    let panicked = panicked.await;
    let Ended::Stopped { cause: StopCause::Abort, message } = &panicked.ended else { panic!("{panicked:?}") };
    assert!(message.contains("index out of bounds"), "{message}");
    let snoozed = aborted(Trial::of(&sum(&[]))).run(move |context: Context, _: Sum| async move {
        told(context).await;
        Err::<u64, _>(TaskError::snooze(Duration::from_secs(5)))
    });
    assert!(matches!(snoozed.await.ended, Ended::Stopped { cause: StopCause::Abort, .. }));
    let done = aborted(Trial::of(&sum(&[]))).run(move |context: Context, _: Sum| async move {
        told(context).await;
        Ok::<u64, TaskError>(1)
    });
    assert_eq!(done.await.ended, Ended::Completed(1));
    // A failure before the stop stays what it was, however long its cleanup takes.
    let early = aborted(Trial::of(&sum(&[]))).run(|context: Context, _: Sum| async move {
        context.on_end(async || tokio::time::sleep(Duration::from_secs(3)).await);
        Err::<u64, _>(TaskError::retry("broke"))
    });
    let early = early.await;
    assert!(matches!(early.ended, Ended::Failed { retry: RetryAdvice::Policy, .. }), "{early:?}");
    // A drain is no word of Redis: a panic then spends a failure.
    let drained = Trial::of(&sum(&[])).stop_after(Duration::from_secs(1), StopCause::Drain);
    let drained = drained.run(move |context: Context, task: Sum| async move {
        told(context).await;
        Ok::<u64, TaskError>(task.numbers[7])
    });
    assert!(matches!(drained.await.ended, Ended::Failed { .. }));
}

#[tokio::test(start_paused = true)]
async fn r09_a_deadline_that_is_a_time_holds_in_a_trial() {
    let spec = |deadline| Spec {
        bounds: Bounds { deadline: Some(deadline), ..Bounds::default() },
        ..Spec::default()
    };
    let ran = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ran);
    let late = Trial::of(&sum(&[])).spec(spec(Deadline::At(1000))).run(move |_: Context, _: Sum| {
        ran.store(true, Ordering::SeqCst);
        async { Ok::<u64, TaskError>(1) }
    });
    let late = late.await;
    assert!(matches!(late.ended, Ended::Stopped { cause: StopCause::Deadline, .. }), "{late:?}");
    assert!(!seen.load(Ordering::SeqCst), "no worker starts what is too late");
    let soon = leasehold_common::clock::wall_ms() + 60_000;
    let pending = |_: Context, _: Sum| std::future::pending::<Result<u64, TaskError>>();
    let report = Trial::of(&sum(&[])).spec(spec(Deadline::At(soon))).run(pending).await;
    assert!(matches!(report.ended, Ended::Stopped { cause: StopCause::Deadline, .. }), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn failures_panics_snoozes_and_cleanups_are_those_of_a_worker() {
    let fatal =
        Trial::of(&sum(&[])).run(|_: Context, _: Sum| async { Err::<u64, _>(TaskError::fatal("no")) }).await;
    let expected =
        Ended::Failed { kind: FailureKind::Error, message: "no".to_owned(), retry: RetryAdvice::Fatal };
    assert_eq!(fatal.ended, expected);

    let cleaned = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&cleaned);
    let panicked = Trial::of(&sum(&[]))
        .run(move |context: Context, task: Sum| {
            let cleaned = Arc::clone(&cleaned);
            async move {
                context.on_end(async move || cleaned.store(true, Ordering::SeqCst));
                Ok::<u64, TaskError>(task.numbers[7])
            }
        })
        .await;
    let Ended::Failed { message, .. } = &panicked.ended else { panic!("{panicked:?}") };
    assert!(message.contains("trial.rs:") && message.contains("index out of bounds"), "{message}");
    assert!(seen.load(Ordering::SeqCst), "its cleanup ran");

    let snooze = Duration::from_secs(5);
    let report = Trial::of(&sum(&[]))
        .run(move |_: Context, _: Sum| async move { Err::<u64, _>(TaskError::snooze(snooze)) });
    assert_eq!(report.await.ended, Ended::Snoozed(snooze));
}

#[tokio::test(start_paused = true)]
async fn r64_a_secret_is_no_name_of_a_phase_and_the_refusal_does_not_quote_it() {
    let report = Trial::of(&sum(&[]))
        .run(|context: Context, _: Sum| async move {
            context.redact("hunter22")?;
            for name in ["with-hunter22", "hunter22 "] {
                let refused = context.phase(name, None).await.unwrap_err().to_string();
                assert!(refused.contains("phase") && refused.contains("marked secret"), "{refused}");
                assert!(!refused.contains("hunter22"), "{refused}");
            }
            context.phase("login", None).await?;
            Ok::<_, TaskError>(1)
        })
        .await;
    assert_eq!(report.ended, Ended::Completed(1));
    assert_eq!(report.phases, [("login".to_owned(), None)]);
}

#[tokio::test(start_paused = true)]
async fn r62_the_next_attempt_finds_checkpoint_and_charges_of_the_one_before() {
    let handler = |context: Context, _: Sum| async move {
        let before: u64 = context.checkpoint().await?.unwrap_or_default();
        let rest = context.spend("calls", 2).await?;
        context.set_checkpoint(&(before + rest)).await?;
        Err::<u64, _>(TaskError::retry("again"))
    };
    let trial = || Trial::of(&sum(&[])).budget("calls", 5);
    let first = trial().run(handler).await;
    assert_eq!((first.checkpoint_as(), first.spent["calls"]), (Some(3_u64), 2));
    let second = trial().after(&first).run(handler).await;
    assert_eq!((second.checkpoint_as(), second.spent["calls"]), (Some(4_u64), 4));
    let third = trial().after(&second).run(handler).await;
    assert!(
        matches!(third.ended, Ended::Stopped { cause: StopCause::BudgetExceeded, .. }),
        "{:?}",
        third.ended
    );
}
