//! `Producer::recording()`: a service is tested without a Redis.

use std::time::Duration;

use leasehold_producer::{
    Bound, Enqueued, Error, ExecPayload, Origin, Policy, Producer, QueueName, Spec, Task, TaskState, When,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl Task for Greet {
    const NAME: &'static str = "greet";
    type Output = String;
}

#[derive(Serialize, Deserialize)]
struct Agent;

impl Task for Agent {
    const NAME: &'static str = "agent";
    type Output = ();

    fn spec() -> Spec {
        Spec { policy: Policy { max_attempts: 2, max_reclaims: 1, ..Policy::default() }, ..Spec::default() }
    }
}

fn greet(name: &str) -> Greet {
    Greet { name: name.to_owned() }
}

#[tokio::test]
async fn a_recording_producer_keeps_what_it_accepts_with_all_that_was_asked() {
    let (producer, recording) = Producer::recording();
    let first = producer.enqueue(greet("ada")).queue("mail").lane("ada").budget("calls", 3).await.unwrap();
    producer.enqueue(greet("bob")).delay(Duration::from_secs(60)).await.unwrap();
    let queue = QueueName::new("shell").unwrap();
    producer.exec(queue, ExecPayload { argv: vec!["true".into()], ..ExecPayload::default() }).await.unwrap();
    assert_eq!(recording.of::<Greet>().unwrap(), [greet("ada"), greet("bob")]);
    let tasks = recording.tasks();
    assert_eq!((tasks.len(), tasks[0].queue.as_str(), &tasks[0].id), (3, "mail", first.id()));
    assert_eq!(tasks[0].body.bounds.budgets.values().copied().collect::<Vec<_>>(), [3]);
    assert_eq!(tasks[1].when, When::After(Duration::from_secs(60)));
    assert_eq!(tasks[2].body.name.as_str(), "exec");
    recording.clear();
    assert!(recording.tasks().is_empty());
}

#[tokio::test]
async fn r01_a_bound_is_the_callers_before_it_is_the_types_and_else_a_default() {
    let (producer, recording) = Producer::recording();
    let command = ExecPayload { argv: vec!["true".into()], ..ExecPayload::default() };
    producer.enqueue(Agent).max_attempts(3).deadline(Duration::from_secs(9)).await.unwrap();
    producer.exec("shell", command).await.unwrap();
    let tasks = recording.tasks();
    let bounds = [Bound::MaxAttempts, Bound::MaxReclaims, Bound::Deadline, Bound::RunTimeout];
    let origins = |n: usize| bounds.map(|bound| tasks[n].body.origins.of(bound));
    assert_eq!(origins(0), [Origin::Caller, Origin::TaskType, Origin::Caller, Origin::Default]);
    assert_eq!(origins(1), [Origin::Default; 4], "one attempt is the default of commands");
}

#[tokio::test]
async fn r97_a_recording_producer_refuses_what_the_real_one_refuses() {
    let (producer, recording) = Producer::recording();
    let refused = producer.enqueue(greet("ada")).lane("").await.unwrap_err();
    assert!(matches!(&refused, Error::Invalid { field: "lane", .. }), "{refused}");
    let refused = producer.enqueue(greet("ada")).max_attempts(0).await.unwrap_err();
    assert!(refused.to_string().contains("max_attempts"), "{refused}");
    assert!(recording.tasks().is_empty());
}

#[tokio::test]
async fn case_42_a_recording_producer_knows_an_id_again() {
    let (producer, recording) = Producer::recording();
    for _ in 0..2 {
        producer.enqueue(greet("ada")).id("once").await.unwrap();
    }
    let conflict = producer.enqueue(greet("bob")).id("once").await.unwrap_err();
    assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
    assert_eq!(recording.of::<Greet>().unwrap(), [greet("ada")]);
}

#[tokio::test]
async fn r80_a_recording_producer_answers_as_redis_does() {
    let redis = leasehold_tests::RedisServer::start();
    let real = Producer::connect(&redis.url()).await.unwrap();
    let (recorder, _) = Producer::recording();
    let mut answers = [Vec::new(), Vec::new()];
    for (producer, answers) in [&real, &recorder].into_iter().zip(&mut answers) {
        for (name, lane, when) in [
            ("first", Some("l"), When::Now),
            ("second", Some("l"), When::Now),
            ("other", Some("m"), When::Now),
            ("past", None, When::At(1000)),
            ("later", Some("n"), When::After(Duration::from_secs(60))),
            ("none later", Some("n"), When::Now),
            ("second", Some("l"), When::Now),
        ] {
            let mut enqueue = producer.enqueue(greet(name)).id(name);
            if let Some(lane) = lane {
                enqueue = enqueue.lane(lane);
            }
            enqueue = match when {
                When::Now => enqueue,
                When::After(delay) => enqueue.delay(delay),
                When::At(ms) => enqueue.at(ms),
            };
            answers.push((name, enqueue.await.unwrap().enqueued().cloned().unwrap()));
        }
    }
    let [real, recorded] = answers;
    assert_eq!(recorded, real);
    let second = Enqueued::Created(TaskState::Waiting);
    assert_eq!((&recorded[1].1, &recorded[3].1), (&second, &Enqueued::Created(TaskState::Queued)));
}

#[tokio::test]
async fn a_recording_producer_says_what_it_cannot_do() {
    let (producer, _) = Producer::recording();
    let handle = producer.enqueue(greet("ada")).await.unwrap();
    let refused = handle.abort("").await.unwrap_err();
    assert!(refused.to_string().contains("a recording producer has no Redis"), "{refused}");
}
