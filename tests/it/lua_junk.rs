//! What a broken client, a foreign key or a newer release leaves: refused before any write, item by item.

use leasehold_common::script::{self, ScriptSpec};
use leasehold_common::store::{QueueSettings, RetryAdvice, When};
use leasehold_tests::queue::{Answer, Hand, Queue, args, done, failed, ms, task_with};

/// Tasks in all the states that the calls below act on, each call with something to do.
struct Scene {
    queue: Queue,
    run: String,
}

impl Scene {
    async fn new() -> Self {
        let settings = QueueSettings { retain_completed: ms(1000), ..QueueSettings::default() };
        let mut scene = Self { queue: Queue::with(settings).await, run: String::new() };
        scene.again().await;
        scene
    }

    async fn again(&mut self) {
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
    fn calls(&self) -> Vec<(&'static ScriptSpec, Vec<Vec<u8>>)> {
        let run = self.run.as_str();
        let call = |script, words: &[&str]| (script, args(words));
        vec![
            call(&script::REGISTER, &["1", "15000", "1", "2", "3", "4"]),
            call(&script::ENQUEUE, &["1", "new", "digest", "normal", "+5", "", "body"]),
            call(&script::CLAIM, &["1", "inc-w", "w", "2", "3", "1048576", "open", "0"]),
            call(&script::HEARTBEAT, &["1", "inc-w", "run", run]),
            call(&script::FINISH, &["1", "inc-w", "run", run, "failed", "error", "5", "broke", "x"]),
            call(&script::UPDATE, &["1", "inc-w", "progress", "run", run, "1", "0.5", "half"]),
            call(&script::UPDATE, &["1", "inc-w", "log", "run", run, "0", "out", "text"]),
            call(&script::ABORT, &["1", "run", "request", "5", "me", "why"]),
            call(&script::ABORT, &["1", "q", "request", "5", "me", "why"]),
            call(&script::SWEEP, &["1", "10"]),
            call(&script::RETRY, &["1", "fail", "3"]),
            call(&script::DELETE, &["1", "fail", "3"]),
            call(&script::CLEANUP, &["1", "10"]),
            call(&script::INSPECT, &["1", "run"]),
        ]
    }

    #[track_caller]
    fn send(&self, script: &ScriptSpec, words: &[Vec<u8>], case: &str) -> Answer {
        let answer = self.queue.try_script(script, words);
        answer.unwrap_or_else(|error| panic!("{} with {case}: {error}", script.name))
    }

    /// Puts something of a wrong type in a key's place.
    fn spoil(&self, suffix: &str) {
        let key = self.queue.key(suffix);
        self.queue.redis::<()>(&["DEL", &key]);
        self.queue.redis::<()>(&["HSET", &key, "wrong", "type"]);
        if matches!(suffix, "totals" | "pulse" | "config") {
            self.queue.redis::<()>(&["DEL", &key]);
            self.queue.redis::<()>(&["SET", &key, "wrong type"]);
        }
    }
}

const SHARED: [&str; 20] = [
    "config",
    "running",
    "scheduled",
    "gone",
    "events",
    "wake",
    "watch",
    "pulse",
    "totals",
    "token",
    "done:completed",
    "done:failed",
    "done:timed_out",
    "done:aborted",
    "ready:urgent",
    "ready:again",
    "ready:high",
    "ready:normal",
    "ready:low",
    "claim:inc-w",
];

/// Does the script's header name this key among those it uses?
fn derives(script: &ScriptSpec, suffix: &str) -> bool {
    let own = script.source().split(&format!("-- {}: ", script.name)).last().unwrap_or_default();
    let header: Vec<&str> = own.lines().take_while(|line| line.starts_with("--")).collect();
    let named = header.join(" ");
    let (family, _) = suffix.split_once(':').unwrap_or((suffix, ""));
    let pattern = match family {
        "ready" => "Q:ready:<level>",
        "done" => "Q:done:<state>",
        "claim" => "Q:claim:<incarnation>",
        _ => "",
    };
    let unused = suffix == "ready:again" && matches!(script.name, "enqueue" | "retry");
    let plain = named.split([' ', ',']).any(|word| word == format!("Q:{suffix}"));
    suffix == "config" || plain || (!pattern.is_empty() && named.contains(pattern) && !unused)
}

#[tokio::test]
async fn a_shared_key_of_a_wrong_type_is_refused_before_any_write() {
    let mut scene = Scene::new().await;
    for suffix in SHARED {
        for at in 0..scene.calls().len() {
            scene.again().await;
            let (script, words) = scene.calls().swap_remove(at);
            if script.name == "register" && suffix != "config" {
                scene.queue.redis::<()>(&["DEL", &scene.queue.key("config")]);
            }
            scene.spoil(suffix);
            let before = scene.queue.digest();
            let answer = scene.send(script, &words, suffix);
            let refused = answer.tag() == "wrongtype";
            let must = derives(script, suffix) && script.name != "inspect";
            assert!(refused || !must, "{} with {suffix}: {answer:?}", script.name);
            if refused {
                assert_eq!(answer.parts[1], scene.queue.key(suffix));
                assert_eq!(scene.queue.digest(), before, "{} with {suffix}", script.name);
            }
        }
    }
}

#[tokio::test]
async fn a_key_of_a_task_of_a_wrong_type_stops_neither_the_task_nor_the_batch() {
    let mut scene = Scene::new().await;
    for part in ["task", "body", "lease", "result", "errors", "log", "note", "waiter"] {
        for at in 0..scene.calls().len() {
            scene.again().await;
            let (script, mut words) = scene.calls().swap_remove(at);
            let case = format!("{} and a wrong {part}", script.name);
            // The spoilt one first, then the same for another task.
            let (bad, good) = match script.name {
                "enqueue" => ("new", "new2"),
                "retry" | "delete" => ("fail", "old"),
                "abort" if words[1] == b"q" => ("q", "q2"),
                "claim" | "sweep" | "cleanup" | "inspect" | "register" => ("", ""),
                _ => ("run", "run2"),
            };
            if !good.is_empty() {
                let head = script.args.len();
                let mut item = words[head..].to_vec();
                item[0] = good.as_bytes().to_vec();
                if let Some(at) = script.item.iter().position(|name| *name == "run") {
                    item[at] = scene.queue.record(good).await.run.unwrap().to_string().into_bytes();
                }
                words.extend(item);
            }
            for task in ["run", "q", "due", "fail", "old", "new"].into_iter().filter(|t| *t != good) {
                scene.spoil(&format!("{part}:{task}"));
            }
            let before = scene.queue.digest();
            let answer = scene.send(script, &words, &case);
            assert_eq!(answer.tag(), "ok", "{case}");
            let fine = ["created", "ok", "stop", "requested", "ended", "retried", "deleted"];
            if good.is_empty() {
                continue;
            }
            let items = answer.items();
            assert!(fine.contains(&items[1]), "{case}: {good} was answered {items:?}");
            let expected = part == "task";
            assert_eq!(items[0] == "corrupt", expected, "{case}: {bad} was answered {items:?}");
            assert_ne!(scene.queue.digest(), before, "{case}");
        }
    }
}

/// Values that no argument means, but for those where any bytes are meant.
fn junk() -> Vec<Vec<u8>> {
    let mut values = args(&["", "-1", "1e3", "nan", "inf", "0x10", " 1", "1.5", "+", "99999999999999999999"]);
    values.push(vec![0, 255, 0xc1]);
    values.push(vec![b'x'; 1 << 20]);
    values
}

/// Has this argument a form that the value breaks?
fn has_a_form(name: &str, value: &[u8]) -> bool {
    if value.is_empty() && matches!(name, "when" | "policy" | "kind" | "delay" | "grace" | "value") {
        return false;
    }
    let text = matches!(
        name,
        "id" | "digest"
            | "body"
            | "worker"
            | "incarnation"
            | "run"
            | "message"
            | "data"
            | "request"
            | "by"
            | "reason"
            | "text"
            | "woken"
    );
    !text
}

#[tokio::test]
async fn r97_junk_arguments_are_refused_and_change_nothing() {
    let mut scene = Scene::new().await;
    let names: Vec<Vec<&str>> =
        scene.calls().iter().map(|(s, _)| s.args.iter().chain(s.item).copied().collect()).collect();
    for (at, names) in names.iter().enumerate() {
        for (position, name) in names.iter().enumerate() {
            for value in junk() {
                scene.again().await;
                let (script, mut words) = scene.calls().swap_remove(at);
                if script.name == "register" {
                    scene.queue.redis::<()>(&["DEL", &scene.queue.key("config")]);
                }
                if position >= words.len() {
                    continue;
                }
                words[position].clone_from(&value);
                let shown = String::from_utf8_lossy(&value[..value.len().min(20)]).into_owned();
                let case = format!("{} {name} = {shown:?}", script.name);
                let before = scene.queue.digest();
                let answer = scene.send(script, &words, &case);
                if has_a_form(name, &value) {
                    assert_eq!(answer.tag(), "badargs", "{case}");
                }
                let idle = ["lost", "not_found", "gone", "changed", "live", "conflict"];
                let untouched = answer.tag() != "ok" || answer.items().iter().any(|tag| idle.contains(tag));
                if untouched {
                    assert_eq!(scene.queue.digest(), before, "{case}: {answer:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn r97_missing_trailing_arguments_are_refused_and_change_nothing() {
    let mut scene = Scene::new().await;
    for at in 0..scene.calls().len() {
        let full = scene.calls()[at].1.len();
        for length in 0..full {
            scene.again().await;
            let (script, mut words) = scene.calls().swap_remove(at);
            if script.name == "register" {
                scene.queue.redis::<()>(&["DEL", &scene.queue.key("config")]);
            }
            words.truncate(length);
            let before = scene.queue.digest();
            let answer = scene.send(script, &words, &format!("{length} arguments"));
            let no_items = length >= script.args.len() && !script.item.is_empty();
            if no_items && length == script.args.len() {
                assert_eq!(answer.tag(), "ok", "{} without items", script.name);
            } else if !no_items || length > script.args.len() {
                assert_eq!(answer.tag(), "badargs", "{} with {length} arguments", script.name);
            }
            assert_eq!(scene.queue.digest(), before, "{} with {length} arguments", script.name);
        }
    }
}

#[tokio::test]
async fn junk_in_config_is_refused_before_any_write() {
    let mut scene = Scene::new().await;
    for (field, value) in
        [("lease_ms", "x"), ("lease_ms", "0"), ("retain_failed", "nan"), ("clock", "-5"), ("clock", "1e3")]
    {
        scene.again().await;
        scene.queue.redis::<()>(&["HSET", &scene.queue.key("config"), field, value]);
        let before = scene.queue.digest();
        for (script, words) in scene.calls() {
            assert_eq!(scene.send(script, &words, field).tag(), "wrongtype", "{} {field}", script.name);
        }
        assert_eq!(scene.queue.digest(), before, "{field}");
    }
}

#[tokio::test]
async fn r16_a_newer_format_of_the_queue_is_refused_before_any_write() {
    let scene = Scene::new().await;
    scene.queue.redis::<()>(&["HSET", &scene.queue.key("config"), "v", "2"]);
    let before = scene.queue.digest();
    for (script, words) in scene.calls() {
        let answer = scene.send(script, &words, "a newer queue");
        assert_eq!((answer.tag(), answer.parts[1].as_str()), ("format", "2"), "{}", script.name);
    }
    assert_eq!(scene.queue.digest(), before);
}

/// The record of a newer release: left as it is, in its place, while others beside it go on.
#[tokio::test]
async fn r16_a_newer_format_of_a_record_leaves_it_and_its_place_alone() {
    let mut scene = Scene::new().await;
    for at in 0..scene.calls().len() {
        scene.again().await;
        let queue = &scene.queue;
        let mut raws = Vec::new();
        for task in ["run", "q", "due", "fail", "old"] {
            let key = queue.key(&format!("task:{task}"));
            let mut raw: Vec<u8> = queue.redis(&["GET", &key]);
            let version = raw.windows(3).position(|w| w == [0xa1, b'v', 1]).expect("a version");
            raw[version + 2] = 2;
            redis::cmd("SET").arg(&key).arg(&raw).exec(&mut queue.server.connection()).unwrap();
            raws.push((key, raw));
        }
        let places = |suffix: &str, member: &str| queue.score(suffix, member).is_some();
        let (script, words) = scene.calls().swap_remove(at);
        let answer = scene.send(script, &words, "a newer record");
        assert_eq!(answer.tag(), "ok", "{}", script.name);
        if !script.item.is_empty() && !matches!(script.name, "enqueue" | "inspect") {
            assert_eq!(answer.items(), ["corrupt"], "{}", script.name);
        }
        for (key, raw) in &raws {
            assert_eq!(&queue.redis::<Vec<u8>>(&["GET", key]), raw, "{} and {key}", script.name);
        }
        assert!(places("running", "run") && places("scheduled", "due") && places("done:failed", "fail"));
        assert!(places("done:completed", "old"), "{}", script.name);
        let entries: Vec<(String, Vec<String>)> =
            queue.redis(&["XRANGE", &queue.key("ready:normal"), "-", "+"]);
        let left: Vec<&str> = entries.iter().map(|(_, fields)| fields[1].as_str()).collect();
        let expected: &[&str] = match script.name {
            "claim" => &["q"],
            _ => &["q", "q2"],
        };
        assert_eq!(left, expected, "{}", script.name);
    }
}

/// A record whose fields make no sense must not stop a call in the middle.
#[tokio::test]
async fn a_corrupt_record_is_answered_as_such_and_the_rest_of_the_batch_goes_on() {
    let mut scene = Scene::new().await;
    let spoils: [&[u8]; 4] = [b"junk", b"", &[0x81, 0xa1, b'v', 1], &[0xc1; 100]];
    for spoil in spoils.map(<[u8]>::to_vec).into_iter().chain([vec![b'x'; 1 << 20]]) {
        for at in 0..scene.calls().len() {
            scene.again().await;
            let (script, words) = scene.calls().swap_remove(at);
            for task in ["run", "q", "due", "fail", "old"] {
                let key = scene.queue.key(&format!("task:{task}"));
                redis::cmd("SET").arg(&key).arg(&spoil).exec(&mut scene.queue.server.connection()).unwrap();
            }
            let answer = scene.send(script, &words, "a corrupt record");
            assert_eq!(answer.tag(), "ok", "{}", script.name);
            if !script.item.is_empty() && !matches!(script.name, "enqueue" | "inspect") {
                assert_eq!(answer.items(), ["corrupt"], "{}", script.name);
            }
        }
    }
}

/// A field of a wrong type inside a record, and counters that hold no number.
#[tokio::test]
async fn wrong_fields_tear_no_call() {
    let mut scene = Scene::new().await;
    let spoils = "r.bg = 'x' | r.st = 'weird' | r.sp = 'x' | r.e = 'x' | r.lv = 'again' | r.inc = nil | r.bg = nil \
                  | r.n = 0/0 | r.sp = { c = 'abort' } | r.sp = { c = 1, at = 1, g = 1, he = 1 } | r.p = { 1, 2 } \
                  | r.p = { 1, 2, 3, 4, 5, 6, 7, 'x' }";
    for spoil in spoils.split(" | ") {
        for at in 0..scene.calls().len() {
            scene.again().await;
            let (script, words) = scene.calls().swap_remove(at);
            let lua = format!(
                "local r = cmsgpack.unpack(redis.call('GET', KEYS[1])); {spoil}; \
                 redis.call('SET', KEYS[1], cmsgpack.pack(r))"
            );
            for task in ["run", "q", "due", "fail", "old"] {
                let key = scene.queue.key(&format!("task:{task}"));
                scene.queue.redis::<()>(&["EVAL", &lua, "1", &key]);
            }
            scene.queue.redis::<()>(&[
                "HSET",
                &scene.queue.key("totals"),
                "transitions",
                "x",
                "started",
                "x",
            ]);
            scene.queue.redis::<()>(&["HSET", &scene.queue.key("pulse"), "watch", "nan", "last", "x"]);
            assert_eq!(scene.send(script, &words, spoil).tag(), "ok", "{} {spoil}", script.name);
        }
    }
    // And a claim record that names nonsense.
    scene.again().await;
    let lua = "redis.call('SET', KEYS[1], cmsgpack.pack({ n = 5, runs = { {}, {}, 1, 2, 'q' } }))";
    scene.queue.redis::<()>(&["EVAL", lua, "1", &scene.queue.key("claim:inc-w")]);
    let words = args(&["1", "inc-w", "w", "5", "3", "1048576", "open", "0"]);
    assert_eq!(scene.send(&script::CLAIM, &words, "a junk claim").tag(), "ok");
}
