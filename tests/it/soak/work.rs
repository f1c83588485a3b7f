//! The three that go on all the time: who enqueues, who aborts, who looks for ends.

use std::sync::Arc;
use std::time::Duration;

use leasehold_producer::{
    AbortRequest, Enqueue, ExecPayload, Lane, Payload, Producer, QueueName, RawOutput, RawTask, Spec, TaskId,
    TaskName,
};
use leasehold_tests::queue::{EventEntry, moves};
use leasehold_tests::trail::{FILE, HANDLER, Play, now_ns};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::ledger::{Abort, Ledger};
use super::plan::{Dice, Plan, Planned, Queue};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(150);
/// Most entries of an event stream in one answer.
const EVENTS: usize = 500;
/// Most tasks of one look: a batch of a script would do, and no call gets long.
const PAGE: usize = 64;

/// What all three share.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) producer: Producer,
    /// For the event streams, which no library reads.
    pub(super) redis: redis::Client,
    pub(super) ledger: Arc<Ledger>,
    /// The trail's path.
    pub(super) trail: String,
    /// A variable that only processes of this soak have.
    pub(super) mark: (String, String),
    pub(super) stop: CancellationToken,
}

pub(super) fn queue_name(queue: Queue) -> QueueName {
    QueueName::new(queue.name()).expect("a queue's name")
}

pub(super) fn task_id(id: &str) -> TaskId {
    TaskId::new(id).expect("a task's id")
}

impl Desk {
    /// Enqueues one after another, each until it is accepted, and keeps `most` tasks alive.
    pub(super) async fn feed(self, mut plan: Plan, most: usize) {
        let mut pace = interval(Duration::from_millis(15));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.stop.is_cancelled() {
            pace.tick().await;
            if self.ledger.live() < most {
                self.enqueue(plan.next()).await;
            }
        }
    }

    /// An enqueue whose outcome nobody knows is repeated under its id until it is known.
    async fn enqueue(&self, planned: Planned) {
        loop {
            match self.prepare(&planned).await {
                Ok(_) => return self.ledger.accepted(planned),
                Err(error) if error.is_retryable() || error.outcome_unknown() => {}
                Err(error) => return self.ledger.complain(format!("enqueue of {}: {error}", planned.id)),
            }
        }
    }

    fn prepare(&self, planned: &Planned) -> Enqueue<RawOutput> {
        let play = Play { lane: planned.lane.clone(), deeds: planned.deeds.clone() };
        let queue = queue_name(planned.queue);
        let task = if planned.handler {
            let payload = leasehold_common::task::encode("payload", &play).expect("a play can be encoded");
            let name = TaskName::new(HANDLER).expect("a task's name");
            self.producer.enqueue_raw(RawTask::new(queue, name, Payload::MessagePack(payload)))
        } else {
            let play = serde_json::to_string(&play).expect("a play can be written");
            let argv = vec![env!("CARGO_BIN_EXE_leasehold-soak").to_owned(), "command".to_owned(), play];
            let env = [(FILE.to_owned(), self.trail.clone()), self.mark.clone()].into();
            self.producer.exec(queue, ExecPayload { argv, env, ..ExecPayload::default() })
        };
        let spec = Spec {
            policy: planned.policy,
            priority: planned.priority,
            bounds: planned.bounds.clone(),
            ..Spec::default()
        };
        let mut task = task.id(planned.id.as_str()).spec(spec);
        if let Some(lane) = &planned.lane {
            task = task.lane(Lane::new(lane.clone()).expect("a lane's text"));
        }
        if let Some(delay) = planned.delay {
            task = task.delay(delay);
        }
        task
    }

    /// Aborts tasks in whatever state they are; each request is repeated until it is answered.
    pub(super) async fn abort(self, mut dice: Dice) {
        while !self.stop.is_cancelled() {
            let mut pause = interval(dice.ms(80, 500));
            pause.tick().await;
            pause.tick().await;
            // Mostly one of the last: the others have ended.
            let back = if dice.once_in(10) { dice.index(1000) } else { dice.index(50) };
            let chosen = {
                let book = self.ledger.book();
                let at = book.entries.len().checked_sub(1 + back);
                at.map(|at| (at, book.entries[at].planned.queue, book.entries[at].planned.id.clone()))
            };
            let Some((at, queue, id)) = chosen else { continue };
            let request = AbortRequest::new(task_id(&id), "soak", "chosen by lot");
            let answer = loop {
                match self.producer.abort_many(&queue_name(queue), std::slice::from_ref(&request)).await {
                    Ok(answers) => break answers[0],
                    Err(error) if error.is_retryable() || error.outcome_unknown() => {}
                    Err(error) => panic!("abort of {id}: {error}"),
                }
            };
            self.ledger.book().entries[at].aborts.push(Abort { answer, answered_at: now_ns() });
        }
    }

    /// Looks for ends, and reads what the events tell, until told otherwise: streams are cut at their length.
    pub(super) async fn look_on(self, until: CancellationToken) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !until.is_cancelled() {
            looks.tick().await;
            for queue in Queue::ALL {
                for page in self.ledger.open(queue).chunks(PAGE) {
                    let ids: Vec<TaskId> = page.iter().map(|id| task_id(id)).collect();
                    let records = self.producer.records(&queue_name(queue), &ids).await;
                    // Redis is away: the next look tells.
                    let records = records.unwrap_or_default();
                    records.iter().flatten().flatten().for_each(|record| self.ledger.seen(record));
                }
                self.read_events(queue).await.ok();
            }
        }
    }

    /// Reads what an event stream tells anew.
    pub(super) async fn read_events(&self, queue: Queue) -> redis::RedisResult<()> {
        let key = self.producer.store().keys(&queue_name(queue)).events();
        let mut connection = self.redis.get_multiplexed_async_connection().await?;
        loop {
            let last = self.ledger.told().entry(queue).or_default().last.clone();
            let from = last.map_or_else(|| "-".to_owned(), |id| format!("({id}"));
            let mut range = redis::cmd("XRANGE");
            range.arg(&key).arg(from).arg("+").arg("COUNT").arg(EVENTS);
            let entries: Vec<EventEntry> = range.query_async(&mut connection).await?;
            let Some((last, _)) = entries.last() else { return Ok(()) };
            let mut told = self.ledger.told();
            let told = told.entry(queue).or_default();
            told.last = Some(last.clone());
            told.moves.extend(entries.iter().map(moves));
        }
    }
}
