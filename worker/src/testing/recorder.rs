//! What takes what a run says in a trial, and answers as Redis would.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use leasehold_common::Result;
use leasehold_common::name::{BudgetName, PhaseName};
use leasehold_common::record::BudgetUse;
use leasehold_common::store::{SpendAnswer, UpdateAnswer};

use crate::run::RunKey;
use crate::voice::Voice;

/// A phase as the handler entered it.
pub(super) type Entered = (PhaseName, Option<Duration>);

#[derive(Debug, Default)]
pub(super) struct Recorder {
    told: Mutex<Told>,
}

/// What was said so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub(super) phases: Vec<Entered>,
    pub(super) budgets: BTreeMap<BudgetName, BudgetUse>,
    pub(super) checkpoint: Option<Vec<u8>>,
}

impl Recorder {
    /// `spent`: what earlier attempts have spent.
    pub(super) fn new(
        budgets: &BTreeMap<BudgetName, u64>,
        spent: &BTreeMap<String, u64>,
        checkpoint: Option<Vec<u8>>,
    ) -> Self {
        let held = |(name, most): (&BudgetName, &u64)| {
            let spent = spent.get(name.as_str()).copied().unwrap_or_default();
            (name.clone(), BudgetUse { most: *most, spent })
        };
        let budgets = budgets.iter().map(held).collect();
        Self { told: Mutex::new(Told { budgets, checkpoint, ..Told::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn told(&self) -> Told {
        self.lock().clone()
    }

    fn charge(&self, budget: &BudgetName, charges: &[u64]) -> SpendAnswer {
        let mut told = self.lock();
        let Some(held) = told.budgets.get_mut(budget) else { return SpendAnswer::Unknown };
        for (taken, charge) in charges.iter().enumerate() {
            if *charge > held.rest() {
                return SpendAnswer::Exceeded { taken, rest: held.rest() };
            }
            held.spent += charge;
        }
        SpendAnswer::Taken { rest: held.rest() }
    }
}

impl Voice for Recorder {
    fn enter_phase<'a>(
        &'a self,
        _: &'a RunKey,
        _: u64,
        phase: &'a PhaseName,
        timeout: Option<Duration>,
    ) -> BoxFuture<'a, Result<UpdateAnswer>> {
        self.lock().phases.push((phase.clone(), timeout));
        ready(Ok(UpdateAnswer::Ok)).boxed()
    }

    fn spend<'a>(
        &'a self,
        _: &'a RunKey,
        _: u64,
        budget: &'a BudgetName,
        charges: &'a [u64],
    ) -> BoxFuture<'a, Result<SpendAnswer>> {
        ready(Ok(self.charge(budget, charges))).boxed()
    }

    fn set_checkpoint<'a>(
        &'a self,
        _: &'a RunKey,
        _: u64,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<UpdateAnswer>> {
        self.lock().checkpoint = Some(bytes.to_vec());
        ready(Ok(UpdateAnswer::Ok)).boxed()
    }

    fn checkpoint<'a>(&'a self, _: &'a RunKey) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        ready(Ok(self.lock().checkpoint.clone())).boxed()
    }

    fn unkillable<'a>(&'a self, _: &'a RunKey, _: &'a str) -> BoxFuture<'a, Result<UpdateAnswer>> {
        ready(Ok(UpdateAnswer::Ok)).boxed()
    }
}
