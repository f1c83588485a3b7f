//! Logs on stderr, as text or as JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Of commands that print results of their own.
    Command,
    /// Of processes that go on.
    Service,
}

/// Sets logging up, once. `verbose` counts `-v`.
pub(crate) fn start(format: LogFormat, detail: Detail, verbose: u8, quiet: bool) {
    let level = match (detail, verbose, quiet) {
        (Detail::Service, 0, true) => "warn",
        (Detail::Service, 0, false) => "info",
        (Detail::Command, 0, _) => "off",
        (_, 1, _) => {
            "info,leasehold=debug,leasehold_common=debug,leasehold_producer=debug,leasehold_worker=debug,leasehold_reaper=debug"
        }
        _ => "trace",
    };
    let builder =
        tracing_subscriber::fmt().with_env_filter(EnvFilter::new(level)).with_writer(std::io::stderr);
    // A second call changes nothing: the first one holds.
    let _ = match format {
        LogFormat::Json => builder.json().try_init(),
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
}
