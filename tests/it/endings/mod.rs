//! How runs end and what they say then: panics, secrets, cleanups, results.
//!
//! - `panics`: told with their place; `secrets`: shown nowhere; `cleanups`: on every way out
//! - `results`: what counts as one, and what a schema refuses

mod cleanups;
mod panics;
mod results;
mod secrets;
