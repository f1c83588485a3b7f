//! Everything at once, for as long as you like: real processes around a real Redis, work of all kinds, a nemesis that
//! kills, freezes, pauses and cuts by a seed, and a verdict that allows nothing.
//!
//! - `plan`: what is enqueued, drawn from the seed, with the ends that each task may come to
//! - `crew`: Redis, workers, reapers; `nemesis`: what is done to them
//! - `work`: who enqueues, aborts and looks on; `ledger`: what they were answered
//! - `runs`: what really ran, by the trail outside Redis; `verdict`: whether all of it agrees
//!
//! The seed draws the tasks, the faults and the aborts. How they meet is up to the machine: a seed that failed is run
//! again, it does not replay. `make soak SEED=7 MINUTES=30` runs long; without that a short one belongs to the tests.

mod crew;
mod ledger;
mod nemesis;
mod plan;
mod report;
mod runs;
mod verdict;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_common::name::Lane;
use leasehold_common::store::QueueSettings;
use leasehold_producer::Producer;
use leasehold_tests::{Effects, RedisServer, comes_true, let_time_pass, trail};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crew::Crew;
use ledger::Ledger;
use nemesis::Nemesis;
use plan::{Dice, Plan, Queue, THREE};
use report::Report;
use work::{Desk, queue_name};

/// What is left when nothing breaks any more is done within this time.
const DRAIN: Duration = Duration::from_secs(90);

/// How long, how much, from which seed.
struct Soak {
    seed: u64,
    rage: Duration,
    lease: Duration,
    /// Tasks alive at a time.
    live: usize,
}

impl Soak {
    /// The one that was asked for by `make soak`, or the short one.
    fn asked_for() -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<f64>().ok());
        let seed = number("LEASEHOLD_SOAK_SEED").map_or(11, |seed| seed as u64);
        match number("LEASEHOLD_SOAK_MINUTES") {
            Some(minutes) => {
                let rage = Duration::from_secs_f64(minutes * 60.0);
                Self { seed, rage, lease: Duration::from_secs(2), live: 60 }
            }
            None => Self { seed, rage: Duration::from_secs(13), lease: Duration::from_secs(1), live: 40 },
        }
    }

    fn run(&self) -> Report {
        let runtime = Runtime::new().expect("a runtime");
        let redis = RedisServer::start();
        let (producer, file) = (runtime.block_on(self.prepare(&redis)), Effects::new());
        let mark = ("LH_SOAK_MARK".to_owned(), uuid::Uuid::new_v4().simple().to_string());
        let path = file.path().display().to_string();
        // Hands write from within, and know the trail by their own environment; they have no mark: they stay to the end.
        let mut crew = Crew::new(redis, vec![(trail::FILE.to_owned(), path.clone())]);
        crew.revive();
        let desk = Desk {
            producer,
            redis: redis::Client::open(crew.redis.url()).expect("our own URL is valid"),
            ledger: Arc::new(Ledger::default()),
            trail: path,
            mark: mark.clone(),
            stop: CancellationToken::new(),
        };
        let seen_all = CancellationToken::new();
        let (plan, lots) = (Plan::new(self.seed, self.lease), Dice::of(self.seed ^ 0xab0));
        let asking: [JoinHandle<()>; 2] =
            [runtime.spawn(desk.clone().feed(plan, self.live)), runtime.spawn(desk.clone().abort(lots))];
        let looking = runtime.spawn(desk.clone().look_on(seen_all.clone()));
        let nemesis = Nemesis::new(Dice::of(self.seed ^ 0xbad), self.lease);
        let deeds = nemesis.rage(&mut crew, Instant::now() + self.rage);

        desk.stop.cancel();
        for task in asking {
            runtime.block_on(task).expect("it asks without a panic");
        }
        let drained = Instant::now();
        comes_true(DRAIN, || desk.ledger.live() == 0);
        let drain = drained.elapsed();
        seen_all.cancel();
        runtime.block_on(looking).expect("it looks without a panic");
        // What would still change an ended task: a lease, a suspicion, two sweeps.
        let_time_pass("whether anything still changes", self.lease * 2);
        crew.look_for_deserters();
        let mut doctor = runtime.block_on(report::examine(desk.producer.store()));
        let left = crew.dismiss(&mark.1);
        doctor.extend(runtime.block_on(report::examine(desk.producer.store())));
        let evidence = runtime.block_on(report::gather(&desk, &crew.redis));
        let report = Report::new(self.seed, drain, deeds, &evidence)
            .with("processes left", left)
            .with("findings of the doctor", doctor)
            .with("complaints about processes", crew.complaints.take())
            .with("complaints about answers", desk.ledger.complaints());
        if !report.is_clean() {
            report::keep(self.seed, &desk, &evidence);
        }
        report
    }

    async fn prepare(&self, redis: &RedisServer) -> Producer {
        let settings = QueueSettings { lease: self.lease, ..QueueSettings::default() };
        let producer = Producer::builder(&redis.url()).queue_settings(settings).connect().await;
        let producer = producer.expect("a producer");
        for queue in Queue::ALL {
            let (name, lane) = (queue_name(queue), Lane::new(THREE).expect("a lane's text"));
            producer.store().register(&name).await.expect("register the queue");
            producer.store().set_lane_limit(&name, &lane, 3).await.expect("set the limit");
        }
        producer
    }
}

#[test]
fn heavy_soak_short_or_long_loses_stalls_doubles_and_changes_nothing() {
    let report = Soak::asked_for().run();
    println!("{report}");
    assert!(report.is_clean(), "the verdict of seed {} is not clean: see above", report.seed);
}
