//! `leasehold task logs`.

use clap::Args;
use futures::StreamExt as _;
use leasehold_producer::LogEntry;
use leasehold_producer::json::{Bytes, from_msgpack};
use serde_json::{Value, json};

use super::Which;
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::follow::Printer;
use crate::output;
use crate::signals;

/// Pieces read at once.
const PIECES: usize = 64;

/// The MessagePack marker of bytes with a length of 32 bits.
const BIN_32: u8 = 0xc6;

/// Print what a task printed (a command: its stdout and stderr, each on its own) or logged (a handler), as far as
/// it is kept: the first 64 KiB and the newest, 1 MiB in all; what was dropped is marked on stderr.
///
/// With --json, one JSON document a line and piece: `text`, or `bytes` as base64 where it is no UTF-8.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    which: Which,
    /// Go on until the task has ended (Ctrl-C ends it sooner)
    #[arg(short, long)]
    follow: bool,
}

pub(super) async fn run(context: &Context, args: &LogsArgs) -> Result<Exit> {
    let producer = context.producer().await?;
    let task = args.which.find(&producer).await?;
    let mut printer = Printer::new(context.output);
    if args.follow {
        let log = producer.follow_log(task.queue().clone(), task.id().clone(), None);
        let mut log = std::pin::pin!(log);
        let mut stop = std::pin::pin!(signals::asked_to_stop());
        loop {
            // cancel-safe: a piece is given once, by the stream that is kept; the signal ends the loop.
            let piece = tokio::select! {
                piece = log.next() => piece,
                () = &mut stop => break,
            };
            let Some(piece) = piece else { break };
            print(context, &mut printer, &piece?)?;
        }
        return Ok(Exit::Success);
    }
    let mut position: Option<String> = None;
    loop {
        let pieces = producer.log(task.queue(), task.id(), position.as_deref(), PIECES).await?;
        let Some(last) = pieces.last() else { return Ok(Exit::Success) };
        position = Some(last.position.clone());
        for piece in &pieces {
            print(context, &mut printer, piece)?;
        }
    }
}

fn print(context: &Context, printer: &mut Printer, piece: &LogEntry) -> Result<()> {
    if context.output.is_json() { output::json_line(&document(piece)) } else { printer.print(piece) }
}

fn document(piece: &LogEntry) -> Value {
    let mut document = json!({
        "position": piece.position,
        "attempt": piece.attempt,
        "offset": piece.offset,
        "stream": piece.stream.as_str(),
    });
    match std::str::from_utf8(&piece.text) {
        Ok(text) => document["text"] = text.into(),
        Err(_) => document["bytes"] = base64(&piece.text),
    }
    document
}

/// By the mapping of payloads: what is `bin` there is base64 here.
fn base64(bytes: &[u8]) -> Value {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    from_msgpack(&[&[BIN_32], &length[..], bytes].concat(), Bytes::Text).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_are_told_as_base64() {
        assert_eq!(super::base64(&[0, 255, 16]), "AP8Q");
    }
}
