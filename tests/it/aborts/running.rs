//! Aborts of commands that run: TERM, grace, KILL; what they say of their end; nobody else is touched.

use std::time::{Duration, Instant};

use leasehold_producer::{AbortAnswer, StopCause, TaskId, TaskState};
use leasehold_tests::{Effects, Proc, eventually, let_time_pass, stays};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::handlers::{Act, Seen};
use super::kit::{GRACE, Kit, LIMIT, quick};

/// What a kill and its report may take beyond the grace on a busy machine.
const SLACK: Duration = Duration::from_secs(2);

/// Says that it is up, ignores TERM, and has a child that does so, too.
const STUBBORN: &str = r#"trap "" TERM; echo up; sleep 600 & wait; sleep 600"#;

/// Starts a command that says `up` once it has set its traps.
async fn up(kit: &Kit, flags: &[&str], script: &str) -> TaskId {
    let id = kit.exec(flags, script);
    kit.logs(&id, "up").await;
    id
}

fn kill_at(answer: AbortAnswer) -> u64 {
    match answer {
        AbortAnswer::Requested { kill_at_ms, .. } => kill_at_ms,
        other => panic!("not asked to end: {other:?}"),
    }
}

/// Waits for the end of an abort that was asked for at `asked`: not before the grace is over, and soon after; then
/// nothing of it is left.
async fn ends_at_its_grace(kit: &Kit, id: &TaskId, asked: Instant, grace: Duration) -> Value {
    kit.reaches_within(id, TaskState::Aborted, grace + SLACK).await;
    kit.assert_no_leftovers();
    let took = asked.elapsed();
    assert!(
        took + Duration::from_millis(100) >= grace,
        "aborted after {took:?}, before its grace of {grace:?}"
    );
    eprintln!("aborted {took:?} after it was asked, with a grace of {grace:?}");
    kit.show(id)
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_a_command_that_ignores_term_is_aborting_at_once_and_gone_after_its_grace() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let script = r#"trap "" TERM; sleep 600 & wait; sleep 600"#;
    let id = kit.exec(&["--abort-grace", "2s"], script);
    let alive = || kit.leftovers().len();
    eventually("the shell and its child run", LIMIT, || if alive() == 2 { Ok(()) } else { Err(alive()) });
    let asked = Instant::now();
    let said = kit.ok(&["task", "abort", id.as_str()]).line();
    assert!(said.starts_with("aborting: it was asked to end; what is left of it is killed at "), "{said}");
    let shown = kit.show(&id);
    assert_eq!((&shown["state"], &shown["stop"]["cause"]), (&"aborting".into(), &"abort".into()));
    assert_eq!(alive(), 2, "it ignores TERM, and is still listed");
    let shown = ends_at_its_grace(&kit, &id, asked, GRACE).await;
    assert_eq!(shown["failure"]["signal"], 9, "{shown}");
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_18_an_aborted_command_is_not_run_again_whatever_it_exits_with() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 4).await;
    let flags = ["--abort-grace", "2s", "--max-attempts", "6"];
    let exits = |code: u8| format!("trap 'exit {code}' TERM; echo up; sleep 600 & wait");
    let cases = [(exits(1), Some(1), None), (exits(0), Some(0), None), (STUBBORN.to_owned(), None, Some(9))];
    let mut ids = Vec::new();
    for (script, ..) in &cases {
        ids.push(up(&kit, &flags, script).await);
    }
    for id in &ids {
        kill_at(kit.abort(id).await);
    }
    for (id, (_, code, signal)) in ids.iter().zip(cases) {
        kit.reaches_within(id, TaskState::Aborted, GRACE + SLACK).await;
        let shown = kit.show(id);
        let failure = &shown["failure"];
        assert_eq!((&failure["exit_code"], &failure["signal"]), (&Value::from(code), &Value::from(signal)));
        assert_eq!(shown["stop"]["cause"], "abort");
    }
    stays("none of them is run again", Duration::from_secs(2), || {
        let states: Vec<Value> = ids.iter().map(|id| kit.show(id)).collect();
        let right = states.iter().all(|task| task["state"] == "aborted" && task["attempt"] == 1);
        if right { Ok(()) } else { Err(format!("{states:?}")) }
    });
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_an_abort_touches_no_other_task_of_its_worker_or_queue() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 4).await;
    let effects = Effects::new();
    let env = effects.env();
    let flags = ["--env", &env];
    let body = Effects::body(Duration::from_millis(1500));
    let running: Vec<TaskId> = (0..4).map(|_| kit.exec(&flags, &body)).collect();
    let queued: Vec<TaskId> = (0..2).map(|_| kit.exec(&flags, &body)).collect();
    eventually("four run", LIMIT, || if effects.starts() == 4 { Ok(()) } else { Err(effects.starts()) });
    kill_at(kit.abort(&running[1]).await);
    kit.reaches_within(&running[1], TaskState::Aborted, SLACK).await;
    let others: Vec<&TaskId> = running.iter().chain(&queued).filter(|id| **id != running[1]).collect();
    for id in &others {
        let record = kit.reaches(id, TaskState::Completed).await;
        assert_eq!((record.attempt, record.failures, record.stop), (1, 0, None), "{id}");
    }
    for id in others {
        let runs = effects.of(id.as_str());
        assert!(matches!(&runs[..], [only] if only.end.is_some()), "{id}: {runs:?}");
    }
    assert!(matches!(&effects.of(running[1].as_str())[..], [only] if only.end.is_none()));
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r04_an_abort_reaches_an_idle_worker_within_100_ms() {
    // A beat of 5 s: what arrives sooner came by the doorbell.
    let kit = Kit::with_lease(Duration::from_secs(15)).await;
    let seen = Seen::default();
    let hands = kit.hands(2, |worker| seen.handler(worker)).await;
    let mut delays = Vec::new();
    for i in 0..21 {
        let id = kit.enqueue(&format!("t{i}"), &Act::Obey(60_000), quick()).await;
        eventually("it runs", LIMIT, || if seen.of(id.as_str()).begun == 1 { Ok(()) } else { Err(i) });
        let asked = Instant::now();
        kill_at(kit.abort(&id).await);
        let told = eventually("it is told", LIMIT, || seen.of(id.as_str()).stopped.ok_or("not yet"));
        delays.push(told - asked);
        kit.reaches(&id, TaskState::Aborted).await;
    }
    delays.sort();
    let (p50, most) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    eprintln!("from the abort to the handler: p50 {p50:?}, at most {most:?}, of {}", delays.len());
    assert!(p50 < Duration::from_millis(100), "p50 {p50:?}");
    assert!(most < Duration::from_secs(2), "at most {most:?}: less than half a beat, hence by the doorbell");
    hands.stop().await;
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_43_what_ignores_term_is_killed_at_its_grace_and_a_second_abort_does_not_extend_it() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let id = up(&kit, &["--abort-grace", "2s"], r#"trap "" TERM; echo up; while :; do sleep 1; done"#).await;
    let asked = Instant::now();
    let first = kill_at(kit.abort(&id).await);
    let_time_pass("the first look, inside the grace", Duration::from_millis(500));
    let shown = kit.show(&id);
    assert_eq!(shown["state"], "aborting");
    assert!(shown["next"].as_str().is_some_and(|next| next.contains("what is left is killed at")), "{shown}");
    assert!(!kit.leftovers().is_empty(), "it ignores TERM");
    let second = kill_at(kit.abort(&id).await);
    assert!(second <= first, "the second abort extended the grace by {} ms", second.saturating_sub(first));
    let third = kit.ok(&["task", "abort", id.as_str(), "--grace", "1h"]).line();
    assert!(third.contains("killed at") && !third.contains("(in 59m"), "{third}");
    let shown = ends_at_its_grace(&kit, &id, asked, GRACE).await;
    assert_eq!((&shown["attempt"], &shown["failure"]["signal"]), (&1.into(), &9.into()));
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_43_a_second_abort_with_a_shorter_grace_kills_sooner() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let id = up(&kit, &["--abort-grace", "10m"], STUBBORN).await;
    kill_at(kit.abort(&id).await);
    let again = Instant::now();
    kit.ok(&["task", "abort", id.as_str(), "--grace", "500ms"]);
    ends_at_its_grace(&kit, &id, again, Duration::from_millis(500)).await;
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_43_a_run_timeout_inside_the_grace_changes_nothing_and_an_abort_outranks_one() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let flags = ["--abort-grace", "2s", "--run-timeout", "1500ms", "--max-attempts", "5"];
    // The abort comes first, the timeout within its grace.
    let first = up(&kit, &flags, STUBBORN).await;
    let asked = Instant::now();
    kill_at(kit.abort(&first).await);
    let shown = ends_at_its_grace(&kit, &first, asked, GRACE).await;
    assert_eq!((&shown["attempt"], &shown["stop"]["earlier_cause"]), (&1.into(), &Value::Null), "{shown}");
    // The timeout comes first, the abort within its grace: aborted all the same, with the cause before on record.
    let second = up(&kit, &flags, STUBBORN).await;
    eventually("its run timeout has passed", LIMIT, || {
        let shown = kit.show(&second);
        if shown["stop"]["cause"] == "run_timeout" { Ok(()) } else { Err(shown["stop"].to_string()) }
    });
    kill_at(kit.abort(&second).await);
    assert_eq!(kit.show(&second)["state"], "aborting");
    let record = kit.reaches_within(&second, TaskState::Aborted, GRACE + SLACK).await;
    kit.assert_no_leftovers();
    let stop = record.stop.unwrap();
    assert_eq!((stop.cause, stop.earlier_cause), (StopCause::Abort, Some(StopCause::RunTimeout)));
    assert_eq!(record.attempt, 1);
    kit.end([worker]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_43_a_worker_told_to_stop_inside_the_grace_still_ends_the_abort() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let bystander: Proc = kit.worker("other", 2).await;
    let id = up(&kit, &["--abort-grace", "2s"], STUBBORN).await;
    let owner = kit.record(&id).await.worker.unwrap();
    let (owner, bystander) = if owner.as_str() == "w" { (worker, bystander) } else { (bystander, worker) };
    let asked = Instant::now();
    kill_at(kit.abort(&id).await);
    owner.signal(Signal::SIGTERM);
    let shown = ends_at_its_grace(&kit, &id, asked, GRACE).await;
    assert_eq!((&shown["attempt"], &shown["failure"]["signal"]), (&1.into(), &9.into()), "{shown}");
    owner.wait(LIMIT).success();
    kit.end([bystander]).await;
}
