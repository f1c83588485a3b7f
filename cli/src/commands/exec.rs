//! `leasehold exec`: a command as a task.

use std::io::Read as _;
use std::time::Duration;

use clap::Args;
use futures::StreamExt as _;
use leasehold_producer::{
    Bounds, Ended, ExecPayload, Producer, RawOutput, TaskDetail, TaskHandle, TaskState, When,
};

use super::enqueue;
use crate::args::task_flags::{QueueArg, TaskFlags};
use crate::args::values;
use crate::context::Context;
use crate::error::{Failure, Result};
use crate::exit::Exit;
use crate::follow::Printer;
use crate::output;
use crate::signals;
use crate::view;

/// Run a command as a task of a queue; prints its id alone on stdout.
///
/// With --wait or --yield the id goes to stderr, and the command's output follows here while it runs, its stdout
/// on stdout and its stderr on stderr; then the exit code is the command's own, or 128 + n for signal n. Ctrl-C
/// leaves the command going and exits with 75: `leasehold task abort ID` ends it. With --json, the task as JSON
/// at its end takes the place of its output. What the command prints faster than Redis takes is dropped beyond
/// 1 MiB, and marked on stderr.
///
/// The command runs on a worker that allows it (--allow-exec), in its own session, with PATH, HOME, LANG and
/// TMPDIR of the worker, what --env adds, and LEASEHOLD_TASK_ID, _RUN_ID, _ATTEMPT, _QUEUE, _OWNER, and
/// LEASEHOLD_RUN_TOKEN, by which all its processes are found when it has to end. No shell is involved unless you
/// name one.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    queue: QueueArg,
    /// Follow it until it has ended
    #[arg(long, conflicts_with = "yield_after")]
    wait: bool,
    /// Follow it for this time (a duration with its unit, such as 10s), then leave it going and exit with 0
    #[arg(long = "yield", value_name = "DUR", value_parser = values::yield_after)]
    yield_after: Option<Duration>,
    /// A variable of its environment; repeatable
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = values::env)]
    env: Vec<(String, String)>,
    /// The same for a value that is a secret: what the command prints and how it fails shows *** in its place, and
    /// so does `task show`. It lies in Redis with the rest of the command. 4 bytes or more; repeatable
    #[arg(long = "secret-env", value_name = "KEY=VALUE", value_parser = values::env)]
    secret_env: Vec<(String, String)>,
    /// The folder it runs in, on the worker; a relative one is made absolute here [default: the worker's]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// What it reads: a file, or - for this stdin; at most 1 MiB with the rest of the command [default: nothing]
    #[arg(long, value_name = "FILE|-")]
    stdin: Option<String>,
    #[command(flatten)]
    flags: TaskFlags,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: &ExecArgs) -> Result<Exit> {
    let payload = ExecPayload {
        argv: args.command.clone(),
        env: args.env.iter().chain(&args.secret_env).cloned().collect(),
        secret_env: args.secret_env.iter().map(|(name, _)| name.clone()).collect(),
        cwd: args.cwd.as_deref().map(absolute).transpose()?,
        stdin: args
            .stdin
            .as_deref()
            .map(|from| stdin(from, context.settings.limits.payload.value))
            .transpose()?,
    };
    let choice = args.flags.choose(&context.settings.exec, &Bounds::command())?;
    let producer = context.producer().await?;
    let enqueue = producer.exec(args.queue.queue.clone(), payload).spec(choice.spec);
    let mut enqueue = match choice.when {
        When::Now => enqueue,
        When::After(delay) => enqueue.delay(delay),
        When::At(ms) => enqueue.at(ms),
    };
    if let Some(id) = choice.id {
        enqueue = enqueue.id(id);
    }
    if let Some(owner) = choice.owner {
        enqueue = enqueue.owner(owner);
    }
    if let Some(lane) = choice.lane {
        enqueue = enqueue.lane(lane);
    }
    for (name, value) in choice.headers {
        enqueue = enqueue.header(name, value);
    }
    let handle = enqueue.await?;
    enqueue::tell_known(context, &handle);
    if !args.wait && args.yield_after.is_none() {
        context.output.either(&enqueue::document(&handle), || handle.id().to_string())?;
        enqueue::warn(&producer, &handle).await;
        return Ok(Exit::Success);
    }
    output::important(handle.id().as_str());
    enqueue::warn(&producer, &handle).await;
    follow(context, &producer, &handle, args.yield_after).await
}

fn absolute(folder: &str) -> Result<String> {
    let bad = |why: String| Failure::usage("cwd", why);
    let path = std::path::absolute(folder).map_err(|error| bad(error.to_string()))?;
    path.into_os_string().into_string().map_err(|_| bad("the current folder is not UTF-8".to_owned()))
}

fn stdin(from: &str, limit: usize) -> Result<Vec<u8>> {
    let read = |source: &mut dyn std::io::Read| {
        let mut bytes = Vec::new();
        source.take(limit as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let bytes = match from {
        "-" => read(&mut std::io::stdin().lock()),
        path => std::fs::File::open(path).and_then(|mut file| read(&mut file)),
    };
    let bytes = bytes.map_err(|error| Failure::usage("stdin", format!("{from}: {error}")))?;
    if bytes.len() > limit {
        return Err(Failure::usage("stdin", format!("is over the limit of {limit} bytes")));
    }
    Ok(bytes)
}

/// Why following ended.
enum Over {
    Ended(Ended),
    Yielded,
    Interrupted,
    /// Nobody reads the output any more.
    Closed,
}

async fn follow(
    context: &Context,
    producer: &Producer,
    handle: &TaskHandle<RawOutput>,
    yield_after: Option<Duration>,
) -> Result<Exit> {
    let enough = async {
        match yield_after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
    };
    // cancel-safe: whichever comes first ends the following; nothing of the others is needed then.
    let over = tokio::select! {
        over = output_and_end(context, producer, handle) => over?,
        () = enough => Over::Yielded,
        () = signals::asked_to_stop() => Over::Interrupted,
    };
    let id = handle.id();
    match over {
        Over::Ended(ended) => tell_end(context, handle, ended),
        Over::Yielded => {
            if context.output.is_json() {
                output::json(&enqueue::document(handle))?;
            }
            context.output.note(&format!("task {id} goes on: leasehold task logs -f {id} follows it"));
            Ok(Exit::Success)
        }
        Over::Interrupted => {
            output::important(&format!(
                "task {id} goes on: leasehold task logs -f {id} follows it, leasehold task abort {id} ends it"
            ));
            Ok(Exit::StillGoing)
        }
        Over::Closed => Ok(Exit::StillGoing),
    }
}

/// Prints the log as it comes, and gives the end once both have come.
async fn output_and_end(
    context: &Context,
    producer: &Producer,
    handle: &TaskHandle<RawOutput>,
) -> Result<Over> {
    let print = async {
        let mut printer = Printer::new(context.output);
        let mut outage = false;
        let log = producer.follow_log(handle.queue().clone(), handle.id().clone(), None);
        let mut log = std::pin::pin!(log);
        while let Some(piece) = log.next().await {
            match piece {
                Ok(_) if context.output.is_json() => {}
                Ok(piece) => printer.print(&piece)?,
                Err(error) if error.is_retryable() => {
                    if !outage {
                        context.output.note(&format!("{error}; waiting for Redis to come back"));
                    }
                    outage = true;
                    continue;
                }
                // Removed at its end before it was seen: how it ended is told by the waiter, as far as it knows.
                Err(leasehold_producer::Error::NotFound { .. }) => break,
                Err(error) => return Err(error.into()),
            }
            outage = false;
        }
        Ok::<(), Failure>(())
    };
    let ended = async { Ok(handle.wait_end(None).await?) };
    match tokio::try_join!(print, ended) {
        Ok(((), ended)) => Ok(Over::Ended(ended)),
        Err(failure) if failure.is_closed() => Ok(Over::Closed),
        Err(failure) => Err(failure),
    }
}

fn tell_end(context: &Context, handle: &TaskHandle<RawOutput>, ended: Ended) -> Result<Exit> {
    match ended {
        Ended::Kept(detail) => {
            if context.output.is_json() {
                output::json(&view::document(handle.queue(), &detail))?;
            }
            Ok(exit_of(context, &detail))
        }
        Ended::Discarded(Some(state)) => Ok(Exit::of_state(state)),
        Ended::Discarded(None) => Err(Failure::not_found(format!(
            "task {} has ended and was removed: how it ended is not known",
            handle.id()
        ))),
    }
}

/// The command's own code where it has one.
fn exit_of(context: &Context, detail: &TaskDetail) -> Exit {
    let state = detail.record.state;
    if state == TaskState::Completed {
        return Exit::Success;
    }
    let failure = detail.last_failure();
    let why = failure.map(|f| format!(": {}: {}", f.kind.as_str(), f.message)).unwrap_or_default();
    context.output.note(&format!("{state}{why}"));
    if state == TaskState::Failed
        && let Some(failure) = failure
        && let Some(exit) = Exit::of_command(failure.detail.exit_code, failure.detail.signal)
    {
        return exit;
    }
    Exit::of_state(state)
}
