//! The command line: what there is to say, and how a wrong word is told.

pub(crate) mod result_flags;
pub(crate) mod task_flags;
pub(crate) mod values;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use leasehold_common::name::Namespace;
use leasehold_common::text::printable;

use crate::commands::{
    bench, config, demo, dev, doctor, enqueue, exec, lane, owner, queue, reaper, task, worker, workers,
};
use crate::error::Failure;
use crate::exit::{self, Exit};
use crate::output::{self, Output};

/// A distributed job queue on Redis for work that must not get lost, stuck or doubled.
///
/// Data goes to stdout, everything else to stderr. Settings: flags beat the environment, which beats
/// ./leasehold.toml (or the file that LEASEHOLD_CONFIG names), which beats the defaults: `leasehold config show`.
#[derive(Debug, Parser)]
#[command(
    name = "leasehold",
    bin_name = "leasehold",
    version,
    arg_required_else_help = true,
    max_term_width = 110,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub(crate) globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Globals {
    /// Redis to use [default: LEASEHOLD_REDIS_URL, REDIS_URL, leasehold.toml, the dev server of
    /// ./.leasehold, redis://127.0.0.1:6379]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) redis_url: Option<String>,
    /// First part of every key: 1 to 64 characters of A-Z a-z 0-9 . _ - [default: lh]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<Namespace>,
    /// Tell results as JSON on stdout (and an error as JSON on stderr)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How logs on stderr are written [default: text]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// More on stderr; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Only warnings and errors on stderr
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON document a line.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // A variant without words of its own shows in full what its arguments say.
    Dev(dev::DevArgs),
    Demo(demo::DemoArgs),
    Enqueue(Box<enqueue::EnqueueArgs>),
    Exec(Box<exec::ExecArgs>),
    Worker(worker::WorkerArgs),
    Reaper(reaper::ReaperArgs),
    /// Look at tasks, say why they are where they are, wait for them, abort them, run them again
    #[command(subcommand)]
    Task(task::TaskCommand),
    /// Look at lanes, and say how many of their tasks may run at a time
    #[command(subcommand)]
    Lane(lane::LaneCommand),
    /// Look at what belongs to an owner: a session, a user
    #[command(subcommand)]
    Owner(owner::OwnerCommand),
    /// Look at queues
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    Workers(workers::WorkersArgs),
    Doctor(doctor::DoctorArgs),
    Bench(bench::BenchArgs),
    /// Show the settings and where each comes from
    #[command(subcommand)]
    Config(config::ConfigCommand),
}

/// Reads the command line of this process, or says why not; the code is then to be exited with.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    command()
        .try_get_matches_from(&arguments)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map_err(|error| tell(error, asks_for_json(&arguments)))
}

/// Whether results are to be told as JSON, of a command line that cannot be read otherwise.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "--json")
}

/// The definition, with what holds everywhere: a value may begin with `-`, so that a wrong one reaches its own
/// check; every help ends with the exit codes and units.
fn command() -> clap::Command {
    fn tuned(command: clap::Command) -> clap::Command {
        command
            .mut_args(|arg| {
                let option = !arg.is_positional() && arg.get_action().takes_values();
                if option { arg.allow_hyphen_values(true) } else { arg }
            })
            .after_help(exit::HELP)
            .mut_subcommands(tuned)
    }
    tuned(Cli::command())
}

/// Prints what clap has to say: help on stdout, errors on stderr (as JSON where that was asked for), nothing in them as it
/// was typed.
fn tell(mut error: clap::Error, json: bool) -> Exit {
    let kinds: Vec<ContextKind> = error.context().map(|(kind, _)| kind).collect();
    for kind in kinds {
        let safe = match error.get(kind) {
            Some(ContextValue::String(text)) => ContextValue::String(short(text)),
            Some(ContextValue::Strings(texts)) => {
                ContextValue::Strings(texts.iter().map(|text| short(text)).collect())
            }
            _ => continue,
        };
        error.insert(kind, safe);
    }
    let to_stdout = !error.use_stderr();
    if json && !to_stdout {
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        Output::new(json, false).failure(&Failure::new(Exit::Usage, text));
        return Exit::Usage;
    }
    let colour = std::env::var_os("NO_COLOR").is_none()
        && if to_stdout { io::stdout().is_terminal() } else { io::stderr().is_terminal() };
    let text = error.render();
    output::rendered(&if colour { text.ansi().to_string() } else { text.to_string() }, to_stdout);
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Success,
        _ => Exit::Usage,
    }
}

/// A typed value as a message may quote it.
fn short(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(80).collect();
    printable(&if chars.next().is_some() { format!("{head}..") } else { head })
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }
}
