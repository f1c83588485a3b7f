//! The worker's end of the guard: what is to be watched, renewals, the guard's health.

use super::clock::BootInstant;
use super::procs::Target;
use super::wire::Order;
use super::{initialised, keeper};
use std::collections::HashMap;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long [`Guard::start`] waits for the process to be there.
const START_WITHIN: Duration = Duration::from_secs(10);

/// Why commands cannot be guarded, and hence not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// [`init`](super::init) was not called.
    #[error(
        "commands cannot be run: this binary does not call `leasehold_worker::guard::init()` first in `main`"
    )]
    NotInitialised,
    /// The process or its thread could not be started.
    #[error("cannot start the guard process")]
    Start(#[source] std::io::Error),
    /// The guard was down for the whole time that was allowed.
    #[error("the guard process is down; no command starts until it is back")]
    Down,
}

/// A run as the guard knows it; of this process only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey(u64);

/// Whether the guard is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardStatus {
    /// It watches over all runs.
    Up {
        /// Its process id.
        pid: u32,
    },
    /// It is gone and is being started again. Meanwhile no command starts; the worker stops
    /// its commands when this has lasted for a lease.
    Down {
        /// Since when.
        since: BootInstant,
    },
}

/// The worker's handle on its guard process. Cheap to clone; the process ends with the last.
#[derive(Debug, Clone)]
pub struct Guard {
    shared: Arc<Shared>,
    _owner: Arc<Owner>,
}

/// Ends the guard process when the last handle goes.
#[derive(Debug)]
struct Owner(Arc<Shared>);

/// What handles and the keeping thread share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    status: watch::Sender<GuardStatus>,
    next: AtomicU64,
}

/// The runs, and the way to the guard.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Where orders are written to; none while the guard is down or does not read.
    pub(super) link: Option<UnixStream>,
    runs: HashMap<u64, Watched>,
    /// The last handle is gone.
    pub(super) closing: bool,
    /// Why the last start failed.
    pub(super) failure: Option<std::io::Error>,
}

#[derive(Debug)]
struct Watched {
    target: Target,
    until: BootInstant,
    noted: bool,
}

impl Guard {
    /// Starts the guard process and waits until it is there (10 s at most). Blocks.
    ///
    /// # Errors
    /// When `init` was not called or the process cannot be started.
    pub fn start() -> Result<Self, GuardError> {
        if !initialised() {
            return Err(GuardError::NotInitialised);
        }
        let down = GuardStatus::Down { since: BootInstant::now() };
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            status: watch::Sender::new(down),
            next: AtomicU64::new(1),
        });
        let guard = Self { _owner: Arc::new(Owner(Arc::clone(&shared))), shared: Arc::clone(&shared) };
        std::thread::Builder::new()
            .name("leasehold-guard".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || keeper::keep(&shared))
            .map_err(GuardError::Start)?;
        let deadline = Instant::now() + START_WITHIN;
        let mut state = guard.shared.lock();
        while !guard.is_up() {
            if let Some(error) = state.failure.take() {
                return Err(GuardError::Start(error));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(GuardError::Down);
            }
            state = guard.shared.wait(state, left);
        }
        drop(state);
        Ok(guard)
    }

    /// Whether the guard watches over all runs now.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(*self.shared.status.borrow(), GuardStatus::Up { .. })
    }

    /// The status and its changes. When it is `Down` for longer than a lease, stop the commands.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<GuardStatus> {
        self.shared.status.subscribe()
    }

    /// Tells the guard that leases were renewed: each run may go on until the instant given,
    /// which is lease + the moment *before* the answered heartbeat was sent. Continues what the
    /// guard had stopped. An instant not later than the last is ignored. Never blocks for long.
    pub fn renew(&self, leases: &[(RunKey, BootInstant)]) {
        let mut state = self.shared.lock();
        let mut lines = String::new();
        for (RunKey(run), until) in leases {
            if let Some(watched) = state.runs.get_mut(run)
                && *until > watched.until
            {
                watched.until = *until;
                lines.push_str(&Order::Renew { run: *run, until: *until }.line());
            }
        }
        state.say(&lines);
    }

    /// Has a run watched over, and waits until the guard has said so.
    pub(crate) fn watch(
        &self,
        target: Target,
        until: BootInstant,
        within: Duration,
    ) -> Result<RunKey, GuardError> {
        let run = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let deadline = Instant::now() + within;
        let mut state = self.shared.lock();
        let order = Order::Watch { run, target: target.clone(), until, again: false };
        state.runs.insert(run, Watched { target, until, noted: false });
        state.say(&order.line());
        loop {
            if state.link.is_some() && state.runs.get(&run).is_some_and(|watched| watched.noted) {
                return Ok(RunKey(run));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.runs.remove(&run);
                state.say(&Order::Forget { run }.line());
                return Err(GuardError::Down);
            }
            state = self.shared.wait(state, left);
        }
    }

    /// The run is over and nothing of it is left.
    pub(crate) fn forget(&self, RunKey(run): RunKey) {
        let mut state = self.shared.lock();
        if state.runs.remove(&run).is_some() {
            state.say(&Order::Forget { run }.line());
        }
    }
}

impl State {
    /// Writes to the guard. One that does not read is as good as none: the keeper ends it.
    fn say(&mut self, lines: &str) {
        if !lines.is_empty()
            && let Some(link) = &mut self.link
            && link.write_all(lines.as_bytes()).is_err()
        {
            self.link = None;
        }
    }

    /// Tells a new guard everything there is to watch, and asks it to say when it has read it.
    pub(super) fn introduce(&mut self, link: UnixStream) {
        self.link = Some(link);
        let mut lines = String::new();
        for (run, watched) in &mut self.runs {
            watched.noted = false;
            let target = watched.target.clone();
            lines.push_str(&Order::Watch { run: *run, target, until: watched.until, again: true }.line());
        }
        self.say(&lines);
        self.ping();
    }

    pub(super) fn ping(&mut self) {
        self.say(&Order::Ping.line());
    }

    pub(super) fn noted(&mut self, run: u64) {
        if let Some(watched) = self.runs.get_mut(&run) {
            watched.noted = true;
        }
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn announce(&self, status: GuardStatus) {
        // Under the lock, so that nobody between looking and waiting misses it.
        let _state = self.lock();
        self.status.send_replace(status);
        self.changed.notify_all();
    }

    pub(super) fn tell_waiting(&self) {
        self.changed.notify_all();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closing = true;
        if let Some(link) = state.link.take() {
            let _ = link.shutdown(Shutdown::Both);
        }
        self.0.changed.notify_all();
    }
}
