//! Random calls in random order, repeats and stale ones among them: the invariants hold at every step, and in the
//! end nothing is stuck.

use leasehold_common::bounds::Deadline;
use leasehold_common::name::{Lane, TaskId};
use leasehold_common::policy::{OnLeaseExpired, Priority};
use leasehold_common::record::{FailureDetail, FailureKind, StopCause};
use leasehold_common::state::TaskState;
use leasehold_common::store::{
    AbortRequest, Beat, BeatAnswer, ClaimAnswer, ClaimRequest, ClaimedTask, Enqueued, Finish, FinishAnswer,
    LogPiece, NewTask, Outcome, OutputStream, Progress, QueueSettings, RetryAdvice, RetryAnswer, RetryMode,
    When,
};
use leasehold_tests::queue::{B, Hand, Queue, START, T, budgets, done, id, lane, ms, owner, task_with};

/// A small generator, so that a seed says all.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }

    fn pick<'a, V>(&mut self, from: &'a [V]) -> Option<&'a V> {
        let sides = u64::try_from(from.len()).ok().filter(|n| *n > 0)?;
        from.get(usize::try_from(self.roll(sides)).ok()?)
    }
}

/// One of three lanes.
fn some_lane(n: u64) -> Lane {
    lane(["x", "y", "z"][(n % 3) as usize])
}

/// What the clients believe, and what they have been told.
struct Walk {
    queue: Queue,
    dice: Dice,
    hands: Vec<Hand>,
    requests: Vec<(usize, ClaimRequest)>,
    runs: Vec<(usize, ClaimedTask)>,
    ends: Vec<(usize, Finish)>,
    aborts: Vec<AbortRequest>,
    revs: Vec<(TaskId, u64)>,
    told: Vec<String>,
    token: u64,
}

impl Walk {
    async fn new(seed: u64) -> Self {
        let settings = QueueSettings {
            retain_completed: ms(20_000),
            retain_aborted: ms(if seed.is_multiple_of(2) { 0 } else { 60_000 }),
            retain_failed: ms(120_000),
            ..QueueSettings::default()
        };
        Self {
            queue: Queue::with(settings).await,
            dice: Dice(seed),
            hands: ["a", "b", "c"].map(Hand::new).into(),
            requests: Vec::new(),
            runs: Vec::new(),
            ends: Vec::new(),
            aborts: Vec::new(),
            revs: Vec::new(),
            told: Vec::new(),
            token: 0,
        }
    }

    fn some_id(&mut self) -> TaskId {
        id(&format!("t{}", self.dice.roll(14)))
    }

    fn some_task(&mut self) -> NewTask {
        let name = self.some_id();
        // Made of the id alone, so that the same id mostly has the same content.
        let n = name.as_str()[1..].parse::<u32>().unwrap_or_default();
        let other = self.dice.one_in(10);
        let delay = ms(self.dice.roll(8000));
        let later = self.dice.one_in(3);
        task_with(name.as_str(), |t| {
            t.body.payload = vec![u8::from(other); if n.is_multiple_of(3) { 3000 } else { 10 }];
            t.body.priority = Priority::ALL[n as usize % 4];
            t.body.policy.max_attempts = 1 + n % 4;
            t.body.policy.max_reclaims = n % 3;
            t.body.policy.stop_grace = ms(2000);
            if n.is_multiple_of(4) {
                t.body.policy.run_timeout = Some(ms(9000));
            }
            if n.is_multiple_of(5) {
                t.body.policy.on_lease_expired = OnLeaseExpired::Fail;
            }
            if !n.is_multiple_of(3) {
                t.body.lane = Some(some_lane(u64::from(n)));
            }
            if n.is_multiple_of(2) {
                t.body.owner = Some(owner(if n.is_multiple_of(4) { "me" } else { "you" }));
                t.body.bounds.budgets = budgets(&[("calls", 12)]);
            }
            match n % 7 {
                0 => t.body.bounds.deadline = Some(Deadline::After(ms(25_000))),
                1 => t.body.bounds.deadline = Some(Deadline::At(START + 60_000)),
                2 => t.body.bounds.silence_notice = Some(ms(3000)),
                3 => t.body.bounds.stall_timeout = Some(ms(8000)),
                _ => {}
            }
            if later {
                t.when = When::After(delay);
            }
        })
    }

    fn some_outcome(&mut self) -> Outcome {
        let kind = FailureKind::Error;
        let (message, detail) = ("it broke".to_owned(), FailureDetail::default());
        match self.dice.roll(9) {
            0 | 1 => Outcome::Completed(vec![1; if self.dice.one_in(2) { 3000 } else { 3 }]),
            2 => Outcome::Failed { kind, message, retry: RetryAdvice::Policy, detail },
            3 => Outcome::Failed { kind, message, retry: RetryAdvice::Fatal, detail },
            4 => Outcome::Failed { kind, message, retry: RetryAdvice::After(ms(500)), detail },
            5 => Outcome::Stopped { cause: StopCause::RunTimeout, message, detail },
            6 => Outcome::Snoozed(ms(self.dice.roll(3000))),
            7 => Outcome::Released,
            _ => Outcome::Unknown { name: "t".to_owned() },
        }
    }

    /// Any run that there ever was, mostly one of the last.
    fn some_run(&mut self) -> Option<(usize, ClaimedTask)> {
        let last = if self.dice.one_in(4) { self.runs.len() } else { 6 };
        let first = self.runs.len().saturating_sub(last);
        self.dice.pick(&self.runs[first..]).cloned()
    }

    async fn step(&mut self) {
        match self.dice.roll(16) {
            14 => self.tell().await,
            15 => self.limit().await,
            0 | 1 => self.enqueue().await,
            2..=4 => self.claim().await,
            5 | 6 => self.finish().await,
            7 => self.beat().await,
            8 => self.abort().await,
            9 => self.update().await,
            10 => self.by_rev().await,
            11 => self.break_something(),
            _ => self.time_passes().await,
        }
    }

    async fn enqueue(&mut self) {
        let tasks: Vec<NewTask> = (0..=self.dice.roll(3)).map(|_| self.some_task()).collect();
        let answers = self.queue.store.enqueue(&self.queue.name, &tasks).await.unwrap();
        assert!(!answers.contains(&Enqueued::Corrupt));
        self.told.push(format!("enqueue {:?} {answers:?}", tasks.iter().map(|t| &t.id).collect::<Vec<_>>()));
    }

    async fn claim(&mut self) {
        let want = usize::try_from(self.dice.roll(4)).unwrap();
        let by = usize::try_from(self.dice.roll(3)).unwrap();
        let repeat = self.dice.one_in(4);
        let (by, mut request) = match self.dice.pick(&self.requests).cloned() {
            Some(old) if repeat => old,
            _ => (by, self.hands[by].next(want)),
        };
        request.woken = self.dice.one_in(3);
        let answer = self.queue.store.claim(&self.queue.name, &request).await.unwrap();
        self.requests.push((by, request));
        self.told.push(format!("claim by {by} {answer:?}"));
        let ClaimAnswer::Claimed(claimed) = answer else { return };
        for run in claimed.tasks {
            let known = self.runs.iter().any(|(_, r)| r.run == run.run && r.id == run.id);
            if !known {
                assert!(run.token > self.token, "tokens grow");
                self.token = run.token;
                self.runs.push((by, run));
            }
        }
    }

    async fn finish(&mut self) {
        let again = self.dice.one_in(4);
        let old = self.dice.pick(&self.ends).cloned();
        let outcome = self.some_outcome();
        let (by, finish) = match (old, self.some_run()) {
            (Some(old), _) if again => old,
            (_, Some((by, run))) => {
                (by, Finish { id: run.id.clone(), run: run.run.clone(), outcome, before_stop: false })
            }
            _ => return,
        };
        let twice = [finish.clone(), finish.clone()];
        let hand = &self.hands[by];
        let answers = self.queue.store.finish(&self.queue.name, &hand.inc, &twice).await.unwrap();
        let fine = match answers[0] {
            FinishAnswer::Accepted(state) => {
                matches!(answers[1], FinishAnswer::Repeated(s) if s == state)
                    || answers[1] == FinishAnswer::Gone
            }
            other => answers[1] == other,
        };
        assert!(fine, "{answers:?}");
        self.told.push(format!("finish {finish:?} {answers:?}"));
        self.ends.push((by, finish));
    }

    async fn beat(&mut self) {
        let by = usize::try_from(self.dice.roll(3)).unwrap();
        let mine: Vec<Beat> = self
            .runs
            .iter()
            .filter(|(owner, _)| *owner == by)
            .map(|(_, run)| Beat { id: run.id.clone(), run: run.run.clone(), stopping: false })
            .collect();
        let inc = &self.hands[by].inc;
        let answers = self.queue.store.heartbeat(&self.queue.name, inc, &mine).await.unwrap().answers;
        for (beat, answer) in mine.iter().zip(&answers) {
            let record = self.queue.store.record(&self.queue.name, &beat.id).await.unwrap();
            let owned = record
                .is_some_and(|r| r.incarnation.as_ref() == Some(inc) && r.run.as_ref() == Some(&beat.run));
            let told = matches!(answer, BeatAnswer::Ok | BeatAnswer::Stop { .. });
            assert_eq!(told, owned, "{beat:?} was told {answer:?}");
        }
        self.told.push(format!("beat by {by} {answers:?}"));
    }

    async fn abort(&mut self) {
        let fresh = AbortRequest {
            grace: Some(ms(self.dice.roll(3000))),
            abandon: self.dice.one_in(3),
            ..AbortRequest::new(self.some_id(), "me", "")
        };
        let repeat = self.dice.one_in(3);
        let request = match self.dice.pick(&self.aborts) {
            Some(old) if repeat => old.clone(),
            _ => fresh,
        };
        let answer =
            self.queue.store.abort(&self.queue.name, &[request.clone(), request.clone()]).await.unwrap();
        self.told.push(format!("abort {} {answer:?}", request.id));
        self.aborts.push(request);
    }

    async fn update(&mut self) {
        let number = self.dice.roll(50);
        let Some((by, run)) = self.some_run() else { return };
        let (inc, name) = (&self.hands[by].inc, &self.queue.name);
        let (id, run) = (run.id.clone(), run.run.clone());
        let message = "m".repeat(usize::try_from(number % 3).unwrap());
        let item = Progress { id: id.clone(), run: run.clone(), number, share: Some(0.5), message };
        self.queue.store.progress(name, inc, &[item]).await.unwrap();
        let piece =
            LogPiece { id, run, offset: number * 10, stream: OutputStream::Out, text: vec![b'x'; 10] };
        self.queue.store.append_log(name, inc, &[piece]).await.unwrap();
    }

    /// What few runs tell, twice: the second time changes nothing.
    async fn tell(&mut self) {
        let (number, what, charge) = (self.dice.roll(50), self.dice.roll(5), self.dice.roll(4));
        let Some((by, run)) = self.some_run() else { return };
        let (queue, hand) = (&self.queue, &self.hands[by]);
        let say = async || match what {
            0 => format!("{:?}", queue.phase(hand, &run, number, "p", Some(4000)).await),
            1 => format!("{:?}", queue.phase(hand, &run, number, "q", None).await),
            2 => format!("{:?}", queue.leave_checkpoint(hand, &run, number, b"half").await),
            3 => format!("{:?}", queue.unkillable(hand, &run).await),
            _ => format!("{:?}", queue.spend(hand, &run, number, "calls", &[charge, 1]).await),
        };
        let first = say().await;
        let before = queue.digest();
        assert_eq!(say().await, first, "{what} of {} by {by}", run.id);
        assert_eq!(queue.digest(), before, "{what} of {} by {by}", run.id);
        self.told.push(format!("told {what} {number} of {} by {by}: {first}", run.id));
    }

    async fn limit(&mut self) {
        let (lane, limit) = (some_lane(self.dice.roll(3)), self.dice.roll(3) as u32 + 1);
        self.queue.limit_lane_of(&lane, limit).await;
        self.told.push(format!("limit of {lane} {limit}"));
    }

    async fn by_rev(&mut self) {
        let name = self.some_id();
        if let Some(record) = self.queue.store.record(&self.queue.name, &name).await.unwrap() {
            self.revs.push((name, record.rev));
        }
        let Some(seen) = self.dice.pick(&self.revs).cloned() else { return };
        if self.dice.one_in(2) {
            let mode = [RetryMode::Keep, RetryMode::Fresh, RetryMode::Resume][self.dice.roll(3) as usize];
            let twice = [seen.clone(), seen.clone()];
            let answers = self.queue.store.retry_with(&self.queue.name, &twice, mode).await.unwrap();
            assert!(!answers.contains(&RetryAnswer::Corrupt) && answers[0] == answers[1], "{answers:?}");
            self.told.push(format!("retry {seen:?} {answers:?}"));
        } else {
            let answers =
                self.queue.store.delete(&self.queue.name, std::slice::from_ref(&seen)).await.unwrap();
            self.told.push(format!("delete {seen:?} {answers:?}"));
        }
    }

    fn break_something(&mut self) {
        let name = self.some_id();
        let key = match self.dice.roll(3) {
            0 => "watch".to_owned(),
            1 => "wake".to_owned(),
            _ => format!("lease:{name}"),
        };
        self.queue.redis::<()>(&["DEL", &self.queue.key(&key)]);
        self.told.push(format!("DEL {key}"));
    }

    async fn time_passes(&mut self) {
        match self.dice.roll(8) {
            0 => self.queue.advance(T * 2),
            1 => drop(self.queue.sweep_for(T + B).await),
            _ => drop(self.queue.sweep_for(self.dice.roll(3000)).await),
        }
        let swept = self.queue.sweep().await;
        let cleaned = self.queue.store.cleanup(&self.queue.name, 3).await.unwrap();
        self.told.push(format!("{} {swept:?} {cleaned:?}", self.queue.now()));
    }

    /// One good worker and a reaper: everything ends.
    async fn drain(&mut self) {
        let hand = Hand::new("last");
        for _ in 0..200 {
            self.queue.sweep_for(1000).await;
            for run in self.queue.claim(&hand, 8).await {
                self.queue.finish(&hand, done(&run)).await;
            }
        }
        for state in TaskState::ALL.into_iter().filter(|s| !s.is_terminal()) {
            let page = self.queue.store.list(&self.queue.name, state, None, 100).await.unwrap();
            assert!(page.tasks.is_empty(), "stuck in {state}: {:?}", page.tasks);
        }
    }
}

async fn walk(seed: u64, steps: usize) {
    let mut walk = Walk::new(seed).await;
    for step in 0..steps {
        walk.step().await;
        let found = leasehold_tests::queue::breaches(&walk.queue).await;
        let story = || walk.told[walk.told.len().saturating_sub(25)..].join("\n  ");
        assert!(found.is_empty(), "seed {seed}, step {step}: {found:#?}\nafter\n  {}", story());
    }
    walk.drain().await;
    let total = |name: &str| walk.queue.total(name);
    println!(
        "seed {seed}: started {} reclaimed {} gone {}",
        total("started"),
        total("reclaimed"),
        total("gone")
    );
    walk.queue.check().await;
}

#[tokio::test]
async fn case_20_a_random_walk_breaks_no_invariant_and_ends() {
    let steps = leasehold_tests::scale::loops(3000);
    let chosen = std::env::var("LEASEHOLD_SEED").ok().and_then(|s| s.parse().ok());
    let seeds = chosen.map_or_else(|| vec![1, 2, 3, uuid::Uuid::new_v4().as_u64_pair().0], |seed| vec![seed]);
    for seed in seeds {
        println!("seed {seed}: LEASEHOLD_SEED={seed} runs this walk alone");
        walk(seed, steps).await;
    }
}
