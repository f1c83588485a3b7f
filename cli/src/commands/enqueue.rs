//! `leasehold enqueue`: a task for a handler.

use std::io::Read as _;

use clap::Args;
use leasehold_producer::{
    Bounds, Enqueued, KnownState, Payload, Producer, RawOutput, RawTask, Spec, TaskHandle, TaskKind, TaskName,
};
use serde_json::{Value, json};

use crate::args::result_flags::ResultFlags;
use crate::args::task_flags::{QueueArg, TaskFlags};
use crate::args::values;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::health;
use crate::output;

/// Hand a task to a queue, for a handler in a worker of yours; prints its id.
///
/// The payload is JSON and travels as MessagePack: whole numbers from -2^63 to 2^64-1, others as 64-bit floats.
/// Enqueueing again with the same --id, name, payload and bounds changes nothing and prints the same id; with
/// other ones it is refused. A queue without a live worker or reaper is warned of on stderr.
#[derive(Debug, Args)]
pub(crate) struct EnqueueArgs {
    #[command(flatten)]
    queue: QueueArg,
    /// The handler that runs it: 1 to 64 characters of A-Z a-z 0-9 . _ -
    #[arg(value_name = "NAME", value_parser = values::handler_name)]
    name: TaskName,
    /// Its payload: JSON, or - for JSON on stdin; at most 1 MiB as MessagePack [default: null]
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Take an object {"$bytes": "BASE64"} in the payload for bytes
    #[arg(long)]
    bytes_as_base64: bool,
    #[command(flatten)]
    result: ResultFlags,
    #[command(flatten)]
    flags: TaskFlags,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: &EnqueueArgs) -> Result<Exit> {
    let payload = payload(args, context.settings.limits.payload.value)?;
    let result_rule = args.result.rule()?;
    let choice = args.flags.choose(&context.settings.enqueue, &Bounds::default())?;
    let task = RawTask {
        queue: args.queue.queue.clone(),
        name: args.name.clone(),
        kind: TaskKind::Handler,
        payload: if args.bytes_as_base64 { Payload::Json(payload) } else { Payload::PlainJson(payload) },
        id: choice.id,
        when: choice.when,
        spec: Spec { result_rule, ..choice.spec },
        owner: choice.owner,
        lane: choice.lane,
        headers: choice.headers,
    };
    let producer = context.producer().await?;
    let handle = producer.enqueue_raw(task).await?;
    context.output.either(&document(&handle), || handle.id().to_string())?;
    tell_known(context, &handle);
    warn(&producer, &handle).await;
    Ok(Exit::Success)
}

/// The payload, refused before it is read whole if it is far too large.
fn payload(args: &EnqueueArgs, limit: usize) -> Result<Value> {
    let Some(text) = &args.payload else { return Ok(Value::Null) };
    if text != "-" {
        return Ok(leasehold_producer::json::parse("payload", text)?);
    }
    // A byte of MessagePack is at most six of JSON, as in a string of escapes.
    let most = 6 * limit as u64 + 64 * 1024;
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(most + 1).read_to_end(&mut text);
    read.map_err(|error| Failure::io("cannot read the payload from stdin", &error))?;
    if text.len() as u64 > most {
        return Err(Failure::usage(
            "payload",
            format!("is over {most} bytes of JSON; as MessagePack {limit} are allowed"),
        ));
    }
    let text = String::from_utf8(text).map_err(|_| Failure::usage("payload", "is not UTF-8"))?;
    Ok(leasehold_producer::json::parse("payload", &text)?)
}

/// The answer as JSON.
pub(crate) fn document(handle: &TaskHandle<RawOutput>) -> Value {
    let (created, state) = match handle.enqueued() {
        Some(Enqueued::Exists(KnownState::Is(state))) => (false, Some(*state)),
        Some(Enqueued::Created(state)) => (true, Some(*state)),
        _ => (false, None),
    };
    json!({ "id": handle.id(), "queue": handle.queue(), "created": created, "state": state })
}

/// Says that the task was there already.
pub(crate) fn tell_known(context: &Context, handle: &TaskHandle<RawOutput>) {
    match handle.enqueued() {
        Some(Enqueued::Exists(KnownState::Is(state))) => {
            context.output.note(&format!("it was enqueued before and is {state}: nothing was changed"));
        }
        Some(Enqueued::Exists(KnownState::Gone)) => {
            context.output.note("it was enqueued before, has ended and was removed: nothing was changed");
        }
        _ => {}
    }
}

/// Says on stderr if nobody is there to run the task, or if this Redis may lose it. It was enqueued: not being able
/// to tell is no failure.
pub(crate) async fn warn(producer: &Producer, handle: &TaskHandle<RawOutput>) {
    let missing = health::warnings(producer, handle.queue()).await.unwrap_or_default();
    for warning in producer.warnings().iter().chain(&missing) {
        output::warn(warning);
    }
}
