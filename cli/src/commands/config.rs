//! `leasehold config show`: every setting with its value and where that comes from.

use clap::Subcommand;
use serde_json::{Map, json};

use crate::config::variable;
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{self, Rows};

/// What to do with the settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show each setting, its value (durations with their unit, sizes in bytes) and its source
    Show,
}

/// Runs it.
pub(crate) fn run(context: &Context, command: &ConfigCommand) -> Result<Exit> {
    match command {
        ConfigCommand::Show => show(context),
    }
}

fn show(context: &Context) -> Result<Exit> {
    let rows = context.settings.rows()?;
    if context.output.is_json() {
        let settings: Map<_, _> = rows
            .iter()
            .map(|row| {
                let source = row.source.to_string();
                (
                    row.key.to_owned(),
                    json!({ "value": row.value, "source": source, "variable": variable(row.key) }),
                )
            })
            .collect();
        output::json(&settings)?;
        return Ok(Exit::Success);
    }
    let mut table = Rows::new(&["setting", "value", "source", "variable"]);
    for row in rows {
        table.add([row.key, &row.value, &row.source.to_string(), &variable(row.key)]);
    }
    output::rows(table)?;
    Ok(Exit::Success)
}
