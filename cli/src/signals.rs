//! The signals that ask a process to end.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::output::Output;

/// SIGINT (Ctrl-C) and SIGTERM, listened to from here on.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        // cancel-safe: a signal that is not taken is kept by its listener.
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Comes with the next such signal. Where the system refuses to tell, it never comes, and the signal ends the
/// process as it always did.
pub(crate) async fn asked_to_stop() {
    match Signals::listen() {
        Ok(mut signals) => signals.next().await,
        Err(_) => std::future::pending().await,
    }
}

/// The two stages of an end.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// The first signal: finish what runs, then end.
    pub(crate) orderly: CancellationToken,
    /// The second: end at once.
    pub(crate) at_once: CancellationToken,
}

impl Stop {
    /// Listens from here on, and says on stderr what the first signal began.
    pub(crate) fn listen(output: Output) -> Result<Self> {
        let mut signals =
            Signals::listen().map_err(|error| Failure::io("cannot listen to signals", &error))?;
        let stop = Self { orderly: CancellationToken::new(), at_once: CancellationToken::new() };
        let heard = stop.clone();
        tokio::spawn(async move {
            signals.next().await;
            output.note("stopping: what runs may finish; once more (Ctrl-C) ends it at once");
            heard.orderly.cancel();
            signals.next().await;
            output.note("stopping at once");
            heard.at_once.cancel();
            signals.next().await;
            // Whoever asks a third time wants the process gone; its guard ends the commands, a reaper the runs.
            std::process::exit(Exit::Aborted.code().into());
        });
        Ok(stop)
    }
}
