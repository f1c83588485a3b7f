//! The one binary of Leasehold: what there is to do by hand, and the processes that do it by themselves.
//!
//! - [`args`]: the command line; `config`: settings and where they come from
//! - [`commands`]: one file per command; `context`: what each starts from
//! - [`output`], [`view`], [`follow`]: the only places that print, and what things look like
//! - [`error`], [`exit`]: why a command fails, and with which code
//! - [`private_redis`]: the Redis of `dev`

mod args;
mod commands;
mod config;
mod context;
mod error;
mod exit;
mod follow;
mod health;
mod logging;
mod output;
mod private_redis;
mod signals;
mod view;

use std::process::ExitCode;

use args::{Cli, Command};
use context::Context;
use error::{Failure, Result};
use exit::Exit;
use output::Output;

/// Set to 1, the arguments are checked and nothing else is done: for tests of documented command lines.
const CHECK_ARGS: &str = "LEASEHOLD_CHECK_ARGS";

fn main() -> ExitCode {
    // A guard process is this same binary: it never comes back from here.
    leasehold_worker::guard::init();
    let exit = match args::parse(std::env::args_os()) {
        Ok(cli) => {
            let output = Output::new(cli.globals.json, cli.globals.quiet);
            run(&cli).unwrap_or_else(|failure| {
                output.failure(&failure);
                failure.exit()
            })
        }
        Err(exit) => exit,
    };
    ExitCode::from(exit.code())
}

fn run(cli: &Cli) -> Result<Exit> {
    if std::env::var_os(CHECK_ARGS).is_some_and(|value| value == "1") {
        output::line("ok")?;
        return Ok(Exit::Success);
    }
    let globals = &cli.globals;
    let context = Context::new(globals)?;
    logging::start(context.settings.log_format.value, detail(&cli.command), globals.verbose, globals.quiet);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io("cannot start", &error))?;
    let exit = runtime.block_on(command(&context, &cli.command));
    // What still waits, such as a read of stdin, must not hold the end up.
    runtime.shutdown_background();
    exit
}

fn detail(command: &Command) -> logging::Detail {
    match command {
        Command::Enqueue(_)
        | Command::Exec(_)
        | Command::Task(_)
        | Command::Lane(_)
        | Command::Owner(_)
        | Command::Queue(_)
        | Command::Workers(_)
        | Command::Doctor(_)
        | Command::Demo(_)
        | Command::Bench(_)
        | Command::Config(_) => logging::Detail::Command,
        Command::Dev(dev) if dev.is_stop() => logging::Detail::Command,
        Command::Dev(_) | Command::Worker(_) | Command::Reaper(_) => logging::Detail::Service,
    }
}

async fn command(context: &Context, command: &Command) -> Result<Exit> {
    match command {
        Command::Dev(args) => commands::dev::run(context, args).await,
        Command::Demo(args) => commands::demo::run(context, args).await,
        Command::Worker(args) => commands::worker::run(context, args).await,
        Command::Reaper(_) => commands::reaper::run(context).await,
        Command::Enqueue(args) => commands::enqueue::run(context, args).await,
        Command::Exec(args) => commands::exec::run(context, args).await,
        Command::Task(args) => commands::task::run(context, args).await,
        Command::Lane(args) => commands::lane::run(context, args).await,
        Command::Owner(args) => commands::owner::run(context, args).await,
        Command::Queue(args) => commands::queue::run(context, args).await,
        Command::Workers(args) => commands::workers::run(context, args).await,
        Command::Doctor(args) => commands::doctor::run(context, args).await,
        Command::Bench(args) => commands::bench::run(context, args).await,
        Command::Config(args) => commands::config::run(context, args),
    }
}
