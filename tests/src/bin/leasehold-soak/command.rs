//! A command of the soak.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use leasehold_tests::trail::{Deed, Play, Trail, work};
use tokio::signal::unix::{SignalKind, signal};

/// What a failed command ends with.
const FAILED: u8 = 3;

pub(crate) fn run(play: &str) -> ExitCode {
    let play: Play = serde_json::from_str(play).expect("a play");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(act(play))
}

async fn act(play: Play) -> ExitCode {
    let (trail, attempt) = trail(play.lane.as_deref());
    trail.note("start");
    for deed in play.deeds {
        match deed {
            // Whoever listens to TERM and does nothing is not ended by it.
            Deed::Deaf => drop(signal(SignalKind::terminate()).expect("listen to TERM")),
            Deed::Child => start_child(play.lane.as_deref()),
            Deed::Work(ms) => work(&trail, Duration::from_millis(ms)).await,
            Deed::FailFirst(most) if attempt > most => {}
            Deed::FailFirst(_) | Deed::Fail => {
                trail.note("fail");
                return ExitCode::from(FAILED);
            }
            Deed::Phase(..) | Deed::Spend(_) => panic!("a command has no {deed:?}"),
        }
    }
    println!("done");
    trail.note("end");
    ExitCode::SUCCESS
}

/// In a session of its own, so that it outlives its parent unless somebody takes care.
#[expect(clippy::zombie_processes, reason = "nobody waits for it: that is its point")]
fn start_child(lane: Option<&str>) {
    let this = std::env::current_exe().expect("the path of this program");
    let mut child = Command::new("setsid");
    child.arg(this).args(["child", lane.unwrap_or("-")]).process_group(0);
    child.spawn().expect("start a child");
}

pub(crate) fn child(lane: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (trail, _) = trail(Some(lane).filter(|lane| *lane != "-"));
    runtime.block_on(work(&trail, Duration::from_secs(3600)));
    ExitCode::SUCCESS
}

fn trail(lane: Option<&str>) -> (Trail, u64) {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("a command has {name}"));
    let attempt = variable("LEASEHOLD_ATTEMPT").parse().expect("the number of the attempt");
    (Trail::of(&variable("LEASEHOLD_TASK_ID"), attempt, lane), attempt)
}
