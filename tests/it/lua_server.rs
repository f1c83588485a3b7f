//! Moods of the server: full, freshly restarted, its scripts flushed.

use leasehold_common::Error;
use leasehold_common::script;
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    AbortAnswer, AbortRequest, BeatAnswer, ClaimAnswer, FinishAnswer, LogPiece, OutputStream, Progress,
    QueueSettings, RetryAdvice, UpdateAnswer, When,
};
use leasehold_tests::RedisServer;
use leasehold_tests::queue::{B, Hand, Queue, T, done, failed, id, ms, task, task_with};

fn fill(queue: &Queue) {
    queue.redis::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    assert!(queue.server.used_memory() > 1 << 20, "over its limit");
}

#[tokio::test]
async fn case_16_a_full_redis_drains_and_takes_nothing_new() {
    let queue = Queue::start().await;
    let (a, dead) = (Hand::new("a"), Hand::new("dead"));
    queue.sweep_for(T + 1000).await;
    queue.running(&dead, task("lost")).await;
    queue.seed(&["fin", "err", "abo", "old"]).await;
    let runs = queue.claim(&a, 4).await;
    queue.finish(&a, failed(&runs[3], RetryAdvice::Fatal)).await;
    for _ in 0..3 {
        queue.sweep_for(B).await;
        for run in &runs[..3] {
            queue.beat(&a, run).await;
        }
    }
    queue.sweep_for(B - 1000).await;
    queue.seed(&["q", "abq"]).await;
    queue.enqueue(&[task_with("s", |t| t.when = When::After(ms(1000)))]).await;
    queue.advance(1000);
    fill(&queue);

    // Refused whole.
    let before = queue.digest();
    let full = |what: &str, outcome: Result<(), Error>| {
        assert!(matches!(outcome, Err(Error::StorageFull { .. })), "{what}: {outcome:?}");
        assert_eq!(queue.digest(), before, "{what} left something behind");
    };
    let new = [task("q"), task("new"), task_with("late", |t| t.when = When::After(ms(1)))];
    full("enqueue", queue.store.enqueue(&queue.name, &new).await.map(drop));
    full("enqueue later", queue.store.enqueue(&queue.name, &new[2..]).await.map(drop));
    let rev = queue.record("old").await.rev;
    full("retry", queue.store.retry(&queue.name, &[(id("old"), rev)]).await.map(drop));
    let run = &runs[0];
    let piece = LogPiece {
        id: id("fin"),
        run: run.run.clone(),
        offset: 0,
        stream: OutputStream::Out,
        text: vec![b'x'],
    };
    full("log", queue.store.append_log(&queue.name, &a.inc, &[piece]).await.map(drop));

    // All else goes on.
    assert_eq!(queue.beat(&a, run).await, BeatAnswer::Ok);
    let (id_, run_) = (id("fin"), run.run.clone());
    let progress = Progress { id: id_, run: run_, number: 1, share: Some(0.5), message: "half".to_owned() };
    assert_eq!(queue.store.progress(&queue.name, &a.inc, &[progress]).await.unwrap(), [UpdateAnswer::Ok]);
    let requests = ["abo", "abq"].map(|name| AbortRequest::new(id(name), "me", "why"));
    let answers = queue.store.abort(&queue.name, &requests).await.unwrap();
    assert!(matches!(answers[0], AbortAnswer::Requested { .. }), "{answers:?}");
    assert_eq!(answers[1], AbortAnswer::Ended(TaskState::Aborted));
    let swept = queue.sweep().await;
    assert_eq!((swept.reclaimed, swept.promoted), (1, 1));
    let started: Vec<String> = queue.claim(&a, 9).await.iter().map(|t| t.id.to_string()).collect();
    assert_eq!(started, ["lost", "q", "s"]);
    assert_eq!(queue.finish(&a, done(run)).await, FinishAnswer::Accepted(TaskState::Completed));
    queue.finish(&a, failed(&runs[1], RetryAdvice::Policy)).await;
    assert!(!queue.state("err").await.unwrap().is_terminal(), "waits for its next attempt");
    let rev = queue.record("old").await.rev;
    queue.store.delete(&queue.name, &[(id("old"), rev)]).await.unwrap();
    queue.store.cleanup(&queue.name, 100).await.unwrap();

    queue.redis::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    queue.seed(&["new"]).await;
    queue.check().await;
}

#[tokio::test]
async fn case_09_every_script_loads_and_is_known_by_its_hash() {
    let queue = Queue::start().await;
    for script in script::ALL {
        let sha: String = queue.redis(&["SCRIPT", "LOAD", script.source()]);
        assert_eq!(sha, script.sha(), "{}", script.name);
    }
}

/// Each script once through the store, its answer a proper one.
async fn all_calls(queue: &Queue, hand: &Hand, round: u32) {
    queue.store.register(&queue.name).await.unwrap();
    let name = format!("t{round}");
    let run = queue.running(hand, task(&name)).await;
    assert_eq!(queue.beat(hand, &run).await, BeatAnswer::Ok);
    let progress =
        Progress { id: id(&name), run: run.run.clone(), number: 1, share: None, message: "x".into() };
    queue.store.progress(&queue.name, &hand.inc, &[progress]).await.unwrap();
    queue.finish(hand, failed(&run, RetryAdvice::Fatal)).await;
    let rev = queue.record(&name).await.rev;
    queue.store.retry(&queue.name, &[(id(&name), rev)]).await.unwrap();
    queue.store.abort(&queue.name, &[AbortRequest::new(id(&name), "me", "why")]).await.unwrap();
    let rev = queue.record(&name).await.rev;
    queue.store.delete(&queue.name, &[(id(&name), rev)]).await.unwrap();
    queue.sweep().await;
    queue.store.cleanup(&queue.name, 10).await.unwrap();
    queue.check().await;
}

#[tokio::test]
async fn case_09_flushed_scripts_are_loaded_again_by_each_call() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    all_calls(&queue, &hand, 0).await;
    queue.redis::<()>(&["SCRIPT", "FLUSH"]);
    all_calls(&queue, &hand, 1).await;
}

#[tokio::test]
async fn r96_scripts_are_loaded_again_after_a_restart() {
    let mut queue = Queue::on(RedisServer::builder().aof_always(), QueueSettings::default()).await;
    let hand = Hand::new("w");
    all_calls(&queue, &hand, 0).await;
    queue.server.restart();
    queue.reconnect();
    // The connection that broke is replaced by the first call that notices.
    queue.store.register(&queue.name).await.ok();
    all_calls(&queue, &hand, 1).await;
}

/// Finish and claim in one round trip, with any of the two unknown to Redis.
#[tokio::test]
async fn case_09_a_pipeline_with_some_scripts_flushed_does_each_call_once() {
    for known in [&[][..], &[&script::FINISH], &[&script::CLAIM], &[&script::FINISH, &script::CLAIM]] {
        let queue = Queue::start().await;
        let hand = Hand::new("w");
        let run = queue.running(&hand, task("a")).await;
        queue.seed(&["b", "c"]).await;
        queue.redis::<()>(&["SCRIPT", "FLUSH"]);
        for script in known {
            queue.redis::<()>(&["SCRIPT", "LOAD", script.source()]);
        }
        let request = hand.next(1);
        let (finished, claimed) =
            queue.store.finish_and_claim(&queue.name, &hand.inc, &[done(&run)], &request).await;
        assert_eq!(finished.unwrap(), [FinishAnswer::Accepted(TaskState::Completed)]);
        let ClaimAnswer::Claimed(claimed) = claimed.unwrap() else { panic!("not answered with tasks") };
        assert_eq!(claimed.tasks.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!((queue.total("completed"), queue.total("started")), (1, 2));
        queue.check().await;
    }
}
