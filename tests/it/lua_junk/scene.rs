//! A queue with tasks in all states, and a call of each kind that does something.

use leasehold_common::script::{self, ScriptSpec};
use leasehold_common::store::{QueueSettings, RetryAdvice, When};
use leasehold_tests::queue::{Answer, Hand, Queue, V, args, done, failed, fixed, ms, task_with};
use serde_json::{Value, json};

/// The data of a `finish`, packed.
pub(crate) fn said(data: &Value) -> Vec<u8> {
    rmp_serde::to_vec(data).expect("JSON can be packed")
}

/// Tasks in all the states that the calls below act on, each call with something to do.
pub(crate) struct Scene {
    pub(crate) queue: Queue,
    pub(crate) run: String,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let settings = QueueSettings { retain_completed: ms(1000), ..QueueSettings::default() };
        let mut scene = Self { queue: Queue::with(settings).await, run: String::new() };
        scene.again().await;
        scene
    }

    pub(crate) async fn again(&mut self) {
        let (queue, hand) = (&self.queue, Hand::new("w"));
        queue.reset().await;
        queue.seed(&["fail", "old", "run", "run2"]).await;
        let runs = queue.claim(&hand, 4).await;
        queue.finish(&hand, failed(&runs[0], RetryAdvice::Fatal)).await;
        queue.finish(&hand, done(&runs[1])).await;
        self.run = runs[2].run.to_string();
        queue.advance(20_000);
        queue.seed(&["q", "q2"]).await;
        queue.enqueue(&[task_with("due", |t| t.when = When::At(queue.now() + 1))]).await;
        queue.advance(1);
    }

    /// A call of each kind that does something.
    pub(crate) fn calls(&self) -> Vec<(&'static ScriptSpec, Vec<Vec<u8>>)> {
        let run = self.run.as_str();
        let call = |script, words: &[&str]| (script, args(words));
        let mut broke = args(&[V, "inc-w", "run", run, "failed"]);
        broke.push(said(&json!({"k": "error", "d": "5", "m": "broke", "x": {"exit_code": 1}})));
        let mut all = args(&[V, "full", "new", "high", &fixed("body"), ""]);
        all.push(said(
            &json!({"lane": "lane", "owner": "me", "deadline": "+9000", "silence": 1000, "stall": 5000,
            "budgets": {"calls": 10}}),
        ));
        vec![
            (&script::ENQUEUE, all),
            call(&script::REGISTER, &[V, "15000", "1", "2", "3", "4"]),
            call(&script::ENQUEUE, &[V, "full", "new", "normal", &fixed("body"), "+5", ""]),
            call(&script::CLAIM, &[V, "inc-w", "w", "2", "3", "1048576", "open", "0"]),
            call(&script::HEARTBEAT, &[V, "inc-w", "run", run]),
            (&script::FINISH, broke),
            call(&script::FINISH, &[V, "inc-w", "run", run, "completed", "out"]),
            call(&script::UPDATE, &[V, "inc-w", "progress", "run", run, "1", "0.5", "half"]),
            call(&script::UPDATE, &[V, "inc-w", "log", "run", run, "0", "out", "text"]),
            call(&script::UPDATE, &[V, "inc-w", "phase", "run", run, "1", "5000", "build"]),
            call(&script::UPDATE, &[V, "inc-w", "checkpoint", "run", run, "1", "", "half"]),
            call(&script::UPDATE, &[V, "inc-w", "unkillable", "run", run, "0", "", "17"]),
            call(&script::ABORT, &[V, "run", "request", "5", "me", "why", ""]),
            call(&script::ABORT, &[V, "q", "request", "5", "me", "why", ""]),
            call(&script::LANE, &[V, "lane", "2"]),
            call(&script::SWEEP, &[V, "10"]),
            call(&script::RETRY, &[V, "fail", "3", "keep"]),
            call(&script::DELETE, &[V, "fail", "3"]),
            call(&script::CLEANUP, &[V, "10"]),
            call(&script::INSPECT, &[V, "run"]),
        ]
    }

    #[track_caller]
    pub(crate) fn send(&self, script: &ScriptSpec, words: &[Vec<u8>], case: &str) -> Answer {
        let answer = self.queue.try_script(script, words);
        answer.unwrap_or_else(|error| panic!("{} with {case}: {error}", script.name))
    }

    /// Puts something of a wrong type in a key's place.
    pub(crate) fn spoil(&self, suffix: &str) {
        let key = self.queue.key(suffix);
        self.queue.redis::<()>(&["DEL", &key]);
        self.queue.redis::<()>(&["HSET", &key, "wrong", "type"]);
        if matches!(suffix, "totals" | "pulse" | "config" | "lanes") {
            self.queue.redis::<()>(&["DEL", &key]);
            self.queue.redis::<()>(&["SET", &key, "wrong type"]);
        }
    }
}
