//! What a worker costs: commands to Redis and memory while idle, memory under a flood of output.

mod flood;
mod idle;
