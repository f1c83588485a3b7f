//! Aborts, bounds and commands: one task is watched and stopped, and nothing of it is left.
//!
//! Real processes, real signals, a server each. Every test ends with a clean doctor and no leftover process.
//!
//! - [`kit`]: the server, workers, the command line, records
//! - `handlers`: what the handlers inside the test process do
//! - `before`: aborts of what does not run; `races`: aborts at the instant of the claim and of the finish
//! - `running`: aborts of commands; `doorbell`: without pub/sub; `dead`: of runs whose worker is gone
//! - `remains`: wherever processes of a command went; `completing`: work that ended before the abort came
//! - `bounds`: run timeouts and attempts, whatever the worker does
//! - `states`: every state as people see it; no reaper, no worker
//! - `starting`, `environment`, `output`: commands from their start to their exit code
//! - `sizes`: payloads and results at their limits; `refused`: bad input

pub(crate) mod kit;

mod before;
mod bounds;
mod completing;
mod dead;
mod doorbell;
mod environment;
mod handlers;
mod output;
mod races;
mod refused;
mod remains;
mod running;
mod sizes;
mod starting;
mod states;
