//! The signals that ask a process to end.

use tokio::signal::unix::{SignalKind, signal};

/// Comes when SIGINT (Ctrl-C) or SIGTERM does. Where the system refuses to tell, it never comes, and the signal
/// ends the process as it always did.
pub(crate) async fn asked_to_stop() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    // cancel-safe: a signal that is not taken here is seen by the next listener or none.
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
