//! Enqueueing: one builder for typed tasks, commands and raw ones, alone or many at once.

use std::collections::{BTreeMap, HashMap};
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use leasehold_common::Error as RedisError;
use leasehold_common::body::EXEC_NAME;
use leasehold_common::clock::wall_ms;
use leasehold_common::store::{NewTask, When};
use leasehold_common::task;

use crate::error::{Error, Result};
use crate::{
    Backoff, Body, Bound, Bounds, BudgetName, Deadline, Enqueued, ExecPayload, KnownState, Lane,
    OnLeaseExpired, Origin, Owner, Policy, Priority, Producer, QueueName, RawOutput, ResultRule, Spec, Task,
    TaskHandle, TaskId, TaskKind, TaskName,
};

/// Tasks of one bulk enqueue that share a deadline: a few batches, so that others get their turn in between.
const BULK_CHUNK: usize = 256;

/// A task about to be enqueued; `.await` does it and gives a handle to a task whose output is an `O`.
///
/// A value out of range is told at the `.await`, before anything is sent. When the future is dropped after its
/// first poll, the task may or may not be enqueued.
#[derive(Debug, Clone)]
#[must_use = "nothing is enqueued before the `.await`"]
pub struct Enqueue<O> {
    producer: Producer,
    draft: Result<Draft>,
    output: PhantomData<fn() -> O>,
}

/// A task whose every name has its form, but whose sizes are not checked yet.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) queue: QueueName,
    pub(crate) id: Option<TaskId>,
    pub(crate) when: When,
    pub(crate) body: Body,
}

/// A task that Redis may be asked for.
struct Checked {
    task: NewTask,
    /// The id was made here.
    fresh: bool,
}

impl Draft {
    fn new(queue: QueueName, name: TaskName, payload: Vec<u8>, spec: Spec) -> Self {
        let body = Body {
            name,
            kind: TaskKind::Handler,
            payload,
            policy: spec.policy,
            priority: spec.priority,
            owner: None,
            lane: None,
            bounds: spec.bounds,
            headers: BTreeMap::new(),
            result_rule: spec.result_rule,
            origins: spec.origins,
        };
        Self { queue, id: None, when: When::Now, body }
    }
}

impl Producer {
    /// Prepares a task: `.await` enqueues it. Queue, bounds and priority are those of its type.
    #[expect(clippy::needless_pass_by_value, reason = "a task is given away; nobody keeps what is enqueued")]
    pub fn enqueue<T: Task>(&self, task: T) -> Enqueue<T::Output> {
        let draft = || {
            let payload = task::encode("payload", &task)?;
            let mut draft =
                Draft::new(QueueName::new(T::QUEUE)?, TaskName::new(T::NAME)?, payload, T::spec());
            draft.body.mark_origins(Origin::TaskType);
            Ok(draft)
        };
        self.prepared(draft())
    }

    /// Prepares a command: one attempt unless told otherwise. Only workers that allow commands run it.
    #[expect(clippy::needless_pass_by_value, reason = "as `enqueue`")]
    pub fn exec<Q>(&self, queue: Q, command: ExecPayload) -> Enqueue<RawOutput>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        let draft = || {
            let queue = queue.try_into()?;
            if command.argv.is_empty() {
                return Err(Error::invalid("argv", "is empty: it names no command"));
            }
            let spec = Spec { policy: Policy::command(), bounds: Bounds::command(), ..Spec::default() };
            let payload = task::encode("payload", &command)?;
            let mut draft = Draft::new(queue, TaskName::new(EXEC_NAME)?, payload, spec);
            draft.body.kind = TaskKind::Exec;
            Ok(draft)
        };
        self.prepared(draft())
    }

    pub(crate) fn prepared<O>(&self, draft: Result<Draft>) -> Enqueue<O> {
        Enqueue { producer: self.clone(), draft, output: PhantomData }
    }

    /// Enqueues many tasks, of any queues, and answers for each in order: one that is refused fails no other.
    ///
    /// Tasks of one queue keep their order, unless Redis refuses one call while a younger one is on its way. The deadline counts for each 256 of them anew; once some pass it,
    /// those after them are not tried.
    pub async fn enqueue_all<O>(
        &self,
        tasks: impl IntoIterator<Item = Enqueue<O>>,
    ) -> Vec<Result<TaskHandle<O>>> {
        self.enqueue_drafts(tasks.into_iter().map(|task| task.draft).collect()).await
    }

    pub(crate) async fn enqueue_drafts<O>(&self, drafts: Vec<Result<Draft>>) -> Vec<Result<TaskHandle<O>>> {
        let mut answers: Vec<Option<Result<TaskHandle<O>>>> = drafts.iter().map(|_| None).collect();
        let mut queues: HashMap<QueueName, Vec<(usize, Checked)>> = HashMap::new();
        for (at, draft) in drafts.into_iter().enumerate() {
            match draft.and_then(|draft| self.checked(draft)) {
                Ok((queue, checked)) => queues.entry(queue).or_default().push((at, checked)),
                Err(error) => answers[at] = Some(Err(error)),
            }
        }
        let per_queue = queues.into_iter().map(|(queue, tasks)| self.enqueue_queue(queue, tasks));
        for (at, answer) in join_all(per_queue).await.into_iter().flatten() {
            answers[at] = Some(answer);
        }
        answers.into_iter().map(|answer| answer.unwrap_or(Err(Error::Closed))).collect()
    }

    async fn enqueue_queue<O>(
        &self,
        queue: QueueName,
        tasks: Vec<(usize, Checked)>,
    ) -> Vec<(usize, Result<TaskHandle<O>>)> {
        let mut answers = Vec::with_capacity(tasks.len());
        let mut tasks = tasks.into_iter().peekable();
        let mut late = false;
        while tasks.peek().is_some() {
            let (mut places, mut chunk) = (Vec::new(), Vec::new());
            for (at, Checked { task, fresh }) in tasks.by_ref().take(BULK_CHUNK) {
                places.push((at, task.id.clone(), fresh));
                chunk.push(task);
            }
            let results = if late {
                chunk.iter().map(|_| Err(self.not_tried())).collect()
            } else {
                self.batcher().enqueue(&queue, chunk, self.deadline()).await
            };
            late |= results.iter().any(|r| matches!(r, Err(Error::Deadline { .. })));
            for ((at, id, fresh), result) in places.into_iter().zip(results) {
                answers.push((at, result.and_then(|enqueued| self.accepted(&queue, id, fresh, enqueued))));
            }
        }
        answers
    }

    fn not_tried(&self) -> Error {
        let reason = "not tried: earlier tasks of this call had no answer in time".to_owned();
        Error::Deadline { after: self.deadline(), last: Box::new(RedisError::RetryLater { reason }) }
    }

    async fn enqueue_one<O>(&self, draft: Draft) -> Result<TaskHandle<O>> {
        let (queue, Checked { task, fresh }) = self.checked(draft)?;
        let id = task.id.clone();
        let mut answers = self.batcher().enqueue(&queue, vec![task], self.deadline()).await;
        let enqueued = answers.pop().unwrap_or(Err(Error::Closed))?;
        self.accepted(&queue, id, fresh, enqueued)
    }

    /// Everything that can be refused without asking Redis is refused here.
    fn checked(&self, draft: Draft) -> Result<(QueueName, Checked)> {
        draft.body.validate(self.limits())?;
        draft.when.validate()?;
        if let Some(deadline) = draft.body.bounds.deadline {
            deadline.refuse_past(wall_ms())?;
        }
        let fresh = draft.id.is_none();
        let id = draft.id.unwrap_or_else(TaskId::fresh);
        Ok((draft.queue, Checked { task: NewTask { id, body: draft.body, when: draft.when }, fresh }))
    }

    fn accepted<O>(
        &self,
        queue: &QueueName,
        id: TaskId,
        fresh: bool,
        enqueued: Enqueued,
    ) -> Result<TaskHandle<O>> {
        match enqueued {
            // Nobody else has the id: the reply of an earlier try of this very call was lost.
            Enqueued::Exists(KnownState::Is(state)) if fresh => {
                Ok(TaskHandle::new(self.clone(), queue.clone(), id, Some(Enqueued::Created(state))))
            }
            Enqueued::Created(_) | Enqueued::Exists(_) => {
                Ok(TaskHandle::new(self.clone(), queue.clone(), id, Some(enqueued)))
            }
            Enqueued::Conflict(state) => Err(Error::Conflict { queue: queue.clone(), id, state }),
            Enqueued::Corrupt => Err(Error::Corrupt { queue: queue.clone(), id }),
        }
    }
}

impl<O> Enqueue<O> {
    /// Changes the draft, unless something was wrong already: the first error is the one told.
    fn with(mut self, change: impl FnOnce(&mut Draft) -> Result<()>) -> Self {
        if let Ok(draft) = &mut self.draft
            && let Err(error) = change(draft)
        {
            self.draft = Err(error);
        }
        self
    }

    fn with_policy(self, bound: Bound, change: impl FnOnce(&mut Policy)) -> Self {
        self.with(|draft| {
            change(&mut draft.body.policy);
            draft.body.origins.set(bound, Origin::Caller);
            Ok(())
        })
    }

    /// The queue: `[A-Za-z0-9._-]{1,64}`. Defaults to the task type's.
    pub fn queue<Q>(self, queue: Q) -> Self
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        self.with(|draft| {
            draft.queue = queue.try_into()?;
            Ok(())
        })
    }

    /// The caller's own id, at most 64 bytes of text without control characters. Defaults to a fresh UUIDv7.
    ///
    /// Enqueued again with the same name, payload and spec it is the same task, in whatever state; with other
    /// content it is an [`Error::Conflict`].
    pub fn id<I>(self, id: I) -> Self
    where
        I: TryInto<TaskId>,
        Error: From<I::Error>,
    {
        self.with(|draft| {
            draft.id = Some(id.try_into()?);
            Ok(())
        })
    }

    /// The task may run no sooner than so long after Redis accepts it: at most ten years. Defaults to at once.
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|draft| {
            draft.when = When::After(delay);
            Ok(())
        })
    }

    /// The task may run no sooner than at this time, ms since 1970 by Redis's clock. Defaults to at once.
    pub fn at(self, ms: u64) -> Self {
        self.with(|draft| {
            draft.when = When::At(ms);
            Ok(())
        })
    }

    /// Before or after which other tasks. Defaults to the task type's, else normal.
    pub fn priority(self, priority: Priority) -> Self {
        self.with(|draft| {
            draft.body.priority = priority;
            Ok(())
        })
    }

    /// Whom the task belongs to: at most 256 bytes of text without control characters. Defaults to nobody.
    pub fn owner<N>(self, owner: N) -> Self
    where
        N: TryInto<Owner>,
        Error: From<N::Error>,
    {
        self.with(|draft| {
            draft.body.owner = Some(owner.try_into()?);
            Ok(())
        })
    }

    /// What the task takes its turn in, such as a session or a customer: at most 256 bytes of text without control characters.
    /// The tasks of a lane run one at a time, in the order in which they came, also across retries. Defaults to none.
    pub fn lane<N>(self, lane: N) -> Self
    where
        N: TryInto<Lane>,
        Error: From<N::Error>,
    {
        self.with(|draft| {
            draft.body.lane = Some(lane.try_into()?);
            Ok(())
        })
    }

    fn with_bounds(self, bound: Bound, change: impl FnOnce(&mut Bounds)) -> Self {
        self.with(|draft| {
            change(&mut draft.body.bounds);
            draft.body.origins.set(bound, Origin::Caller);
            Ok(())
        })
    }

    /// The task ends so long after Redis accepts it, wherever it is, as `timed_out`: 1 ms to ten years; queueing and
    /// retries count. A retry by a person gives it as long again. Defaults to never.
    pub fn deadline(self, after: Duration) -> Self {
        self.with_bounds(Bound::Deadline, |bounds| bounds.deadline = Some(Deadline::After(after)))
    }

    /// The same at a time, ms since 1970 by Redis's clock. One that had passed more than a minute before, by this
    /// machine's clock, is refused as [`Error::Invalid`].
    pub fn deadline_at(self, ms: u64) -> Self {
        self.with_bounds(Bound::Deadline, |bounds| bounds.deadline = Some(Deadline::At(ms)))
    }

    /// Tells of a run that gives no sign of life (output, progress, phase, charge, checkpoint) for so long, once a
    /// silence: 1 ms to ten years. Defaults to never, for commands to 120 s.
    pub fn silence_notice(self, after: impl Into<Option<Duration>>) -> Self {
        let after = after.into();
        self.with_bounds(Bound::SilenceNotice, |bounds| bounds.silence_notice = after)
    }

    /// Ends a run that gives no sign of life for so long, as `stalled`: 1 ms to ten years. Defaults to never.
    pub fn stall_timeout(self, after: impl Into<Option<Duration>>) -> Self {
        let after = after.into();
        self.with_bounds(Bound::StallTimeout, |bounds| bounds.stall_timeout = after)
    }

    /// What the task may spend of something over all its attempts, by `Context::spend`: at most 16 names, each up to
    /// 2^53 - 1. A charge above the rest ends it as `budget_exceeded`. Defaults to none.
    pub fn budget<N>(self, name: N, most: u64) -> Self
    where
        N: TryInto<BudgetName>,
        Error: From<N::Error>,
    {
        self.with(|draft| {
            draft.body.bounds.budgets.insert(name.try_into()?, most);
            draft.body.origins.set(Bound::Budgets, Origin::Caller);
            Ok(())
        })
    }

    /// Adds a header that the handler sees, such as trace context: 32 of at most 1 KiB each by default.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|draft| {
            draft.body.headers.insert(name.into(), value.into());
            Ok(())
        })
    }

    /// All bounds, the priority and the result rule at once, in place of the task type's.
    pub fn spec(self, spec: Spec) -> Self {
        self.with(|draft| {
            (draft.body.policy, draft.body.priority) = (spec.policy, spec.priority);
            draft.body.bounds = spec.bounds;
            draft.body.result_rule = spec.result_rule;
            draft.body.origins = spec.origins;
            draft.body.mark_origins(Origin::Caller);
            Ok(())
        })
    }

    /// What the handler's output must be like for the task to complete; else it fails as `invalid_result`, and is not
    /// retried. A schema is compiled at the `.await`. Defaults to the task type's, else anything; commands have none.
    pub fn result_rule(self, rule: ResultRule) -> Self {
        self.with(|draft| {
            draft.body.result_rule = rule;
            Ok(())
        })
    }

    /// Failures that end the task: 1 to 10,000. Defaults to the task type's, else 5, for commands 1.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.with_policy(Bound::MaxAttempts, |policy| policy.max_attempts = attempts)
    }

    /// How often the task may lose its worker and be started again: 0 to 10,000. Defaults to the type's, else 3.
    pub fn max_reclaims(self, reclaims: u32) -> Self {
        self.with_policy(Bound::MaxReclaims, |policy| policy.max_reclaims = reclaims)
    }

    /// How long one run may take: 1 ms to ten years. Defaults to the task type's, else 24 h.
    pub fn run_timeout(self, timeout: Duration) -> Self {
        self.with_policy(Bound::RunTimeout, |policy| policy.run_timeout = Some(timeout))
    }

    /// One run may take for ever.
    pub fn no_run_timeout(self) -> Self {
        self.with_policy(Bound::RunTimeout, |policy| policy.run_timeout = None)
    }

    /// Between cancellation (TERM) and KILL: at most ten years. Defaults to the task type's, else 30 s.
    pub fn stop_grace(self, grace: Duration) -> Self {
        self.with_policy(Bound::StopGrace, |policy| policy.stop_grace = grace)
    }

    /// Whether the task is started again after its worker died. Defaults to the task type's, else requeue.
    pub fn on_lease_expired(self, what: OnLeaseExpired) -> Self {
        self.with_policy(Bound::OnLeaseExpired, |policy| policy.on_lease_expired = what)
    }

    /// The delay between attempts. Defaults to the task type's, else 1 s doubling up to 5 min.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.with_policy(Bound::Backoff, |policy| policy.backoff = backoff)
    }
}

impl<O: 'static> IntoFuture for Enqueue<O> {
    type Output = Result<TaskHandle<O>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { self.producer.enqueue_one(self.draft?).await }.boxed()
    }
}
