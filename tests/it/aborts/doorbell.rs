//! Aborts while no subscription lives: the next beat brings the stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_producer::{AbortAnswer, TaskState};
use leasehold_tests::{eventually, let_time_pass};

use super::kit::{BEAT, Kit, LIMIT, read};

#[tokio::test(flavor = "multi_thread")]
async fn case_19_without_a_doorbell_and_with_all_slots_busy_term_comes_within_two_beats() {
    let kit = Kit::new().await;
    let worker = kit.worker("w", 2).await;
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        let file = folder.path().join(name);
        let script =
            format!("trap 'echo term >{0}; exit 0' TERM; echo up >{0}.up; sleep 600 & wait", file.display());
        let id = kit.exec(&["--abort-grace", "10s"], &script);
        let up = file.with_extension("up");
        eventually("it runs", LIMIT, || if read(&up) == "up\n" { Ok(()) } else { Err("not yet") });
        (id, file)
    };
    let tasks: Vec<_> = ["a", "b"].into_iter().map(start).collect();
    let waiting = kit.exec(&[], "true");

    let stop = Arc::new(AtomicBool::new(false));
    let (until, mut connection) = (Arc::clone(&stop), kit.redis.connection());
    let cutting = std::thread::spawn(move || {
        let mut cuts = 0_u64;
        while !until.load(Ordering::Relaxed) {
            let kill = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").to_owned();
            cuts += kill.query::<u64>(&mut connection).expect("CLIENT KILL");
            let_time_pass("between two cuts", Duration::from_millis(50));
        }
        cuts
    });
    let_time_pass("the doorbell breaks", Duration::from_millis(200));
    for (id, file) in &tasks {
        let asked = Instant::now();
        let answer = kit.abort(id).await;
        assert!(matches!(answer, AbortAnswer::Requested { .. }), "{answer:?}");
        eventually("TERM has come", LIMIT, || if read(file) == "term\n" { Ok(()) } else { Err("not yet") });
        let took = asked.elapsed();
        eprintln!("TERM came {took:?} after the abort");
        assert!(took < 2 * BEAT, "TERM came {took:?} after the abort");
        kit.reaches(id, TaskState::Aborted).await;
    }
    kit.reaches(&waiting, TaskState::Completed).await;
    stop.store(true, Ordering::Relaxed);
    assert!(cutting.join().unwrap() > 0, "nothing was ever cut");
    kit.end([worker]).await;
}
