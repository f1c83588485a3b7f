//! Commands, their trampoline and their guard, with real processes.
//!
//! A harness of its own, since `main` must begin with `guard::init()`: this binary plays worker,
//! guard, trampoline and (as `host`) a worker that is killed or stopped.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod bounds;
mod ends;
mod guards;
mod host;
mod reach;
mod starts;
mod support;

use leasehold_worker::guard;
use libtest_mimic::{Arguments, Trial};

macro_rules! trials {
    ($($module:ident: $($test:ident)+;)+) => {
        vec![$($(Trial::test(concat!(stringify!($module), "::", stringify!($test)), || {
            $module::$test();
            Ok(())
        }),)+)+]
    };
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    if mode == "host-without-init" {
        return host::without_init();
    }
    guard::init();
    if mode == "host" {
        return host::main();
    }
    let trials = trials! {
        starts: missing_program wrong_cwd not_executable missing_interpreter no_program_at_all
            too_long nul_and_names busy_file lease_over given_up policy without_init resources child_environment
            signals_and_descriptors;
        ends: codes_and_signals standard_input output_is_passed_on term_then_kill
            dropping_kills dropped_start_leaves_nothing control_without_a_runtime;
        reach: grandchildren_are_killed a_storm_of_processes leftovers_of_an_ended_command freeze_and_thaw
            term_waits_for_the_thaw kill_reaches_the_frozen nested_runs_are_found;
        bounds: flood_stays_flat pipe_held_open guard_is_small many_short_runs;
        guards: killed_worker stopped_worker killed_guard killed_guard_of_a_stopped_worker single_run_lapses
            stuck_guard_is_replaced orphaned_trampoline last_handle_ends_it;
    };
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
