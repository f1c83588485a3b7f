//! What runs tell of themselves and people ask for, in a line each; tasks of a lane.

use std::collections::BTreeMap;

use leasehold_common::name::{BudgetName, Lane, Owner, PhaseName};
use leasehold_common::store::{
    AbortAnswer, AbortRequest, ClaimedTask, NewTask, RetryAnswer, RetryMode, SpendAnswer, Teller,
    UpdateAnswer,
};

use super::{Hand, Queue, id, ms, task_with};

/// A lane.
pub fn lane(text: &str) -> Lane {
    Lane::new(text).expect("a lane")
}

/// An owner.
pub fn owner(text: &str) -> Owner {
    Owner::new(text).expect("an owner")
}

/// A budget's name.
pub fn budget(name: &str) -> BudgetName {
    BudgetName::new(name).expect("the name of a budget")
}

/// Budgets by name and maximum.
pub fn budgets(of: &[(&str, u64)]) -> BTreeMap<BudgetName, u64> {
    of.iter().map(|(name, most)| (budget(name), *most)).collect()
}

/// A task of the lane `l`, changed by `change`.
pub fn in_lane_with(name: &str, change: impl FnOnce(&mut NewTask)) -> NewTask {
    task_with(name, |task| {
        task.body.lane = Some(lane("l"));
        change(task);
    })
}

/// A task of the lane `l`.
pub fn in_lane(name: &str) -> NewTask {
    in_lane_with(name, |_| {})
}

fn teller<'a>(hand: &'a Hand, run: &'a ClaimedTask, number: u64) -> Teller<'a> {
    Teller { incarnation: &hand.inc, id: &run.id, run: &run.run, number }
}

impl Queue {
    /// The run enters a phase; a timeout of so many ms.
    pub async fn phase(
        &self,
        hand: &Hand,
        run: &ClaimedTask,
        number: u64,
        name: &str,
        timeout: Option<u64>,
    ) -> UpdateAnswer {
        let phase = PhaseName::new(name).expect("the name of a phase");
        let (teller, timeout) = (teller(hand, run, number), timeout.map(ms));
        self.store.enter_phase(&self.name, &teller, &phase, timeout).await.expect("phase")
    }

    /// The run spends.
    pub async fn spend(
        &self,
        hand: &Hand,
        run: &ClaimedTask,
        number: u64,
        name: &str,
        charges: &[u64],
    ) -> SpendAnswer {
        let teller = teller(hand, run, number);
        self.store.spend(&self.name, &teller, &budget(name), charges).await.expect("spend")
    }

    /// The run leaves a checkpoint.
    pub async fn leave_checkpoint(
        &self,
        hand: &Hand,
        run: &ClaimedTask,
        number: u64,
        bytes: &[u8],
    ) -> UpdateAnswer {
        let teller = teller(hand, run, number);
        self.store.set_checkpoint(&self.name, &teller, bytes).await.expect("checkpoint")
    }

    /// The checkpoint of a task.
    pub async fn checkpoint(&self, name: &str) -> Option<Vec<u8>> {
        self.store.checkpoint(&self.name, &id(name)).await.expect("read a checkpoint")
    }

    /// The worker says that process 17 of the run does not end.
    pub async fn unkillable(&self, hand: &Hand, run: &ClaimedTask) -> UpdateAnswer {
        let teller = teller(hand, run, 0);
        self.store.tell_unkillable(&self.name, &teller, "17").await.expect("unkillable")
    }

    /// A person aborts a task.
    pub async fn abort(&self, name: &str) -> AbortAnswer {
        self.abort_as(AbortRequest::new(id(name), "me", "why")).await
    }

    /// The same, as the request says.
    pub async fn abort_as(&self, request: AbortRequest) -> AbortAnswer {
        self.store.abort(&self.name, &[request]).await.expect("abort").remove(0)
    }

    /// A person retries a task as it is now.
    pub async fn retry(&self, name: &str, mode: RetryMode) -> RetryAnswer {
        let rev = self.record(name).await.rev;
        self.store.retry_with(&self.name, &[(id(name), rev)], mode).await.expect("retry").remove(0)
    }

    /// Sets the limit of the lane `l`; the one before.
    pub async fn limit_lane(&self, limit: u32) -> u32 {
        self.limit_lane_of(&lane("l"), limit).await
    }

    /// Sets the limit of a lane; the one before.
    pub async fn limit_lane_of(&self, lane: &Lane, limit: u32) -> u32 {
        self.expect_limit(Some(lane), limit);
        self.store.set_lane_limit(&self.name, lane, limit).await.expect("a limit")
    }

    /// Before a limit of a lane is set: it may have let so many go by the time that a lower one is.
    pub fn expect_limit(&self, lane: Option<&Lane>, limit: u32) {
        let Some(lane) = lane else { return };
        let key = self.keys().lane(lane);
        let hash = key.rsplit(':').next().expect("a hash").to_owned();
        let mut let_go = self.let_go.borrow_mut();
        let most = let_go.entry(hash).or_default();
        *most = u64::from(limit).max(*most);
    }

    /// States of tasks, as one text: `running waiting -`.
    pub async fn states(&self, names: &str) -> String {
        let mut states = Vec::new();
        for name in names.split(' ') {
            states.push(self.state(name).await.map_or_else(|| "-".to_owned(), |state| state.to_string()));
        }
        states.join(" ")
    }

    /// Why the events of a task happened, in order.
    pub fn whys(&self, task: &str) -> Vec<String> {
        let all = self.events().into_iter().flatten().filter(|m| m.id == task);
        all.map(|m| String::from_utf8_lossy(&m.why).into_owned()).collect()
    }
}
