//! A transport that fails on purpose, for tests of everything above it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use redis::{Pipeline, Value};

use super::{Doorbell, Listener, ScriptCall, Transport};
use crate::error::{Error, Result};

/// What goes wrong with the next call of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: the call goes through.
    Pass,
    /// Redis cannot be reached; nothing is sent.
    Unreachable,
    /// Redis refuses for now; nothing is done.
    Refuse,
    /// Redis is full; nothing is done.
    Full,
    /// The call is done and its reply is lost.
    DropReply,
    /// The call is done twice; the second answer is given.
    Duplicate,
}

/// Wraps a transport and injects planned faults, per script, in order.
#[derive(Debug)]
pub struct FaultyTransport {
    inner: Arc<dyn Transport>,
    plan: Mutex<VecDeque<(&'static str, Fault)>>,
}

impl FaultyTransport {
    /// Nothing fails yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Transport>) -> Self {
        Self { inner, plan: Mutex::new(VecDeque::new()) }
    }

    /// Plans a fault for the next unplanned call of `script`.
    pub fn plan(&self, script: &'static str, fault: Fault) {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).push_back((script, fault));
    }

    /// How many planned faults have not come up yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn next_for(&self, script: &str) -> Fault {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let at = plan.iter().position(|(name, _)| *name == script);
        at.and_then(|i| plan.remove(i)).map_or(Fault::Pass, |(_, fault)| fault)
    }

    async fn run_one(&self, call: &ScriptCall) -> Result<Value> {
        let once = || async {
            let mut answers = self.inner.scripts(std::slice::from_ref(call)).await;
            answers.pop().unwrap_or_else(|| Err(Error::Protocol("no answer".into())))
        };
        match self.next_for(call.script.name) {
            Fault::Pass => once().await,
            Fault::Unreachable => {
                Err(Error::Unreachable { url: self.inner.address().to_owned(), reason: "injected".into() })
            }
            Fault::Refuse => Err(Error::RetryLater { reason: "LOADING injected".into() }),
            Fault::Full => Err(Error::StorageFull { reason: "OOM injected".into() }),
            Fault::DropReply => {
                once().await?;
                Err(Error::OutcomeUnknown { reason: "injected: reply dropped".into() })
            }
            Fault::Duplicate => {
                once().await?;
                once().await
            }
        }
    }
}

impl Transport for FaultyTransport {
    fn scripts<'a>(&'a self, calls: &'a [ScriptCall]) -> BoxFuture<'a, Vec<Result<Value>>> {
        async move {
            let mut answers = Vec::with_capacity(calls.len());
            for call in calls {
                answers.push(self.run_one(call).await);
            }
            answers
        }
        .boxed()
    }

    fn commands<'a>(&'a self, pipeline: &'a Pipeline) -> BoxFuture<'a, Result<Vec<Value>>> {
        self.inner.commands(pipeline)
    }

    fn doorbell(&self) -> BoxFuture<'_, Result<Doorbell>> {
        self.inner.doorbell()
    }

    fn listener(&self) -> BoxFuture<'_, Result<Listener>> {
        self.inner.listener()
    }

    fn address(&self) -> &str {
        self.inner.address()
    }
}
