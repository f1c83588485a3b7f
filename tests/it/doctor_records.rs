//! What a record may be, by the scripts and by Rust: one table of cases holds both, so that the doctor calls unreadable what a
//! repair leaves alone.

use leasehold_common::doctor::examine;
use leasehold_common::script;
use leasehold_tests::queue::{Hand, Queue, V, id, in_lane, ms, task, task_with};
use redis::Value;

use crate::doctor_seeds::options;

/// The task that is changed, how, and whether its record means something still.
const CASES: &[(&str, &str, bool)] = &[
    ("queued", "x.zz = { 'of a newer release' }", true),
    ("queued", "r.w = '\\255'", true),
    ("queued", "r.run = ''", false),
    ("queued", "r.st = 0", false),
    ("queued", "r.st = 10", false),
    ("queued", "r.lv = 2", false),
    ("queued", "r.lv = 9", false),
    ("queued", "r.rare = 'junk'", false),
    ("queued", "r.fixed = string.sub(r.fixed, 1, 5)", false),
    ("queued", "r.fixed = string.sub(r.fixed, 1, 8) .. string.char(3) .. 'abc'", false),
    ("policy", "r.n = 0", true),
    ("policy", "x.us = 7", true),
    ("done", "r.run = ''", true),
    ("done", "r.n = 0", true),
    ("running", "r.n = 0", false),
    ("running", "r.bg = 0", false),
    ("running", "r.run = ''", false),
    ("running", "r.inc = ''", false),
    ("running", "r.inc = 'a b'", false),
    ("running", "x.sp = { c = 'abort', at = 1, g = 1, he = 1 }", true),
    ("running", "x.sp = { c = 'nothing', at = 1, g = 1, he = 1 }", false),
    ("running", "x.sp = { c = 'abort', at = 1, g = 1 }", false),
    ("running", "x.sp = 5", false),
    ("running", "x.sp = { c = 'abort', at = 1, g = 1, he = 1, by = 5 }", false),
    ("running", "x.sp = { c = 'abort', at = 1, g = 1, he = 1, ec = 'nothing' }", false),
    ("aborting", "x.sp = nil", false),
    ("running", "x.fk = 'nothing'", false),
    ("running", "x.fk = 'signal'", true),
    ("running", "x.le = { 'normal:1-1', 'inc', 'lost' }", true),
    ("running", "x.le = { 'normal:1-1', 'inc' }", false),
    ("running", "x.le = { '', 'inc', 'lost' }", false),
    ("running", "x.le = 5", false),
    ("running", "x.bu = { calls = { 5, 1 } }", true),
    ("running", "x.bu = { calls = { 5 } }", false),
    ("running", "x.bu = { ['a b'] = { 5, 1 } }", false),
    ("running", "x.bu = { calls = { 5, 'x' } }", false),
    ("running", "x.ph = { n = 'p', at = 1, tm = 0 }", true),
    ("running", "x.ph = { n = 'a b', at = 1, tm = 0 }", false),
    ("running", "x.ph = { n = 'p', at = 1 }", false),
    ("running", "x.ph = { n = 'p', at = 1, tm = 0, e = 'x' }", false),
    ("running", "x.ub = { 1, 'ok', '' }", true),
    ("running", "x.ub = { 1, 'ok' }", false),
    ("running", "x.uk = { 1, '17' }", true),
    ("running", "x.uk = { 1 }", false),
    ("running", "x.rc = { at = 1, by = 'me', why = 'so' }", true),
    ("running", "x.rc = { at = 1, by = 'me' }", false),
    ("running", "x.ow = ''", false),
    ("lane", "x.ln = ''", false),
    ("lane", "x.ln = 5", false),
    ("lane", "x.ln = string.rep('x', 257)", false),
    ("lane", "x.dl = 'soon'", false),
    ("lane", "x.dl = 0/0", false),
    ("lane", "x.dr = 'soon'", false),
    ("lane", "x.si = 'soon'", false),
    ("lane", "x.sa = {}", false),
    ("lane", "x.us = 'soon'", false),
    ("lane", "x.lo = 'soon'", false),
    ("lane", "x.lh = 5", false),
    ("lane", "x.rr = 'x'", false),
    ("lane", "x.ml = 'x'", false),
    ("lane", "x.ck = 'x'", false),
    ("lane", "x.pg = 'x'", false),
];

/// Do the scripts read the record of a task?
fn scripts_read(queue: &Queue, name: &str) -> bool {
    let mut command = redis::cmd("EVAL");
    command
        .arg(script::INSPECT.source())
        .arg(2)
        .arg(queue.key("config"))
        .arg(queue.key("never"))
        .arg(&[V, name]);
    let values: Vec<Value> = command.query(&mut queue.server.connection()).unwrap();
    let [.., Value::Array(of_task)] = &values[..] else { panic!("{values:?}") };
    match &of_task[of_task.len() - 2] {
        Value::Int(n) => *n == 1,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn r57_scripts_and_doctor_agree_on_what_of_a_record_means_something() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    let ended = queue.running(&hand, task("done")).await;
    queue.finish(&hand, leasehold_tests::queue::done(&ended)).await;
    for name in ["running", "aborting"] {
        queue.running(&hand, task(name)).await;
    }
    queue.abort("aborting").await;
    let policy = task_with("policy", |t| t.body.policy.run_timeout = Some(ms(5000)));
    queue.enqueue(&[task("queued"), policy, in_lane("lane")]).await;
    let mut wrong = Vec::new();
    for (name, change, sound) in CASES {
        let raw = queue.raw_record(name);
        queue.edit_record(name, change);
        let by_rust = queue.store.record(&queue.name, &id(name)).await.is_ok();
        let by_scripts = scripts_read(&queue, name);
        if (by_rust, by_scripts) != (*sound, *sound) {
            wrong.push(format!("{name}, {change}: scripts {by_scripts}, Rust {by_rust}, meant {sound}"));
        }
        let report = examine(&queue.store, &options()).await.unwrap();
        if (report.of_code("record-unreadable").count() == 0) != *sound {
            wrong.push(format!("{name}, {change}: meant {sound}, and the doctor says\n{report}"));
        }
        queue.set_raw_record(name, &raw);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    queue.check().await;
}

/// The bytes of records changed at random: whatever it is, the doctor calls unreadable all that a repair leaves alone, and what
/// it says to do leads to a clean look.
#[tokio::test]
async fn r57_records_of_any_bytes_are_given_up_as_the_doctor_says() {
    let queue = Queue::start().await;
    let hand = Hand::new("w");
    queue.running(&hand, in_lane("t0")).await;
    let more: Vec<_> = (1..60).map(|n| in_lane(&format!("t{n}"))).collect();
    queue.enqueue(&more).await;
    let mut state: u64 = 7;
    let mut dice = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for n in 0..60 {
        let name = format!("t{n}");
        let mut raw = queue.raw_record(&name);
        let at = 2 + dice(80);
        raw[at] = u8::try_from(dice(256)).unwrap();
        queue.set_raw_record(&name, &raw);
    }
    let report =
        examine(&queue.store, &leasehold_common::doctor::Options { each: 1000, ..options() }).await.unwrap();
    let told: Vec<String> =
        report.of_code("record-unreadable").map(|f| f.id.as_ref().unwrap().to_string()).collect();
    for n in 0..60 {
        let name = format!("t{n}");
        assert!(scripts_read(&queue, &name) || told.contains(&name), "{name}: {told:?}");
    }
    assert!(!told.is_empty());
    for name in told {
        queue.redis::<i64>(&["UNLINK", &queue.key(&format!("task:{name}"))]);
    }
    let thorough = leasehold_common::doctor::Options { each: 1000, ..options() };
    let found = examine(&queue.store, &thorough).await.unwrap();
    leasehold_common::doctor::repair(&queue.store, &found).await.unwrap();
    let after = examine(&queue.store, &thorough).await.unwrap();
    let rest: Vec<_> =
        after.breaches().filter(|f| f.code.starts_with("row-") || f.code.contains("record")).collect();
    assert!(rest.is_empty(), "{after}");
}
