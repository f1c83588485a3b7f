//! One run from its claim to its finish.

use std::sync::Arc;
use std::time::Duration;

use leasehold_common::Error;
use leasehold_common::body::{Body, TaskKind};
use leasehold_common::limits::Limits;
use leasehold_common::name::{Incarnation, WorkerName};
use leasehold_common::policy::OnLeaseExpired;
use leasehold_common::record::{FailureDetail, FailureKind, StopCause};
use leasehold_common::store::{Finish, Outcome, RetryAdvice, Store};
use leasehold_common::text::head;

use crate::cleanup::clean_up;
use crate::commands::Commands;
use crate::context::Context;
use crate::error::{TaskError, Then};
use crate::guard::BootInstant;
use crate::handler::{Handled, Handlers};
use crate::heartbeat::{Leases, Nudge};
use crate::judge::judge;
use crate::panics::Caught;
use crate::redact::Secrets;
use crate::run::{Run, Verdict, gated, grace_over, judged};
use crate::telling::{Teller, tell};
use crate::voice::Voice;

/// Between two tries to tell the last output of a run.
const TELL_PAUSE: Duration = Duration::from_millis(200);

/// What all runs of a worker share.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(crate) store: Store,
    pub(crate) incarnation: Incarnation,
    pub(crate) worker: WorkerName,
    pub(crate) handlers: Handlers,
    pub(crate) commands: Option<Commands>,
    pub(crate) limits: Limits,
    pub(crate) teller: Teller,
    pub(crate) voice: Arc<dyn Voice>,
    pub(crate) nudge: Nudge,
    pub(crate) leases: Arc<Leases>,
    /// Of every run.
    pub(crate) secrets: Arc<Secrets>,
    /// Of one cleanup.
    pub(crate) cleanup_timeout: Duration,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// The stop that had reached it when its work was over.
    pub(crate) stopped_by: Option<StopCause>,
}

impl Executor {
    /// Runs a claimed task. None when the run was lost: then nothing is said.
    pub(crate) async fn run(&self, run: &Arc<Run>) -> Option<Finish> {
        let Ended { outcome, stopped_by } = self.see_through(run).await?;
        self.tell_the_rest(run).await;
        run.set_ending();
        let before_stop = stopped_by.is_none();
        Some(Finish { id: run.key.id.clone(), run: run.key.run.clone(), outcome, before_stop })
    }

    /// The run up to its end, cleanups included. What it told last may be untold still.
    pub(crate) async fn see_through(&self, run: &Arc<Run>) -> Option<Ended> {
        run.telling.secrets.add_all(&self.secrets);
        let outcome = match run.body() {
            Ok(body) => self.run_body(run, body).await,
            // A newer release's body: for a newer worker.
            Err(Error::NewerFormat { .. }) => Some(Outcome::Unknown { name: "(of a newer release)".into() }),
            Err(error) => Some(rejected(error.to_string())),
        };
        let stopped_by = run.orders().borrow().stop.map(|stop| stop.cause);
        clean_up(run, self.cleanup_timeout, self.leases.of(&run.key.queue)).await;
        run.telling.finish_output();
        Some(Ended { outcome: masked(&run.telling.secrets, outcome?), stopped_by })
    }

    async fn run_body(&self, run: &Arc<Run>, body: Body) -> Option<Outcome> {
        run.bounds.begin(&body, run.claimed.deadline_in);
        let timeout = self.watch_bounds(run, &body);
        let running = async {
            match body.kind {
                TaskKind::Exec => match &self.commands {
                    Some(commands) => commands.run(run, &body, &self.teller, &*self.voice).await,
                    None => Some(Outcome::Unknown { name: "exec (no worker here allows commands)".into() }),
                },
                TaskKind::Handler => self.run_handler(run, &body).await,
            }
        };
        tokio::select! {
            // cancel-safe: the watch never ends; the run is dropped by nobody.
            outcome = running => outcome,
            () = timeout => None,
        }
    }

    /// Orders the stop when the first bound of the run has passed, and has Redis record it. Never ends.
    async fn watch_bounds(&self, run: &Arc<Run>, body: &Body) {
        let cause = run.bounds.passed().await;
        run.stop(cause, BootInstant::now().plus(body.policy.stop_grace));
        self.nudge.beat();
        std::future::pending::<()>().await;
    }

    async fn run_handler(&self, run: &Arc<Run>, body: &Body) -> Option<Outcome> {
        let Some(handler) = self.handlers.of(&body.name) else {
            return Some(Outcome::Unknown { name: body.name.to_string() });
        };
        let context = Context::new(Arc::clone(run), body.clone(), self);
        let calling = async { handler.call(context, &body.payload).await };
        let handled = gated(run, Caught::new(Arc::clone(&run.telling.secrets), calling));
        let (mut orders, mut verdicts) = (run.orders(), run.orders());
        let ended = tokio::select! {
            biased;
            // cancel-safe: the handler's future is dropped, which is what a kill means in-process.
            verdict = judged(&mut verdicts) => return judged_outcome(verdict, body),
            handled = handled => handled,
            () = grace_over(&mut orders) => {
                let cause = run.orders().borrow().stop.map_or(StopCause::Abort, |s| s.cause);
                let message = "the handler did not return within its stop grace; its future was dropped";
                return Some(stopped(cause, message.to_owned(), FailureDetail::default()));
            }
        };
        Some(match ended {
            Ok(handled) => self.outcome(run, body, handled).await,
            Err(panic) => failed(FailureKind::Error, self.cut(run, &panic), Then::Retry),
        })
    }

    async fn outcome(&self, run: &Run, body: &Body, handled: Handled) -> Outcome {
        match handled {
            Handled::Done(output) if output.len() > self.limits.result => {
                let message = format!(
                    "the result has {} bytes, over the limit of {}",
                    output.len(),
                    self.limits.result
                );
                failed(FailureKind::InvalidResult, message, Then::Fail)
            }
            // The work had ended before the stop could change it.
            Handled::Done(output) => match judge(&body.result_rule, output).await {
                Ok(output) => Outcome::Completed(output),
                Err(breach) => failed(FailureKind::InvalidResult, breach, Then::Fail),
            },
            Handled::Unreadable(message) => rejected(message),
            Handled::InvalidResult(message) => failed(FailureKind::InvalidResult, message, Then::Fail),
            Handled::Failed(error) => {
                let stop = run.orders().borrow().stop;
                match stop {
                    Some(stop) => {
                        stopped(stop.cause, self.cut(run, &error.message), FailureDetail::default())
                    }
                    None => self.failure(run, &error),
                }
            }
        }
    }

    fn failure(&self, run: &Run, error: &TaskError) -> Outcome {
        match error.then {
            Then::Snooze(delay) => Outcome::Snoozed(delay),
            then => failed(FailureKind::Error, self.cut(run, &error.message), then),
        }
    }

    /// Masked before it is cut: the first half of a secret would not be found any more.
    fn cut(&self, run: &Run, message: &str) -> String {
        let mut message = run.telling.secrets.mask(message);
        message.truncate(head(&message, self.limits.error).len());
        message
    }

    /// The last output is never lost: it is told before the finish, unless the run is lost meanwhile.
    async fn tell_the_rest(&self, run: &Arc<Run>) {
        let mut verdicts = run.orders();
        let telling = async {
            while tell(&self.store, &self.incarnation, run).await {
                if !run.telling.output.is_empty() {
                    tokio::task::yield_now().await;
                } else {
                    tokio::time::sleep(TELL_PAUSE).await;
                }
            }
        };
        tokio::select! {
            // cancel-safe: what is not answered stays with the run.
            () = telling => {}
            _ = judged(&mut verdicts) => {}
        }
    }
}

/// What is said of a run that was ended by a verdict.
pub(crate) fn judged_outcome(verdict: Verdict, body: &Body) -> Option<Outcome> {
    match verdict {
        Verdict::Lost => None,
        Verdict::HandBack if body.policy.on_lease_expired == OnLeaseExpired::Fail => {
            let message = "Redis did not answer for too long, and the task must not be started twice";
            Some(failed(FailureKind::LeaseExpired, message.to_owned(), Then::Fail))
        }
        Verdict::HandBack => Some(Outcome::Released),
    }
}

pub(crate) fn failed(kind: FailureKind, message: String, then: Then) -> Outcome {
    let retry = match then {
        Then::Retry | Then::Snooze(_) => RetryAdvice::Policy,
        Then::RetryIn(delay) => RetryAdvice::After(delay),
        Then::Fail => RetryAdvice::Fatal,
    };
    Outcome::Failed { kind, message, retry, detail: FailureDetail::default() }
}

pub(crate) fn stopped(cause: StopCause, message: String, detail: FailureDetail) -> Outcome {
    if cause == StopCause::Drain { Outcome::Released } else { Outcome::Stopped { cause, message, detail } }
}

/// Whatever a run says at its end, no secret of it is in there.
fn masked(secrets: &Secrets, outcome: Outcome) -> Outcome {
    let mask = |message: String| secrets.mask(&message);
    match outcome {
        Outcome::Failed { kind, message, retry, detail } => {
            Outcome::Failed { kind, message: mask(message), retry, detail }
        }
        Outcome::Stopped { cause, message, detail } => {
            Outcome::Stopped { cause, message: mask(message), detail }
        }
        Outcome::Completed(_) | Outcome::Snoozed(_) | Outcome::Released | Outcome::Unknown { .. } => outcome,
    }
}

fn rejected(message: String) -> Outcome {
    failed(FailureKind::Rejected, message, Then::Fail)
}
