//! The life of tasks as workers and people see it: phases, budgets, checkpoints, bounds, lanes.

mod bounds;
mod budgets;
mod checkpoints;
mod lanes;
mod phases;
mod play;
mod restarts;
