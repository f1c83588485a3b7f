//! The integration tests, one binary.
//!
//! To add a subject, put `it/<subject>.rs` beside this file and name it here in alphabetical order. Tests are
//! named after what they prove; the row of the requirements (`r10_..`) or the case (`case_17_..`) that one
//! covers comes first in its name, so that `make rows` finds it. A test that needs the machine to itself has
//! `heavy_` in its name.

mod aborts;
mod cli_abort_where;
mod cli_bench;
mod cli_config;
mod cli_exec;
mod cli_explain;
mod cli_lanes;
mod cli_names;
mod cli_services;
mod cli_tasks;
mod cli_unreadable;
mod cli_usage;
mod crash;
mod demo;
mod demo_wedge;
mod doctor_lanes;
mod doctor_load;
mod doctor_lost;
mod doctor_records;
mod doctor_repair;
mod doctor_seeds;
mod endings;
mod fairness;
mod footprint;
mod harness;
mod hot_path;
mod life;
mod lua_abort;
mod lua_bounds;
mod lua_claim;
mod lua_dead;
mod lua_deadline;
mod lua_docs;
mod lua_fence;
mod lua_junk;
mod lua_keeping;
mod lua_lane;
mod lua_late_stop;
mod lua_owner;
mod lua_records;
mod lua_repeat;
mod lua_server;
mod lua_sweep;
mod lua_tags;
mod lua_told;
mod lua_walk;
mod producer_enqueue;
mod producer_faults;
mod producer_kit;
mod producer_look;
mod producer_recording;
mod producer_wait;
mod reaper_kit;
mod reaper_outages;
mod reaper_sweeps;
mod repo_rules;
mod soak;
mod worker_basics;
mod worker_names;
