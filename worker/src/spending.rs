//! Charges of one run. They leave the worker one call at a time, at most every 100 ms, and those that come meanwhile go
//! out together in the next one; the first of a quiet time goes out at once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold_common::name::BudgetName;
use leasehold_common::store::SpendAnswer;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::run::Run;
use crate::voice::{RunError, Voice, corrupt, until_answered};

/// Between two calls.
const PAUSE: Duration = Duration::from_millis(100);
/// Charges of one call.
const MOST_OF_A_CALL: usize = 256;

/// What is left of the budget, or why the charge was refused.
type Charged = Result<u64, RunError>;

#[derive(Debug)]
struct Charge {
    budget: BudgetName,
    amount: u64,
    answer: oneshot::Sender<Charged>,
}

#[derive(Debug, Default)]
struct Sending {
    number: u64,
    sent: Option<Instant>,
    /// What was sent and not answered: whoever sends next repeats it under its number, if its sender is gone.
    open: Vec<Charge>,
}

/// The charges of one run.
#[derive(Debug, Default)]
pub(crate) struct Spending {
    waiting: Mutex<VecDeque<Charge>>,
    sending: tokio::sync::Mutex<Sending>,
}

impl Spending {
    /// Charges a budget and waits for the answer.
    pub(crate) async fn charge(
        &self,
        run: &Run,
        voice: &dyn Voice,
        budget: BudgetName,
        amount: u64,
    ) -> Charged {
        let (answer, mut answered) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(Charge {
            budget,
            amount,
            answer,
        });
        loop {
            let mut sending = self.sending.lock().await;
            if let Ok(charged) = answered.try_recv() {
                return charged;
            }
            self.send(run, voice, &mut sending).await;
        }
    }

    /// Sends those that wait for one budget, in order, and tells them what was answered.
    async fn send(&self, run: &Run, voice: &dyn Voice, sending: &mut Sending) {
        if sending.open.is_empty() {
            if let Some(sent) = sending.sent {
                tokio::time::sleep_until(sent + PAUSE).await;
            }
            sending.open = self.take();
            sending.number += 1;
        }
        let Some(budget) = sending.open.first().map(|charge| charge.budget.clone()) else { return };
        let (number, amounts): (u64, Vec<u64>) =
            (sending.number, sending.open.iter().map(|charge| charge.amount).collect());
        let answer = until_answered(run, || voice.spend(&run.key, number, &budget, &amounts)).await;
        sending.sent = Some(Instant::now());
        for (at, charge) in sending.open.drain(..).enumerate() {
            // One whose handler is gone needs no answer.
            let _ = charge.answer.send(charged(&budget, at, &answer));
        }
    }

    /// The first that waits, and those for the same budget right behind it.
    fn take(&self) -> Vec<Charge> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = waiting.front().map(|charge| charge.budget.clone()) else { return Vec::new() };
        let alike = waiting.iter().take_while(|charge| charge.budget == first).count();
        waiting.drain(..alike.min(MOST_OF_A_CALL)).collect()
    }
}

fn charged(budget: &BudgetName, at: usize, answer: &Result<SpendAnswer, RunError>) -> Charged {
    match answer {
        Ok(SpendAnswer::Taken { rest }) => Ok(*rest),
        Ok(SpendAnswer::Exceeded { taken, rest }) if at < *taken => Ok(*rest),
        Ok(SpendAnswer::Exceeded { rest, .. }) => {
            Err(RunError::BudgetExceeded { budget: budget.clone(), rest: *rest })
        }
        Ok(SpendAnswer::Unknown) => Err(RunError::NoSuchBudget(budget.clone())),
        Ok(SpendAnswer::Lost | SpendAnswer::Gone) => Err(RunError::Lost),
        Ok(SpendAnswer::Corrupt) => Err(corrupt()),
        Err(error) => Err(error.clone()),
    }
}
