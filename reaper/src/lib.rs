//! The Leasehold reaper: what keeps every step that a machine owes within its bound, when nobody else does.
//!
//! It sweeps each queue at most a second apart (reclaims runs whose owner is dead, ends those past their hard end,
//! records stops that are due, promotes what is due), and cleans up what is kept no longer. All decisions lie in
//! the scripts of `leasehold-common`, which judge by the record as it stands: any number of reapers may run, alone
//! or inside workers, and two of them double nothing.
//!
//! - [`Reaper`]: `run` until told to stop, or `run_once`
//! - [`Config`]: what may be chosen
//! - [`Stats`]: what was done
//! - `discovery`: which queues there are, new ones within a quarter of a second
//! - `sweep`: the loop over due looks; `schedule`: which queue comes next (pure)
//! - `cleanup`: the loop over retention
//! - `trouble`: what goes wrong, said once in a while instead of a thousand times (pure)
//!
//! This crate holds no state that it cannot lose, reads no arguments and handles no signals.
//!
//! ```no_run
//! use leasehold_common::name::Namespace;
//! use leasehold_common::store::Store;
//! use leasehold_common::transport::ConnectOptions;
//! use leasehold_reaper::{Config, Reaper};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> leasehold_common::Result<()> {
//! let store = Store::open("redis://127.0.0.1:6379", Namespace::default(), ConnectOptions::default())?;
//! let reaper = Reaper::new(store, Config::default())?;
//! let stop = CancellationToken::new();
//! let stats = reaper.run(stop).await;
//! println!("{} runs reclaimed", stats.reclaimed);
//! # Ok(())
//! # }
//! ```

mod cleanup;
mod config;
mod discovery;
mod reaper;
mod schedule;
mod stats;
mod sweep;
mod trouble;

pub use config::Config;
pub use reaper::Reaper;
pub use stats::Stats;
