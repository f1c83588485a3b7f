//! The processes of the soak that are not `leasehold` itself: a worker with handlers, and the commands.
//!
//! A program of its own, since a worker that allows commands has `guard::init()` first in its `main`.

mod command;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_worker::guard::init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["worker", name] => worker::run(name),
        ["command", play] => command::run(play),
        ["child", lane] => command::child(lane),
        _ => panic!("worker NAME, command PLAY or child LANE, not {words:?}"),
    }
}
