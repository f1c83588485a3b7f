//! The real scripts as an [`Oracle`]: a private Redis, its clock driven, and a store that is asked by blocking.

use futures::executor::block_on;
use leasehold_common::store::Store;
use leasehold_tests::queue::{Queue, START, breaches};
use leasehold_tests::redis_server::{RedisBuilder, RedisServer};
use tokio::runtime::Runtime;

use crate::caller::{Caller, Made, Runs};
use crate::direct::Direct;
use crate::view::View;
use crate::words::{Answer, Call, Oracle, Seen, World};

/// The real scripts. Not to be used inside an async runtime: it has one of its own.
pub struct Real {
    /// Who makes the calls.
    pub caller: Caller,
    /// What its workers were told by claims.
    pub runs: Runs,
    /// The way to Redis.
    pub direct: Direct,
    queue: Queue,
    runtime: Runtime,
    store: Store,
}

impl Real {
    /// A server of its own with an empty queue; the time is [`START`].
    pub fn start(world: World) -> Self {
        Self::on(RedisServer::builder().no_persistence(), world)
    }

    /// The same on a server of its own kind.
    pub fn on(server: RedisBuilder, world: World) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let queue = runtime.block_on(Queue::on(server, world.settings));
        let direct = Direct::new(queue.server.connection(), queue.keys().prefix());
        let store = Store::over(std::sync::Arc::new(direct.clone()), queue.store.namespace().clone());
        let store = store.with_settings(world.settings);
        Self { caller: Caller::new(world), runs: Runs::new(), direct, queue, runtime, store }
    }

    /// Everything anew, on the same server.
    pub fn reset(&mut self) {
        self.runs.clear();
        self.runtime.block_on(async {
            // After a restart the first call finds its connection broken.
            let register = || self.queue.store.register(&self.queue.name);
            if register().await.is_err() {
                register().await.expect("register");
            }
            self.queue.reset().await;
        });
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.caller.world
    }

    /// All keys as they are.
    pub fn view(&self) -> View {
        self.direct.view(false)
    }

    /// Restarts the server from what it has on disk.
    pub fn restart(&mut self) {
        self.queue.server.restart();
        self.queue.reconnect();
        self.direct.reconnect(self.queue.server.connection());
    }

    /// What its keys begin with.
    pub fn caller_prefix(&self) -> String {
        self.queue.keys().prefix().to_owned()
    }

    /// Before a limit of a lane is set: the checks of the queue know of it.
    pub fn expect(&self, call: &Call) {
        if let Call::Limit { task, limit } = call {
            self.queue.expect_limit(self.caller.world.tasks[*task].body.lane.as_ref(), *limit);
        }
    }

    /// Makes any call, for workers that know these runs.
    ///
    /// # Panics
    /// When the store fails.
    pub fn play_for(&self, runs: &Runs, call: &Call) -> Made {
        if let Call::Pass { ms } = call {
            self.queue.advance(*ms);
            return Answer::Passed.into();
        }
        self.expect(call);
        self.make(runs, call).unwrap_or_else(|error| panic!("{call:?}: {error}"))
    }

    /// Makes a call that is not the passing of time, for workers that know these runs.
    ///
    /// # Errors
    /// Those of the store: a script that fails or answers what it may not.
    pub fn make(&self, runs: &Runs, call: &Call) -> leasehold_common::Result<Made> {
        block_on(self.caller.make(&self.store, runs, call))
    }

    /// What is wrong with the queue, as the tests judge it; empty when nothing is.
    pub fn breaches(&self) -> Vec<String> {
        self.runtime.block_on(breaches(&self.queue))
    }

    /// Panics unless all invariants hold that tests and the doctor know.
    #[track_caller]
    pub fn check(&self) {
        self.runtime.block_on(self.queue.check());
    }
}

impl Oracle for Real {
    fn play(&mut self, call: &Call) -> Answer {
        let made = self.play_for(&self.runs, call);
        self.runs.extend(made.handed_out.into_iter().map(|one| (one.run, one.id)));
        made.answer
    }

    fn seen(&self) -> Seen {
        self.view().seen()
    }

    fn now(&self) -> u64 {
        debug_assert!(self.queue.now() >= START);
        self.queue.now()
    }
}
