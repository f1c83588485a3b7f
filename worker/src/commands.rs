//! Command tasks: from the payload to the exit code.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_common::body::{Body, ExecPayload};
use leasehold_common::name::{Incarnation, Owner};
use leasehold_common::record::{FailureDetail, FailureKind, StopCause};
use leasehold_common::store::{Outcome, RetryAdvice};
use leasehold_common::task::{decode, encode};

use crate::error::Then;
use crate::exec::{CommandSpec, ExecPolicy, Exit, Launch, Limits, RunningCommand, StartError, start};
use crate::executor::{failed, judged_outcome, stopped};
use crate::guard::Guard;
use crate::run::{Run, grace_over, judged, stop_ordered, thawed};
use crate::telling::Teller;
use crate::voice::Voice;

/// A guard that is down is being started again: the task comes back soon, at no cost.
const GUARD_DOWN_SNOOZE: Duration = Duration::from_secs(2);

/// The worker itself is short of something: the task comes back, to another worker if there is one.
const SHORTAGE_SNOOZE: Duration = Duration::from_secs(5);

/// After so many claims a shortage counts as the task's failure, so that it ends.
const SHORTAGE_CLAIMS: u64 = 100;

/// Before a start is tried again whose lease ran out.
const LEASE_OVER_PAUSE: Duration = Duration::from_millis(100);

/// Runs commands.
#[derive(Debug)]
pub(crate) struct Commands {
    pub(crate) guard: Guard,
    pub(crate) policy: Arc<ExecPolicy>,
    pub(crate) incarnation: Incarnation,
}

/// The result of a command that succeeded.
#[derive(serde::Serialize)]
struct CommandResult {
    exit_code: i32,
    output_bytes: u64,
}

impl Commands {
    /// Runs one command. None when the run was lost.
    pub(crate) async fn run(
        &self,
        run: &Arc<Run>,
        body: &Body,
        teller: &Teller,
        voice: &dyn Voice,
    ) -> Option<Outcome> {
        let payload: ExecPayload = match decode("payload", &body.payload) {
            Ok(payload) => payload,
            Err(error) => return Some(failed(FailureKind::Rejected, error.to_string(), Then::Fail)),
        };
        // Checked once more: not every payload was made by a producer of this release.
        let secrets = &run.telling.secrets;
        let kept = payload
            .validate()
            .and_then(|()| payload.secrets().try_for_each(|s| secrets.add("secret_env", s.as_bytes())));
        if let Err(error) = kept {
            return Some(failed(FailureKind::Rejected, error.to_string(), Then::Fail));
        }
        let command = match self.start(run, &payload, body, teller).await {
            Ok(command) => command,
            Err(error) => return not_started(run, body, &error),
        };
        run.set_control(&command.control());
        self.until_over(run, body, command, voice).await
    }

    /// Starts it once the run may go on: a lease that runs out meanwhile is waited for, not a failure. A start that
    /// is under way is seen through, for what it has made must be gone before anybody is told of the end.
    async fn start(
        &self,
        run: &Arc<Run>,
        payload: &ExecPayload,
        body: &Body,
        teller: &Teller,
    ) -> Result<RunningCommand, StartError> {
        let mut orders = run.orders();
        loop {
            tokio::select! {
                biased;
                // cancel-safe: both only wait.
                () = run.stopped.cancelled() => return Err(StartError::GivenUp),
                () = thawed(&mut orders) => {}
            }
            match start(&self.guard, self.launch(run, payload.clone(), body, teller)).await {
                Err(StartError::LeaseOver) => tokio::time::sleep(LEASE_OVER_PAUSE).await,
                started => return started,
            }
        }
    }

    async fn until_over(
        &self,
        run: &Arc<Run>,
        body: &Body,
        mut command: RunningCommand,
        voice: &dyn Voice,
    ) -> Option<Outcome> {
        let control = command.control();
        let (mut stops, mut graces, mut verdicts) = (run.orders(), run.orders(), run.orders());
        let mut signalled: Option<StopCause> = None;
        let mut killed = false;
        // Until the command has exited: what arrives later changes nothing any more.
        loop {
            tokio::select! {
                biased;
                // cancel-safe: `exited` may be called again; the others only watch orders.
                verdict = judged(&mut verdicts) => {
                    kill_until_gone(&command, run, voice).await;
                    return judged_outcome(verdict, body);
                }
                _ = command.exited() => break,
                stop = stop_ordered(&mut stops), if signalled.is_none() => {
                    signalled = Some(stop.cause);
                    control.terminate();
                }
                () = grace_over(&mut graces), if !killed => {
                    killed = true;
                    // A stop without grace may be seen here first.
                    signalled = signalled.or_else(|| run.orders().borrow().stop.map(|stop| stop.cause));
                    kill_until_gone(&command, run, voice).await;
                }
            }
        }
        // Until its output is in and nothing of it is left.
        let exit = tokio::select! {
            biased;
            // cancel-safe: as above.
            verdict = judged(&mut verdicts) => {
                kill_until_gone(&command, run, voice).await;
                return judged_outcome(verdict, body);
            }
            exit = command.wait() => exit,
        };
        // An abort outranks the cause it was signalled for.
        let cause = signalled.and_then(|_| run.orders().borrow().stop).map(|s| s.cause);
        run.telling.finish_output();
        Some(outcome(&exit, cause, run.telling.output.total()))
    }

    fn launch(&self, run: &Arc<Run>, payload: ExecPayload, body: &Body, teller: &Teller) -> Launch {
        let (own, teller) = (Arc::clone(run), teller.clone());
        let spec = CommandSpec {
            argv: payload.argv,
            env: payload.env,
            cwd: payload.cwd.map(Into::into),
            stdin: payload.stdin,
        };
        Launch {
            spec,
            env: environment(run, body),
            incarnation: self.incarnation.clone(),
            policy: Arc::clone(&self.policy),
            limits: Limits::default(),
            lease_until: run.lease_until(),
            given_up: run.stopped.clone(),
            sink: Arc::new(move |stream, bytes| {
                own.telling.push(stream, bytes);
                own.bounds.note_life();
                teller.news();
            }),
        }
    }
}

fn environment(run: &Run, body: &Body) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([
        ("LEASEHOLD_TASK_ID".to_owned(), run.key.id.to_string()),
        ("LEASEHOLD_RUN_ID".to_owned(), run.key.run.to_string()),
        ("LEASEHOLD_ATTEMPT".to_owned(), run.claimed.attempt.to_string()),
        ("LEASEHOLD_QUEUE".to_owned(), run.key.queue.to_string()),
    ]);
    if let Some(owner) = body.owner.as_ref().map(Owner::to_string) {
        env.insert("LEASEHOLD_OWNER".to_owned(), owner);
    }
    env
}

/// KILL, again every 5 s, until nothing of the run is alive.
async fn kill_until_gone(command: &RunningCommand, run: &Run, voice: &dyn Voice) {
    let task = &run.key.id;
    loop {
        let alive = command.kill().await;
        if alive.is_empty() {
            return;
        }
        tracing::error!(%task, ?alive, "killed, and still alive: the system does not end these processes");
        // So that nobody takes the run for ended: no other run may start, its lane stays closed.
        let pids = alive.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        if let Err(error) = voice.unkillable(&run.key, &pids).await {
            tracing::warn!(%task, %error, "Redis was not told of it");
        }
    }
}

fn outcome(exit: &Exit, signalled: Option<StopCause>, output_bytes: u64) -> Outcome {
    let (message, detail, kind) = match exit {
        Exit::Code(code) => {
            let detail = FailureDetail { exit_code: Some(*code), signal: None };
            (format!("exited with code {code}"), detail, FailureKind::ExitCode)
        }
        Exit::Signal { number, name, core_dumped } => {
            let core = if *core_dumped { ", core dumped" } else { "" };
            let detail = FailureDetail { exit_code: None, signal: Some(*number) };
            (format!("ended by signal {number} ({name}){core}"), detail, FailureKind::Signal)
        }
    };
    if let Some(cause) = signalled {
        return stopped(cause, message, detail);
    }
    if *exit == Exit::Code(0) {
        let result = CommandResult { exit_code: 0, output_bytes };
        return Outcome::Completed(encode("result", &result).unwrap_or_default());
    }
    Outcome::Failed { kind, message, retry: RetryAdvice::Policy, detail }
}

fn not_started(run: &Run, body: &Body, error: &StartError) -> Option<Outcome> {
    let orders = *run.orders().borrow();
    if let Some(verdict) = orders.verdict {
        return judged_outcome(verdict, body);
    }
    if let Some(stop) = orders.stop {
        return Some(stopped(stop.cause, error.to_string(), FailureDetail::default()));
    }
    Some(match error {
        StartError::Off => Outcome::Unknown { name: "exec (no worker here allows commands)".into() },
        StartError::GuardDown => Outcome::Snoozed(GUARD_DOWN_SNOOZE),
        // It never ran, and the fault is this worker's: no budget is spent.
        shortage @ (StartError::Exhausted { .. } | StartError::Trampoline { .. })
            if run.claimed.attempt <= SHORTAGE_CLAIMS =>
        {
            tracing::warn!(task = %run.key.id, error = %shortage, "this worker cannot start a command; handing it back");
            Outcome::Snoozed(SHORTAGE_SNOOZE)
        }
        permanent if permanent.is_permanent() => {
            failed(FailureKind::Rejected, permanent.to_string(), Then::Fail)
        }
        passing => failed(FailureKind::Error, passing.to_string(), Then::Retry),
    })
}
