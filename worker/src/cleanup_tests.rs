//! Cleanups of runs that are frozen, lost, handed back and past their hard end.

use std::sync::Arc;

use leasehold_common::record::StopCause;

use super::*;
use crate::run::Verdict;
use crate::run::tests::run;

const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);
const LEASE: Duration = Duration::from_secs(15);

/// Adds cleanups that note their number when they run.
fn noting(run: &Run, numbers: std::ops::Range<u32>) -> Arc<Mutex<Vec<u32>>> {
    let noted = Arc::new(Mutex::new(Vec::new()));
    for number in numbers {
        let noted = Arc::clone(&noted);
        assert!(run.cleanups.add(async move || noted.lock().unwrap().push(number)));
    }
    noted
}

fn log_of(run: &Run) -> String {
    let chunks = run.telling.output.take(usize::MAX);
    String::from_utf8(chunks.into_iter().flat_map(|chunk| chunk.bytes).collect()).unwrap()
}

#[tokio::test]
async fn r69_the_newest_runs_first_and_none_is_taken_afterwards() {
    let run = run(HOUR);
    let noted = noting(&run, 0..3);
    clean_up(&run, HOUR, LEASE).await;
    assert_eq!(*noted.lock().unwrap(), [2, 1, 0]);
    assert!(!run.cleanups.add(async || ()) && !run.cleanups.are_running());
}

#[tokio::test]
async fn r69_a_cleanup_may_leave_another() {
    let run = run(HOUR);
    let noted = noting(&run, 0..1);
    let (again, inner) = (Arc::clone(&run), Arc::clone(&noted));
    run.cleanups.add(async move || assert!(again.cleanups.add(async move || inner.lock().unwrap().push(9))));
    clean_up(&run, HOUR, LEASE).await;
    assert_eq!(*noted.lock().unwrap(), [9, 0]);
}

#[tokio::test]
async fn r69_panics_and_time_are_bounded_and_told() {
    let run = run(HOUR);
    let noted = noting(&run, 0..1);
    run.cleanups.add(std::future::pending::<()>);
    run.telling.secrets.add("secret", b"hunter22").unwrap();
    run.cleanups.add(async || panic!("hunter22"));
    clean_up(&run, SHORT, LEASE).await;
    assert_eq!(*noted.lock().unwrap(), [0], "what others do is no matter of it");
    let log = log_of(&run);
    assert!(log.contains("a cleanup panicked at ") && log.contains(": ***\n"), "{log}");
    assert!(log.contains("a cleanup took longer than 50ms and was dropped\n"), "{log}");
}

#[tokio::test]
async fn r69_all_together_are_bounded() {
    let run = run(HOUR);
    let noted = noting(&run, 0..2);
    for _ in 0..3 {
        run.cleanups.add(std::future::pending::<()>);
    }
    let began = Instant::now();
    clean_up(&run, SHORT, LEASE).await;
    assert!(began.elapsed() >= 2 * SHORT);
    assert!(noted.lock().unwrap().is_empty());
    assert!(log_of(&run).ends_with("leasehold: 3 cleanups were not run: no time was left\n"));
}

#[tokio::test]
async fn r69_a_frozen_run_stands_still_and_a_judged_one_is_cleaned_up() {
    for verdict in [Verdict::Lost, Verdict::HandBack] {
        let run = run(Duration::ZERO);
        let noted = noting(&run, 0..1);
        let cleaning = tokio::spawn({
            let run = Arc::clone(&run);
            async move { clean_up(&run, SHORT, LEASE).await }
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!cleaning.is_finished() && noted.lock().unwrap().is_empty(), "it is frozen");
        run.judge(verdict);
        cleaning.await.unwrap();
        assert_eq!(*noted.lock().unwrap(), [0], "{verdict:?}");
    }
}

#[tokio::test]
async fn r69_past_the_hard_end_of_a_stop_nothing_runs() {
    for (kill_in, runs) in [(Duration::from_secs(1), 1), (Duration::ZERO, 0)] {
        let run = run(HOUR);
        let noted = noting(&run, 0..1);
        run.stop(StopCause::Abort, BootInstant::now().plus(kill_in));
        // Without a lease the hard end is the kill.
        clean_up(&run, HOUR, Duration::ZERO).await;
        assert_eq!(noted.lock().unwrap().len(), runs);
        assert_eq!(log_of(&run).contains("the stop of the run left no more time"), runs == 0);
    }
}

#[tokio::test]
async fn r69_a_stop_in_the_middle_of_a_cleanup_bounds_it() {
    let run = run(HOUR);
    let orders = Arc::clone(&run);
    run.cleanups.add(async move || {
        orders.stop(StopCause::Abort, BootInstant::now().plus(Duration::from_millis(20)));
        std::future::pending::<()>().await;
    });
    clean_up(&run, HOUR, Duration::from_millis(20)).await;
    assert!(log_of(&run).contains("was dropped: the stop of the run left no more time"));
}
