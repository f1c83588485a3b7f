//! Aborts at the instant of the claim and of the finish: each answer is true, and stays true.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use leasehold_producer::{
    AbortAnswer, AbortRequest, Policy, Producer, StopCause, TaskId, TaskRecord, TaskState,
};
use leasehold_tests::eventually_async;
use leasehold_tests::scale::loops;

use super::handlers::{Act, Seen, for_a_blink};
use super::kit::{Kit, LIMIT, quick};

/// A sequence that looks random and is the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

async fn abort_by(producer: &Producer, kit: &Kit, id: &TaskId) -> AbortAnswer {
    let request = AbortRequest::new(id.clone(), "race", "");
    producer.store().abort(&kit.queue, &[request]).await.unwrap()[0]
}

/// Waits until every task has ended; the records then.
async fn all_ended(kit: &Kit, ids: &[TaskId]) -> BTreeMap<TaskId, TaskRecord> {
    let records = eventually_async("every task has ended", LIMIT, async || {
        let found = kit.store().records(&kit.queue, ids).await.unwrap();
        let found: Vec<TaskRecord> =
            found.into_iter().map(|record| record.expect("kept").expect("it reads")).collect();
        let live: Vec<_> =
            found.iter().filter(|r| !r.state.is_terminal()).map(|r| (&r.id, r.state)).collect();
        if live.is_empty() { Ok(()) } else { Err(format!("{live:?}")) }.map(|()| found)
    })
    .await;
    records.into_iter().map(|record| (record.id.clone(), record)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn case_17_an_abort_in_the_instant_of_the_claim_has_one_answer_and_one_end() {
    let kit = Kit::new().await;
    let seen = Seen::default();
    let hands = kit.hands(4, |worker| seen.handler(worker)).await;
    let count = loops(1000);
    let (mut before, mut running) = (0, 0);
    let mut dice = Dice(17);
    for i in 0..count {
        let name = format!("t{i}");
        let id = TaskId::new(name.as_str()).unwrap();
        // An idle worker claims in the instant of the enqueue: only an abort that comes with it can be earlier.
        let answer = if dice.below(2) == 0 {
            let (_, answer) = futures::join!(kit.enqueue(&name, &Act::Obey(20_000), quick()), kit.abort(&id));
            answer
        } else {
            kit.enqueue(&name, &Act::Obey(20_000), quick()).await;
            for_a_blink(dice.below(600)).await;
            kit.abort(&id).await
        };
        let answer = if answer == AbortAnswer::NotFound { kit.abort(&id).await } else { answer };
        let record = kit.reaches(&id, TaskState::Aborted).await;
        let begun = seen.of(id.as_str()).begun;
        match answer {
            AbortAnswer::Ended(TaskState::Aborted) => {
                before += 1;
                assert_eq!((begun, record.attempt), (0, 0), "{id} was aborted before it started, yet ran");
            }
            AbortAnswer::Requested { .. } => {
                running += 1;
                assert_eq!(record.attempt, 1, "{id}");
                assert!(begun <= 1, "{id} began {begun} times");
            }
            other => panic!("{id}: {other:?}"),
        }
        assert_eq!(kit.abort(&id).await, AbortAnswer::Already(TaskState::Aborted));
    }
    eprintln!("of {count}: {before} aborted before their claim, {running} after it");
    assert!(before > 0 && running > 0, "the instant was never met: {before} before, {running} after");
    hands.stop().await;
    for i in 0..count {
        assert!(seen.of(&format!("t{i}")).begun <= 1, "t{i} was started again");
    }
    kit.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_20_r08_each_abort_of_a_task_about_to_finish_agrees_with_its_end() {
    let kit = Kit::new().await;
    let seen = Seen::default();
    let hands = kit.hands(8, |worker| seen.handler(worker)).await;
    // Two API servers, each with connections of its own.
    let servers: Vec<Producer> =
        [Producer::connect(&kit.redis.url()).await.unwrap(), kit.producer.clone()].into();
    let count = loops(2000);
    let mut dice = Dice(20);
    let plans: Vec<(usize, Act, u64)> = (0..count)
        .map(|i| {
            let ms = 5 + dice.below(11);
            let act = if dice.below(2) == 0 { Act::Finish(ms) } else { Act::Obey(ms) };
            (i, act, dice.below(25_000))
        })
        .collect();
    let (kit, servers) = (Arc::new(kit), Arc::new(servers));
    let one = async |(i, act, micros): (usize, Act, u64)| {
        let id = kit.enqueue(&format!("t{i}"), &act, Policy { max_attempts: 3, ..quick() }).await;
        for_a_blink(micros).await;
        (id.clone(), abort_by(&servers[i % 2], &kit, &id).await)
    };
    let answers: Vec<(TaskId, AbortAnswer)> =
        stream::iter(plans).map(one).buffer_unordered(8).collect().await;

    let ids: Vec<TaskId> = answers.iter().map(|(id, _)| id.clone()).collect();
    let ends = all_ended(&kit, &ids).await;
    let mut tally: BTreeMap<(String, TaskState), usize> = BTreeMap::new();
    for (id, answer) in &answers {
        let (end, begun) = (&ends[id], seen.of(id.as_str()).begun);
        let stopped_by = end.stop.as_ref().map(|stop| stop.cause);
        let name = match *answer {
            AbortAnswer::Ended(state) => {
                assert_eq!((state, end.state, begun), (TaskState::Aborted, TaskState::Aborted, 0), "{id}");
                "ended"
            }
            AbortAnswer::Already(state) => {
                assert_eq!((end.state, end.stop.is_some()), (state, false), "{id}");
                "already"
            }
            AbortAnswer::Requested { .. } => {
                assert!(matches!(end.state, TaskState::Aborted | TaskState::Completed), "{id}: {end:?}");
                assert_eq!(stopped_by, Some(StopCause::Abort), "{id}: the request is on record");
                "requested"
            }
            other => panic!("{id}: {other:?}"),
        };
        assert!(end.attempt <= 1 && begun <= 1, "{id} ran more than once: {end:?}");
        *tally.entry((name.to_owned(), end.state)).or_default() += 1;
    }
    eprintln!("{tally:?}");
    assert!(
        tally.keys().any(|(name, _)| name == "requested") && tally.keys().any(|(name, _)| name == "already")
    );
    hands.stop().await;
    assert_eq!(all_ended(&kit, &ids).await, ends, "an end changed afterwards");
    let Ok(kit) = Arc::try_unwrap(kit) else { panic!("the kit is still in use") };
    kit.end([]).await;
}
