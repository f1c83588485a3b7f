//! Every tag and item tag that a script declares is answered, and no other.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_common::name::BudgetName;
use leasehold_common::script::{self, ScriptSpec};
use leasehold_common::store::{AbortRequest, NewTask, RetryAdvice};
use leasehold_tests::queue::{Answer, Hand, NEWER_V, Queue, V, done, failed, fixed, id, task, task_with};

/// What was seen of each script: tags and item tags.
#[derive(Default)]
struct Seen(BTreeMap<&'static str, (BTreeSet<String>, BTreeSet<String>)>);

impl Seen {
    fn note(&mut self, script: &ScriptSpec, answer: &Answer) {
        let (tags, items) = self.0.entry(script.name).or_default();
        tags.insert(answer.tag().to_owned());
        if answer.tag() == "ok" {
            items.extend(answer.items().into_iter().map(str::to_owned));
        }
    }

    fn call(&mut self, queue: &Queue, script: &ScriptSpec, words: &[&str]) {
        self.note(script, &queue.script(script, words));
    }
}

/// A call of each script that is answered `ok` whatever there is.
fn harmless(script: &ScriptSpec) -> Vec<&'static str> {
    match script.name {
        "register" => vec![V, "15000", "1", "1", "1", "1"],
        "claim" => vec![V, "inc-x", "x", "1", "0", "100", "open", "0"],
        "heartbeat" | "finish" => vec![V, "inc-x"],
        "enqueue" => vec![V, "short"],
        "update" => vec![V, "inc-x", "progress"],
        "sweep" | "cleanup" => vec![V, "10"],
        "lane" => vec![V, "lane", "1"],
        "repair" => vec![V, "me"],
        _ => vec![V],
    }
}

fn shared_key(script: &ScriptSpec) -> &'static str {
    match script.name {
        "register" => "pulse",
        // It reads every other key by pcall, and tells of it.
        "inspect" => "config",
        "update" | "heartbeat" => "gone",
        _ => "events",
    }
}

/// Tags that any script may answer, but `wrongtype`.
fn refusals(queue: &Queue, seen: &mut Seen) {
    let config = queue.key("config");
    for script in script::ALL {
        let call = harmless(script);
        seen.call(queue, script, &call);
        seen.call(queue, script, &["junk"]);
        queue.redis::<()>(&["HSET", &config, "v", NEWER_V]);
        seen.call(queue, script, &call);
        queue.redis::<()>(&["RENAME", &config, "aside"]);
        if script.name != "register" {
            seen.call(queue, script, &call);
        }
        queue.redis::<()>(&["RENAME", "aside", &config]);
        queue.redis::<()>(&["HSET", &config, "v", V]);
    }
}

fn wrong_types(queue: &Queue, seen: &mut Seen) {
    for script in script::ALL.into_iter().filter(|s| s.tags.contains(&"wrongtype")) {
        let (key, aside) = (queue.key(shared_key(script)), "aside");
        queue.redis::<()>(&["SET", aside, "wrong"]);
        let there: bool = queue.redis(&["EXISTS", &key]);
        if there {
            queue.redis::<()>(&["RENAME", &key, "kept"]);
        }
        queue.redis::<()>(&["RENAME", aside, &key]);
        let config = queue.key("config");
        if script.name == "register" {
            queue.redis::<()>(&["RENAME", &config, "config-kept"]);
        }
        seen.call(queue, script, &harmless(script));
        if script.name == "register" {
            queue.redis::<()>(&["RENAME", "config-kept", &config]);
        }
        queue.redis::<()>(&["DEL", &key]);
        if there {
            queue.redis::<()>(&["RENAME", "kept", &key]);
        }
    }
}

async fn items(queue: &Queue, seen: &mut Seen) {
    let (a, b) = (Hand::new("a"), Hand::new("b"));
    queue.redis::<()>(&["SET", &queue.key("task:bad"), "junk"]);
    for t in ["e1", "bad", "e1"] {
        seen.call(queue, &script::ENQUEUE, &[V, "short", t, "normal", &fixed("body")]);
    }
    seen.call(queue, &script::ENQUEUE, &[V, "short", "e1", "normal", &fixed("other")]);
    let run = queue.claim(&a, 1).await.remove(0);
    let (inc, run_id) = (a.inc.as_str(), run.run.as_str());
    let beats = |task: &str, run: &str, inc: &str| queue.script(&script::HEARTBEAT, &[V, inc, task, run]);
    let tell = |task: &str, inc: &str| {
        queue.script(&script::UPDATE, &[V, inc, "progress", task, run_id, "1", "", "text"])
    };
    let ends =
        |task: &str, inc: &str| queue.script(&script::FINISH, &[V, inc, task, run_id, "completed", "out"]);
    for (task, inc) in [("e1", inc), ("e1", b.inc.as_str()), ("bad", inc)] {
        seen.note(&script::HEARTBEAT, &beats(task, run_id, inc));
        seen.note(&script::UPDATE, &tell(task, inc));
    }
    seen.call(queue, &script::RETRY, &[V, "e1", "2", "keep"]);
    seen.call(queue, &script::DELETE, &[V, "e1", "2"]);
    for (task, request) in [("e1", "r1"), ("none", "r2"), ("bad", "r3")] {
        seen.call(queue, &script::ABORT, &[V, task, request, "", "me", "why", ""]);
    }
    seen.note(&script::HEARTBEAT, &beats("e1", run_id, inc));
    for (task, inc) in [("e1", b.inc.as_str()), ("e1", inc), ("e1", inc), ("bad", inc)] {
        seen.note(&script::FINISH, &ends(task, inc));
    }
    seen.note(&script::HEARTBEAT, &beats("e1", run_id, inc));
    seen.call(queue, &script::ABORT, &[V, "e1", "r4", "", "me", "why", ""]);
    queue.seed(&["q1"]).await;
    seen.call(queue, &script::ABORT, &[V, "q1", "r5", "", "me", "why", ""]);
    let rev = queue.record("e1").await.rev.to_string();
    for (task, rev) in [("e1", "1"), ("none", "1"), ("bad", "1")] {
        seen.call(queue, &script::RETRY, &[V, task, rev, "keep"]);
        seen.call(queue, &script::DELETE, &[V, task, rev]);
    }
    seen.call(queue, &script::DELETE, &[V, "e1", &rev]);
    seen.note(&script::FINISH, &ends("e1", inc));
    seen.note(&script::HEARTBEAT, &beats("e1", run_id, inc));
    seen.note(&script::UPDATE, &tell("e1", inc));
    let rev = queue.record("q1").await.rev.to_string();
    seen.call(queue, &script::RETRY, &[V, "q1", &rev, "resume"]);
    seen.call(queue, &script::RETRY, &[V, "q1", &rev, "keep"]);
    let budget = |t: &mut NewTask| {
        t.body.bounds.budgets = [(BudgetName::new("calls").expect("a name"), 1)].into();
    };
    queue.claim(&a, 1).await;
    seen.call(queue, &script::REPAIR, &[V, "me", "none", "", "q1", "", "bad", ""]);
    queue.redis::<()>(&["DEL", &queue.key("running")]);
    queue.redis::<()>(&["RPUSH", &queue.key("errors:none"), "x"]);
    seen.call(queue, &script::REPAIR, &[V, "me", "none", "", "q1", ""]);
    let run = queue.running(&b, task_with("spends", budget)).await;
    for (number, name) in [("1", "tokens"), ("2", "calls")] {
        let words = [V, b.inc.as_str(), "spend", "spends", run.run.as_str(), number, "2", name];
        seen.call(queue, &script::UPDATE, &words);
    }
    queue.redis::<()>(&["DEL", &queue.key("task:bad")]);
}

#[tokio::test]
async fn every_declared_tag_is_answered_and_no_other() {
    let queue = Queue::start().await;
    let mut seen = Seen::default();
    refusals(&queue, &mut seen);
    wrong_types(&queue, &mut seen);
    items(&queue, &mut seen).await;
    seen.call(&queue, &script::CLAIM, &[V, "inc-y", "y", "3", "0", "100", "open", "0"]);
    seen.call(&queue, &script::CLAIM, &[V, "inc-y", "y", "2", "0", "100", "open", "0"]);
    seen.call(&queue, &script::CLAIM, &[V, "inc-y", "y", "3", "0", "100", "closing", "0"]);
    seen.call(&queue, &script::CLAIM, &[V, "inc-y", "y", "4", "0", "100", "open", "0"]);
    queue.script(&script::SWEEP, &[V, "10", "inc-y", "0"]);
    seen.call(&queue, &script::CLAIM, &[V, "inc-y", "y", "5", "0", "100", "open", "0"]);
    for script in script::ALL {
        let (tags, items) = &seen.0[script.name];
        assert_eq!(tags, &declared(script.tags), "tags of {}", script.name);
        assert_eq!(items, &declared(script.item_tags), "item tags of {}", script.name);
    }
    queue.check().await;
}

fn declared(tags: &[&str]) -> BTreeSet<String> {
    tags.iter().map(|tag| (*tag).to_owned()).collect()
}

/// The whole life once, through the store: what was said at each step.
#[tokio::test]
async fn a_task_goes_through_its_life_as_the_events_tell() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.enqueue(&[task("t"), task("u")]).await;
    let run = queue.claim(&hand, 2).await;
    queue.finish(&hand, failed(&run[0], RetryAdvice::Policy)).await;
    queue.store.abort(&queue.name, &[AbortRequest::new(id("u"), "me", "why")]).await.unwrap();
    queue.finish(&hand, done(&run[1])).await;
    queue.advance(1000);
    let run = queue.claim(&hand, 1).await;
    assert_eq!((run[0].attempt, run[0].failures, run[0].reclaims), (2, 1, 0));
    queue.finish(&hand, done(&run[0])).await;
    let steps = [
        ">queued",
        "queued>running",
        "running>scheduled",
        "scheduled>queued",
        "queued>running",
        "running>completed",
    ];
    assert_eq!(queue.moves("t"), steps);
    assert_eq!(queue.moves("u"), [">queued", "queued>running", "running>aborting", "aborting>completed"]);
    let record = queue.record("u").await;
    assert!(record.stop.is_some_and(|s| s.by.as_deref() == Some("me")), "the request stays on record");
    queue.check().await;
}
