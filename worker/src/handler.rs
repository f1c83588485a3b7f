//! Handlers: closures over typed tasks, found by the task's name.

use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use leasehold_common::name::TaskName;
use leasehold_common::task::{Task, decode, encode};

use crate::context::Context;
use crate::error::TaskError;

/// What became of a handler's call.
#[derive(Debug)]
pub(crate) enum Handled {
    /// Its output, MessagePack.
    Done(Vec<u8>),
    /// It failed.
    Failed(TaskError),
    /// It was never called: the payload is not what it takes.
    Unreadable(String),
    /// Its output cannot be encoded.
    InvalidResult(String),
}

/// A handler of any task.
pub(crate) trait Handler: Send + Sync {
    fn call(&self, context: Context, payload: &[u8]) -> BoxFuture<'static, Handled>;
}

struct Typed<T, F> {
    function: F,
    task: PhantomData<fn(T)>,
}

impl<T, F, Fut, E> Handler for Typed<T, F>
where
    T: Task,
    F: Fn(Context, T) -> Fut + Send + Sync,
    Fut: Future<Output = Result<T::Output, E>> + Send + 'static,
    E: Into<TaskError> + Send + 'static,
{
    fn call(&self, context: Context, payload: &[u8]) -> BoxFuture<'static, Handled> {
        let task = match decode::<T>("payload", payload) {
            Ok(task) => task,
            Err(error) => return std::future::ready(Handled::Unreadable(error.to_string())).boxed(),
        };
        let running = (self.function)(context, task);
        async move {
            match running.await {
                Ok(output) => match encode("result", &output) {
                    Ok(bytes) => Handled::Done(bytes),
                    Err(error) => Handled::InvalidResult(error.to_string()),
                },
                Err(error) => Handled::Failed(error.into()),
            }
        }
        .boxed()
    }
}

/// The handlers of a worker.
#[derive(Clone, Default)]
pub(crate) struct Handlers(BTreeMap<TaskName, Arc<dyn Handler>>);

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Handlers {
    /// Adds a handler of `T`.
    pub(crate) fn add<T, F, Fut, E>(&mut self, function: F) -> leasehold_common::Result<()>
    where
        T: Task,
        F: Fn(Context, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T::Output, E>> + Send + 'static,
        E: Into<TaskError> + Send + 'static,
    {
        let name = TaskName::new(T::NAME)?;
        if self.0.contains_key(&name) {
            let reason = format!("{name} has a handler already ({})", type_name::<T>());
            return Err(leasehold_common::Error::invalid("task name", reason));
        }
        self.0.insert(name, Arc::new(Typed { function, task: PhantomData }));
        Ok(())
    }

    /// The handler of a name.
    pub(crate) fn of(&self, name: &TaskName) -> Option<&Arc<dyn Handler>> {
        self.0.get(name)
    }
}
