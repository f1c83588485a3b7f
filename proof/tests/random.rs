//! Random calls in random order, hundreds of them, repeats and stale ones among them, on the real scripts and on the
//! model: each answer is the model's, and so is all that can be seen after it. A walk that fails is shrunk to the calls
//! that matter.
//!
//! `LEASEHOLD_SEED` walks again what a failure has printed; `LEASEHOLD_WALKS` says how many walks, 24 without.

mod walk;

use proptest::test_runner::{Config, RngSeed, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};

use walk::{Against, Walk};

/// The calls of one walk, at most.
const CALLS: usize = 250;
/// The seed of the short version.
const SEED: u64 = 20_261_201;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} = {text:?} is no number")))
}

#[test]
fn random_walks_of_the_scripts_are_walks_of_the_model() {
    let seed = number("LEASEHOLD_SEED").unwrap_or(SEED);
    let walks = number("LEASEHOLD_WALKS").unwrap_or(24);
    let config = Config {
        cases: u32::try_from(walks).expect("not so many walks"),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config.clone());
    let walked = runner.run(&Walk::sequential_strategy(CALLS / 2..CALLS), |(start, calls, seen)| {
        Against::test_sequential(config.clone(), start, calls, seen);
        Ok(())
    });
    if let Err(failure) = walked {
        panic!("LEASEHOLD_SEED={seed} LEASEHOLD_WALKS={walks}: {failure}");
    }
}
