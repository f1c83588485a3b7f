//! A command that runs: its end, and the handles that freeze, thaw, end and kill it.

use super::exit::Exit;
use super::launch::OutputSink;
use super::pump::Pump;
use crate::guard::procs::Target;
use crate::guard::signals::Hunt;
use crate::guard::{Guard, RunKey, signals};
use nix::sys::signal::Signal;
use std::collections::HashSet;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Output that still comes after the command's exit (from a child that holds its pipe open):
/// read until nothing came for this long ..
const QUIET: Duration = Duration::from_millis(200);
/// .. and at most this long.
const DRAIN_AT_MOST: Duration = Duration::from_secs(2);

/// After so long, what is still alive counts as unkillable and is told.
const KILL_ROUND: Duration = Duration::from_secs(5);

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// The command runs.
    Running,
    /// The command has exited; rest of its output and leftovers are being dealt with.
    Exited(Exit),
    /// All output was passed on and nothing of the run is alive.
    Over(Exit),
}

/// What a run's handles and its thread share.
#[derive(Debug)]
pub(super) struct Run {
    target: Target,
    key: RunKey,
    guard: Guard,
    /// Set before the main process is reaped: from then on its number may be anybody's.
    over: Mutex<bool>,
    survivors: Mutex<Vec<i32>>,
    /// Pid and start of what belonged to the run when it was asked to end: parents die of that, and then nothing
    /// may show any more whose their children were.
    known: Mutex<HashSet<(i32, u64)>>,
    state: watch::Sender<RunState>,
}

impl Run {
    pub(super) fn new(target: Target, key: RunKey, guard: Guard) -> Self {
        let state = watch::Sender::new(RunState::Running);
        let (over, survivors, known) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { target, key, guard, over, survivors, known, state }
    }

    /// Sees the run through to its end, on the run's own thread.
    pub(super) fn supervise(&self, mut child: Child, sink: &OutputSink) {
        let mut pump = Pump::new(&mut child, sink);
        let exit = pump.until_exit(self.target.leader);
        self.state.send_replace(RunState::Exited(exit.clone()));
        pump.drain(QUIET, DRAIN_AT_MOST);
        let mut hunt = self.hunt();
        loop {
            let alive = hunt.kill(KILL_ROUND);
            if alive.is_empty() {
                break;
            }
            tracing::warn!(?alive, "processes of an ended command do not die");
            self.set_survivors(alive);
        }
        self.set_survivors(Vec::new());
        pump.drain(Duration::ZERO, QUIET);
        {
            let mut over = lock(&self.over);
            *over = true;
            let _ = child.wait();
        }
        self.guard.forget(self.key);
        self.state.send_replace(RunState::Over(exit));
    }

    fn hunt(&self) -> Hunt {
        Hunt::new(vec![self.target.clone()]).knowing(&lock(&self.known))
    }

    fn set_survivors(&self, pids: Vec<i32>) {
        *lock(&self.survivors) = pids;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Controls a run from any thread; no async runtime is needed. Cheap to clone. Does nothing
/// once the run is over.
#[derive(Debug, Clone)]
pub struct RunControl(pub(super) Arc<Run>);

impl RunControl {
    /// The guard's name for the run, for [`Guard::renew`].
    #[must_use]
    pub fn key(&self) -> RunKey {
        self.0.key
    }

    /// The command's process id, which is also its process group and session.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.0.target.leader
    }

    /// Where the run stands.
    #[must_use]
    pub fn state(&self) -> RunState {
        self.0.state.borrow().clone()
    }

    /// Stops everything of the run (SIGSTOP). Answers the pids not seen standing still within
    /// half a second; their stop is pending.
    pub fn freeze(&self) -> Vec<i32> {
        freeze_all(std::slice::from_ref(self))
    }

    /// Continues everything of the run (SIGCONT). Renew its lease with the guard first, else
    /// that stops it again.
    pub fn thaw(&self) {
        self.living(|target| signals::resume(std::slice::from_ref(target)));
    }

    /// Asks the command to end: SIGTERM to its process group. A frozen one gets it when thawed.
    pub fn terminate(&self) {
        self.living(|target| {
            let members = self.0.hunt().members();
            lock(&self.0.known).extend(members);
            signals::signal_group(target, Signal::SIGTERM);
        });
    }

    /// Kills everything of the run (SIGKILL), frozen or not, again until nothing is left or the
    /// time is over. Answers the pids that are still alive. With no time it kills once and
    /// answers what has not died yet.
    pub fn kill(&self, within: Duration) -> Vec<i32> {
        let deadline = Instant::now() + within;
        let mut hunt = self.0.hunt();
        loop {
            // In short turns, so that the run's own thread can end it in between.
            let left = deadline.saturating_duration_since(Instant::now());
            let turn = left.min(Duration::from_millis(100));
            let alive = self.living(|_| hunt.kill(turn)).unwrap_or_default();
            if alive.is_empty() || left.is_zero() {
                if !within.is_zero() {
                    self.0.set_survivors(alive.clone());
                }
                return alive;
            }
        }
    }

    /// Pids that outlived the last [`kill`](Self::kill), or the command by 5 s though killed.
    #[must_use]
    pub fn survivors(&self) -> Vec<i32> {
        lock(&self.0.survivors).clone()
    }

    /// Pids of the run that are alive now.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        self.living(|target| signals::living(std::slice::from_ref(target))).unwrap_or_default()
    }

    /// Runs `act` unless the run is over, and keeps it from being over meanwhile.
    fn living<R>(&self, act: impl FnOnce(&Target) -> R) -> Option<R> {
        let over = lock(&self.0.over);
        (!*over).then(|| act(&self.0.target))
    }
}

/// Freezes many runs with one look at the processes of the machine.
pub fn freeze_all(runs: &[RunControl]) -> Vec<i32> {
    // Each lock once, and always in the same order.
    let mut runs: Vec<&RunControl> = runs.iter().collect();
    runs.sort_by_key(|run| Arc::as_ptr(&run.0));
    runs.dedup_by_key(|run| Arc::as_ptr(&run.0));
    let guards: Vec<MutexGuard<'_, bool>> = runs.iter().map(|run| lock(&run.0.over)).collect();
    let targets: Vec<Target> =
        runs.iter().zip(&guards).filter(|(_, over)| !***over).map(|(run, _)| run.0.target.clone()).collect();
    if targets.is_empty() { Vec::new() } else { signals::stop(&targets) }
}

/// A command that was started. Dropping it kills everything of the run.
#[derive(Debug)]
pub struct RunningCommand {
    control: RunControl,
    state: watch::Receiver<RunState>,
}

impl RunningCommand {
    pub(super) fn new(control: RunControl) -> Self {
        let state = control.0.state.subscribe();
        Self { control, state }
    }

    /// A handle for other threads.
    #[must_use]
    pub fn control(&self) -> RunControl {
        self.control.clone()
    }

    /// Waits until the command has exited. Output may still come. Cancel-safe.
    pub async fn exited(&mut self) -> Exit {
        self.reach(|state| match state {
            RunState::Running => None,
            RunState::Exited(exit) | RunState::Over(exit) => Some(exit.clone()),
        })
        .await
    }

    /// Waits until the run is over: the command has exited, its output was passed on, nothing
    /// of it is alive. Cancel-safe.
    pub async fn wait(&mut self) -> Exit {
        self.reach(|state| match state {
            RunState::Running | RunState::Exited(_) => None,
            RunState::Over(exit) => Some(exit.clone()),
        })
        .await
    }

    /// [`RunControl::terminate`].
    pub fn terminate(&self) {
        self.control.terminate();
    }

    /// [`RunControl::kill`] for up to 5 s, without blocking the runtime: the pids that are still
    /// alive then.
    pub async fn kill(&self) -> Vec<i32> {
        let control = self.control();
        tokio::task::spawn_blocking(move || control.kill(KILL_ROUND)).await.unwrap_or_default()
    }

    async fn reach(&mut self, end: impl Fn(&RunState) -> Option<Exit>) -> Exit {
        loop {
            if let Some(exit) = end(&self.state.borrow_and_update()) {
                return exit;
            }
            // The sender lives in `control`, so this cannot fail.
            if self.state.changed().await.is_err() {
                return Exit::unknown();
            }
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if !matches!(self.control.state(), RunState::Over(_)) {
            self.control.kill(Duration::ZERO);
        }
    }
}
