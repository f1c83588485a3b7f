//! Flags of `enqueue` that say what counts as a result.

use std::fs::File;
use std::io::Read as _;

use clap::{Args, ValueEnum};
use leasehold_common::result_rule::MOST_SCHEMA;
use leasehold_producer::ResultRule;
use leasehold_producer::json::parse;

use crate::error::{Failure, Result};

/// A rule without a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Plain {
    /// Anything counts
    Any,
    /// Not null, and no empty text, bytes, array or map
    Required,
}

/// What the handler's output must be like.
#[derive(Debug, Args)]
pub(crate) struct ResultFlags {
    /// What counts as its result: any, or required (not null, nothing empty); else it fails as invalid_result, and is
    /// not retried
    #[arg(long, value_name = "any|required", default_value = "any", hide_possible_values = true)]
    result: Plain,
    /// A file with the JSON Schema (2020-12) that its result must follow: at most 16 KiB, no $ref to files or networks
    #[arg(long, value_name = "FILE", conflicts_with = "result")]
    result_schema: Option<String>,
}

impl ResultFlags {
    /// The rule. Whether a schema is one, the producer finds out before it sends anything.
    pub(crate) fn rule(&self) -> Result<ResultRule> {
        let Some(path) = &self.result_schema else {
            return Ok(match self.result {
                Plain::Any => ResultRule::Any,
                Plain::Required => ResultRule::Required,
            });
        };
        let bad = |why: String| Failure::usage("result_schema", why);
        // Spaces and line ends do not count, but a file that is far too large is not read whole.
        let most = 4 * MOST_SCHEMA as u64;
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text));
        read.map_err(|error| bad(format!("{path}: {error}")))?;
        if text.len() as u64 > most {
            return Err(bad(format!(
                "{path} is over {most} bytes; {MOST_SCHEMA} without spaces are allowed"
            )));
        }
        Ok(ResultRule::JsonSchema(parse("result_schema", &text)?))
    }
}
