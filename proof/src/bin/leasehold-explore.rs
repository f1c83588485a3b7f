//! Explores the worlds, and tells what was found. Exits with 1 on a breach.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use leasehold_proof::explore::{Limits, Plan, Report, no_model, search, test_code, with_model, worlds};

/// Takes every step from every state of small worlds, on the real scripts.
#[derive(Parser)]
struct Options {
    /// Only these worlds
    #[arg(long, value_name = "NAME")]
    world: Vec<String>,
    /// The longest path; without it each world has its own
    #[arg(long)]
    depth: Option<usize>,
    /// The most pairs of state and action in a world
    #[arg(long, default_value_t = 120_000)]
    pairs: usize,
    /// How many servers at a time, each with a thread; 0 = as many as there are cores
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// The longest time, all worlds together
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Judge by the keys alone, without the model
    #[arg(long)]
    no_model: bool,
    /// List the worlds
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let plans: Vec<Plan> = worlds::all()
        .into_iter()
        .filter(|plan| options.world.is_empty() || options.world.iter().any(|name| name == plan.world.name))
        .collect();
    if options.list || plans.is_empty() {
        plans.iter().for_each(|plan| println!("{:10} {}", plan.world.name, plan.about));
        return ExitCode::from(u8::from(plans.is_empty()));
    }
    let jobs = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        jobs => jobs,
    };
    let end = Instant::now() + Duration::from_secs(60 * options.minutes);
    let mut reports = Vec::new();
    println!("{}", heading());
    for (at, plan) in plans.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        let share = u32::try_from(plans.len() - at).expect("few worlds");
        let limits = Limits { depth: options.depth, pairs: options.pairs, jobs, time: left / share };
        let report = search(plan.clone(), limits, if options.no_model { no_model } else { with_model });
        println!("{}", row(&report));
        reports.push(report);
    }
    println!("{}", total(&reports));
    let broken: Vec<&Report> = reports.iter().filter(|report| report.breach.is_some()).collect();
    broken.iter().for_each(|report| tell(report));
    ExitCode::from(u8::from(!broken.is_empty()))
}

fn heading() -> String {
    format!(
        "{:10} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>6} {:>8} {:>7}",
        "world", "states", "pairs", "depth", "ends", "drained", "replayed", "twins", "seconds", "breach"
    )
}

fn row(r: &Report) -> String {
    let depth = format!("{}{}", r.depth, if r.whole { "=" } else { "" });
    let breach = if r.breach.is_some() { "YES" } else { "none" };
    let seconds = r.time.as_secs_f64();
    format!(
        "{:10} {:>9} {:>9} {depth:>6} {:>9} {:>9} {:>9} {:>6} {seconds:>8.1} {breach:>7}",
        r.world, r.states, r.pairs, r.ends, r.drained, r.replayed, r.twins
    )
}

fn total(reports: &[Report]) -> String {
    let sum = |of: fn(&Report) -> usize| reports.iter().map(of).sum::<usize>();
    let seconds: f64 = reports.iter().map(|report| report.time.as_secs_f64()).sum();
    let breaches = reports.iter().filter(|report| report.breach.is_some()).count();
    format!(
        "{:10} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>6} {seconds:>8.1} {breaches:>7}",
        "total",
        sum(|r| r.states),
        sum(|r| r.pairs),
        "",
        sum(|r| r.ends),
        sum(|r| r.drained),
        sum(|r| r.replayed),
        sum(|r| r.twins)
    )
}

fn tell(report: &Report) {
    let Some(breach) = &report.breach else { return };
    println!("\nA breach in the world {}, after {} steps:", report.world, breach.steps.len());
    breach.problems.iter().for_each(|problem| println!("  {problem}"));
    println!("\nAs a test for proof/tests/explored.rs:\n\n{}", test_code(report.world, &breach.steps));
}
