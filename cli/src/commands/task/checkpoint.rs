//! `leasehold task checkpoint`.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::Which;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::output;
use crate::view;

/// Print what the last run that left a checkpoint left for the next: its bytes as they are, on a terminal as JSON.
///
/// With --json: `bytes` (their number) and `checkpoint`, mapped from MessagePack.
#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    #[command(flatten)]
    which: Which,
    /// Write the bytes to this file instead
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &CheckpointArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let task = args.which.find(&producer).await?;
    let Some(bytes) = producer.checkpoint(task.queue(), task.id()).await? else {
        return Err(Failure::not_found(format!("no run of task {} has left a checkpoint", task.id())));
    };
    if let Some(file) = &args.output {
        let path = file.display();
        std::fs::write(file, &bytes).map_err(|error| Failure::io(format!("cannot write {path}"), &error))?;
        context.output.note(&format!("{} bytes written to {path}", bytes.len()));
    } else if context.output.is_json() {
        output::json(&json!({ "id": task.id(), "bytes": bytes.len(), "checkpoint": view::mapped(&bytes) }))?;
    } else if io::stdout().is_terminal() {
        output::line(&view::mapped(&bytes).to_string())?;
    } else {
        output::write_stdout(&bytes)?;
    }
    Ok(Exit::Success)
}
