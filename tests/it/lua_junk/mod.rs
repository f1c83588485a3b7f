//! What a broken client, a foreign key or a newer release leaves: refused before any write, item by item.

mod records;
mod scene;

use leasehold_common::script::{self, ScriptSpec};
use leasehold_tests::queue::{NEWER_V, V, args};
use serde_json::json;

use scene::{Scene, said};

const SHARED: [&str; 24] = [
    "config",
    "waiting",
    "deadlines",
    "lanes",
    "waited",
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
    let header: Vec<&str> = own.lines().skip(1).take_while(|line| line.starts_with("--")).collect();
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
            // Some look at a key only where they have a use for it.
            let lazy = match script.name {
                "claim" => {
                    matches!(suffix, "done:failed" | "done:timed_out" | "gone" | "deadlines" | "lanes")
                }
                "enqueue" => suffix.strip_prefix("ready:").is_some_and(|level| level.as_bytes() != words[3]),
                // They look at what is remembered of claims only where a run, or a declaration, names the incarnation.
                "abort" | "sweep" => suffix.starts_with("claim:"),
                "finish" => words.get(4).is_some_and(|outcome| outcome == b"completed"),
                _ => false,
            };
            // Whether it is there is all that anybody asks of this one.
            let lazy = lazy || suffix == "waited";
            let must = derives(script, suffix) && script.name != "inspect" && !lazy;
            assert!(refused || !must, "{} with {suffix}: {answer:?}", script.name);
            if !refused && suffix != "config" {
                let spoilt = scene.queue.redis::<String>(&["TYPE", &scene.queue.key(suffix)]);
                let before = if matches!(suffix, "totals" | "pulse" | "lanes") { "string" } else { "hash" };
                assert_eq!(spoilt, before, "{} with {suffix}", script.name);
            }
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
    for part in ["task", "body", "lease", "result", "errors", "log", "note", "waiter", "phases", "checkpoint"]
    {
        for at in 0..scene.calls().len() {
            scene.again().await;
            let (script, mut words) = scene.calls().swap_remove(at);
            let case = format!("{} and a wrong {part}", script.name);
            // The spoilt one first, then the same for another task.
            let (bad, good) = match script.name {
                "enqueue" => ("new", "new2"),
                "retry" | "delete" => ("fail", "old"),
                "abort" if words[1] == b"q" => ("q", "q2"),
                "claim" | "sweep" | "cleanup" | "lane" | "inspect" | "register" => ("", ""),
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
    if value.is_empty() && matches!(name, "when" | "grace" | "value" | "data" | "spec" | "mode") {
        return false;
    }
    let text = matches!(
        name,
        "id" | "lane" | "worker" | "incarnation" | "run" | "request" | "by" | "reason" | "text" | "woken"
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
                // A result is any bytes.
                let any = *name == "data" && words[position - 1] == b"completed";
                if has_a_form(name, &value) && !any {
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
    scene.queue.redis::<()>(&["HSET", &scene.queue.key("config"), "v", NEWER_V]);
    let before = scene.queue.digest();
    for (script, words) in scene.calls() {
        let answer = scene.send(script, &words, "a newer queue");
        assert_eq!((answer.tag(), answer.parts[1].as_str()), ("format", NEWER_V), "{}", script.name);
    }
    assert_eq!(scene.queue.digest(), before);
}

/// What a worker's last claim left, in a form that means nothing: refused before any write, or met by records.
#[tokio::test]
async fn junk_in_the_memory_of_a_claim_tears_no_call() {
    let mut scene = Scene::new().await;
    let forms = "{ n = 5, ids = 'q\n\n\nrun\nnever\n' } | { n = 5, ids = '\n' } | { n = 1, ids = '', chance = 'x' } \
                 | { n = 1, ids = '', chance = {} } | { n = 1, ids = '', chance = { {}, {} } } \
                 | { n = 1, ids = '', chance = { 'run' } } | { n = 5, ids = 'run', chance = { 'run', 7 } } \
                 | { n = 5, runs = { {}, 1, 'q' } } | { n = 5, ids = 7 } | { n = 5, ids = {} } | { n = 'x', ids = '' } \
                 | {} | 7 | 'x' | { n = 0/0, ids = '' }";
    for form in forms.split(" | ") {
        scene.again().await;
        let key = scene.queue.key("claim:inc-w");
        let lua = format!("redis.call('SET', KEYS[1], cmsgpack.pack({}))", form.replace('\n', "\\n"));
        scene.queue.redis::<()>(&["EVAL", &lua, "1", &key]);
        let before = scene.queue.digest();
        let words = args(&[V, "inc-w", "w", "5", "3", "1048576", "open", "0"]);
        let answer = scene.send(&script::CLAIM, &words, form);
        if ["n = 5, ids = '", "n = 1", "n = 0/0"].iter().any(|part| form.contains(part)) {
            assert_eq!(answer.tag(), "ok", "{form}");
        } else {
            assert_eq!(answer.parts, ["wrongtype", &key], "{form}");
            assert_eq!(scene.queue.digest(), before, "{form}");
        }
    }
}

/// The data of a `finish`: what cannot be read, or says what no run can, is refused whole and changes nothing.
#[tokio::test]
async fn r97_junk_in_the_data_of_a_finish_is_refused_and_changes_nothing() {
    let mut scene = Scene::new().await;
    scene.again().await;
    let before = scene.queue.digest();
    let outcomes = ["failed", "stopped", "snoozed", "released", "unknown"];
    let send = |outcome: &str, data: Vec<u8>| {
        let mut words = args(&[V, "inc-w", "run", &scene.run, outcome]);
        words.push(data);
        scene.send(&script::FINISH, &words, outcome)
    };
    let forms = [
        json!({"k": "nonsense"}),
        json!({"k": 7}),
        json!({"k": {}}),
        json!({"d": 5}),
        json!({"d": "1e3"}),
        json!({"d": "-1"}),
        json!({"d": "later"}),
        json!({"m": 7}),
        json!({"m": ["x"]}),
        json!({"x": "exit_code"}),
        json!({"x": 1}),
        json!("text"),
        json!(7),
        json!(true),
        json!(null),
    ];
    for outcome in outcomes {
        let junk =
            [vec![0xc1], vec![0x81], vec![0x82, 0xa1, b'k', 0xa0], vec![0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0]];
        for data in forms.iter().map(said).chain(junk) {
            assert_eq!(send(outcome, data.clone()).parts, ["badargs", "data"], "{outcome} {data:?}");
        }
    }
    for data in [said(&json!({})), said(&json!({"d": ""})), said(&json!({"d": "fatal"})), vec![]] {
        assert_eq!(send("snoozed", data.clone()).parts, ["badargs", "data"], "{data:?}: for how long?");
    }
    assert_eq!(scene.queue.digest(), before);
    // A result is any bytes at all.
    assert_eq!(send("completed", vec![0xc1, 0, 255]).items(), ["ok"]);
}
