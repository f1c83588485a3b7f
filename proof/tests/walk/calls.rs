//! Which calls come next: mostly sensible ones, some stale, some of others' runs.

use leasehold_common::record::{FailureDetail, FailureKind, StopCause};
use leasehold_common::store::{Outcome, RetryAdvice, RetryMode};
use leasehold_proof::words::{Call, Oracle, Run, TaskNo, WorkerNo};
use leasehold_tests::queue::ms;
use proptest::prelude::*;
use proptest::sample::select;

use super::{Step, Walk};

/// Keys at which every script looks before it writes.
const SHARED: [&str; 2] = ["totals", "events"];

/// Any step.
pub fn any_of(walk: &Walk) -> BoxedStrategy<Step> {
    let calls = call(walk);
    prop_oneof![
        60 => calls.clone().prop_map(Step::Make),
        1 => (select(&SHARED[..]), calls.prop_filter_map("time is no script", spoilable))
            .prop_map(|(key, call)| Step::Spoilt(key, call)),
    ]
    .boxed()
}

/// Time is no script, a declaration reads little, and a call without items has nothing to refuse.
fn spoilable(call: Call) -> Option<Call> {
    (!matches!(call, Call::Pass { .. } | Call::DeclareDead { .. })).then_some(call)
}

fn call(walk: &Walk) -> BoxedStrategy<Call> {
    let mut kinds = vec![
        (12, enqueue(walk)),
        (20, claim(walk)),
        (16, time()),
        (22, Just(Call::Sweep).boxed()),
        (1, Just(Call::Cleanup).boxed()),
        (5, abort(walk)),
        (8, by_rev(walk)),
    ];
    if !walk.runs.is_empty() {
        kinds.extend([(18, finish(walk)), (10, beat(walk)), (12, tell(walk))]);
    }
    if walk.world.tasks.iter().any(|task| task.body.lane.is_some()) {
        kinds.push((3, limit(walk)));
    }
    if walk.claims.iter().sum::<u64>() > 20 {
        kinds.push((1, (0..walk.claims.len()).prop_map(|worker| Call::DeclareDead { worker }).boxed()));
    }
    proptest::strategy::Union::new_weighted(kinds).boxed()
}

fn task(walk: &Walk) -> std::ops::Range<TaskNo> {
    0..walk.world.tasks.len()
}

fn enqueue(walk: &Walk) -> BoxedStrategy<Call> {
    prop_oneof![
        9 => prop::collection::vec(task(walk), 1..4).prop_map(Call::Enqueue),
        1 => task(walk).prop_map(Call::EnqueueOther),
    ]
    .boxed()
}

fn claim(walk: &Walk) -> BoxedStrategy<Call> {
    let last = walk.claims.clone();
    // The next number mostly; the last one again; one before it.
    let number = prop_oneof![7 => Just(1_i64), 2 => Just(0), 1 => Just(-1)];
    let closing = prop::bool::weighted(0.01);
    (0..last.len(), number, 0..4_usize, closing)
        .prop_map(move |(worker, step, want, closing)| {
            let number = last[worker].saturating_add_signed(step).max(1);
            Call::Claim { worker, number, want, closing }
        })
        .boxed()
}

fn time() -> BoxedStrategy<Call> {
    let ms = prop_oneof![
        12 => Just(1000_u64),
        2 => 1..1000_u64,
        2 => 1000..4000_u64,
        1 => 4000..20_000_u64,
        1 => Just(61_000_u64),
    ];
    ms.prop_map(|ms| Call::Pass { ms }).boxed()
}

/// A run that is going on mostly, else any that there was; mostly by its own worker.
fn run(walk: &Walk) -> BoxedStrategy<(WorkerNo, Run)> {
    let seen = walk.model.seen();
    let owns = |(worker, run): &(WorkerNo, Run)| {
        let task = seen.tasks.get(&run.task);
        task.is_some_and(|task| task.owner == Some(*worker) && task.attempt == run.attempt)
    };
    let current: Vec<(WorkerNo, Run)> = walk.runs.iter().copied().filter(owns).collect();
    let last = walk.runs[walk.runs.len().saturating_sub(6)..].to_vec();
    let workers = walk.claims.len();
    let stale = (select(last), prop::option::weighted(0.1, 0..workers))
        .prop_map(|((worker, run), other)| (other.unwrap_or(worker), run));
    if current.is_empty() {
        return stale.boxed();
    }
    prop_oneof![6 => select(current), 1 => stale].boxed()
}

fn finish(walk: &Walk) -> BoxedStrategy<Call> {
    let ends = (run(walk), outcome(), any::<bool>());
    ends.prop_map(|((worker, run), outcome, before_stop)| Call::Finish { worker, run, outcome, before_stop })
        .boxed()
}

fn outcome() -> BoxedStrategy<Outcome> {
    let (message, detail) = (String::from("why"), FailureDetail::default());
    let advice = prop_oneof![
        3 => Just(RetryAdvice::Policy),
        1 => Just(RetryAdvice::Fatal),
        2 => (0..2500_u64).prop_map(|delay| RetryAdvice::After(ms(delay))),
    ];
    let failed = {
        let message = message.clone();
        (advice, select(&[FailureKind::Error, FailureKind::ExitCode, FailureKind::InvalidResult][..]))
            .prop_map(move |(retry, kind)| Outcome::Failed { kind, message: message.clone(), retry, detail })
    };
    let stopped = select(&StopCause::ALL[..]).prop_map(move |cause| Outcome::Stopped {
        cause,
        message: message.clone(),
        detail,
    });
    prop_oneof![
        4 => select(&[3_usize, 3000][..]).prop_map(|bytes| Outcome::Completed(vec![1; bytes])),
        4 => failed,
        2 => stopped,
        1 => (0..3000_u64).prop_map(|delay| Outcome::Snoozed(ms(delay))),
        1 => Just(Outcome::Released),
        1 => Just(Outcome::Unknown { name: "t".to_owned() }),
    ]
    .boxed()
}

fn beat(walk: &Walk) -> BoxedStrategy<Call> {
    (prop::collection::vec(run(walk), 1..3), prop::bool::weighted(0.2))
        .prop_map(|(runs, stopping)| {
            let worker = runs[0].0;
            Call::Beat { worker, runs: runs.into_iter().map(|(_, run)| run).collect(), stopping }
        })
        .boxed()
}

/// What a run tells: under the next number mostly, else under one that may have been there.
fn tell(walk: &Walk) -> BoxedStrategy<Call> {
    let next = walk.told + 1;
    let number = prop_oneof![4 => Just(next), 1 => next.saturating_sub(4)..=next];
    let phase = (select(&["one", "two"][..]), prop::option::of(500..4000_u64));
    (run(walk), number, 0..9_u8, phase, 0..3_u64)
        .prop_map(|((worker, run), number, kind, (name, timeout), charge)| match kind {
            0..=2 => Call::Phase { worker, run, number, name, timeout },
            3..=5 => Call::Spend { worker, run, number, charge },
            6 => Call::Checkpoint { worker, run, number },
            _ => Call::Unkillable { worker, run },
        })
        .boxed()
}

fn abort(walk: &Walk) -> BoxedStrategy<Call> {
    let grace = prop::option::of(0..3000_u64);
    (task(walk), 1..9_u32, grace, prop::bool::weighted(0.3))
        .prop_map(|(task, request, grace, abandon)| Call::Abort { task, request, grace, abandon })
        .boxed()
}

/// A person who saw an end, as it is mostly.
fn by_rev(walk: &Walk) -> BoxedStrategy<Call> {
    let seen = walk.model.seen();
    let modes = select(&[RetryMode::Keep, RetryMode::Keep, RetryMode::Fresh, RetryMode::Resume][..]);
    (task(walk), prop::option::weighted(0.1, 1..9_u64), modes, prop::bool::weighted(0.25))
        .prop_map(move |(task, back, mode, delete)| {
            let rev = seen.tasks.get(&task).map_or(1, |seen| seen.rev);
            let rev = rev.saturating_sub(back.unwrap_or(0));
            if delete { Call::Delete { task, rev } } else { Call::Retry { task, rev, mode } }
        })
        .boxed()
}

fn limit(walk: &Walk) -> BoxedStrategy<Call> {
    let in_lanes: Vec<TaskNo> = task(walk).filter(|no| walk.world.tasks[*no].body.lane.is_some()).collect();
    (select(in_lanes), 1..4_u32).prop_map(|(task, limit)| Call::Limit { task, limit }).boxed()
}
