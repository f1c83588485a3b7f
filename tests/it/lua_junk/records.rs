//! Records that nobody should have written: cut short, of another release, of no meaning.

use leasehold_common::script;
use leasehold_common::{Error, FORMAT};
use leasehold_tests::queue::{FORMAT_BYTE, Queue, V, id};

use super::scene::Scene;

/// The record of a newer release: left as it is, in its place, while others beside it go on.
#[tokio::test]
async fn r16_a_newer_format_of_a_record_leaves_it_and_its_place_alone() {
    let mut scene = Scene::new().await;
    for at in 0..scene.calls().len() {
        scene.again().await;
        let queue = &scene.queue;
        let mut raws = Vec::new();
        for task in ["run", "q", "due", "fail", "old"] {
            let mut raw = queue.raw_record(task);
            assert_eq!(raw[..2], [0xc1, FORMAT_BYTE], "magic and format");
            raw[1] = FORMAT_BYTE + 1;
            queue.set_raw_record(task, &raw);
            raws.push((task, raw));
        }
        let places = |suffix: &str, member: &str| queue.score(suffix, member).is_some();
        let (script, words) = scene.calls().swap_remove(at);
        let answer = scene.send(script, &words, "a newer record");
        assert_eq!(answer.tag(), "ok", "{}", script.name);
        if !script.item.is_empty() && !matches!(script.name, "enqueue" | "inspect" | "sweep") {
            assert_eq!(answer.items(), ["corrupt"], "{}", script.name);
        }
        for (task, raw) in &raws {
            assert_eq!(&queue.raw_record(task), raw, "{} and {task}", script.name);
            let read = queue.store.record(&queue.name, &id(task)).await;
            assert!(
                matches!(read, Err(Error::NewerFormat { found, known: FORMAT, .. }) if found == FORMAT + 1),
                "{read:?}"
            );
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

const TASKS: [&str; 5] = ["run", "q", "due", "fail", "old"];

impl Scene {
    /// Makes the records of all tasks anew by `spoil`, and sends every call: each is answered, each item that is one
    /// of these tasks as `corrupt`, and nothing is written into the records.
    async fn all_are_corrupt(&mut self, case: &str, spoil: impl Fn(&Queue, &str)) {
        self.are_corrupt(case, true, spoil).await;
    }

    /// The same, but for a run that ends with a result.
    async fn all_but_completed_are_corrupt(&mut self, case: &str, spoil: impl Fn(&Queue, &str)) {
        self.are_corrupt(case, false, spoil).await;
    }

    async fn are_corrupt(&mut self, case: &str, completed_too: bool, spoil: impl Fn(&Queue, &str)) {
        for at in 0..self.calls().len() {
            if !completed_too && self.calls()[at].1.get(4).is_some_and(|word| word == b"completed") {
                continue;
            }
            self.again().await;
            for task in TASKS {
                spoil(&self.queue, task);
            }
            let raws = TASKS.map(|task| self.queue.raw_record(task));
            let (script, words) = self.calls().swap_remove(at);
            let answer = self.send(script, &words, case);
            assert_eq!(answer.tag(), "ok", "{} with {case}", script.name);
            if !script.item.is_empty() && !matches!(script.name, "enqueue" | "inspect" | "sweep") {
                assert_eq!(answer.items(), ["corrupt"], "{} with {case}", script.name);
            }
            assert_eq!(TASKS.map(|task| self.queue.raw_record(task)), raws, "{} with {case}", script.name);
        }
    }

    /// Rust reads none of the records either.
    async fn none_is_read(&self, case: &str) {
        for task in TASKS {
            let read = self.queue.store.record(&self.queue.name, &id(task)).await;
            assert!(read.is_err(), "{task} with {case}: {read:?}");
        }
    }
}

/// A record whose fields make no sense must not stop a call in the middle.
#[tokio::test]
async fn a_corrupt_record_is_answered_as_such_and_the_rest_of_the_batch_goes_on() {
    let mut scene = Scene::new().await;
    let spoils: [&[u8]; 6] = [
        b"junk",
        b"",
        &[0x81, 0xa1, b'v', 1],
        &[0xc1; 100],
        &[0xc1, FORMAT_BYTE],
        &[&[0xc1, FORMAT_BYTE][..], &[255; 98]].concat(),
    ];
    for spoil in spoils.map(<[u8]>::to_vec).into_iter().chain([vec![b'x'; 1 << 20]]) {
        let case = format!("{:?}", &spoil[..spoil.len().min(5)]);
        scene.all_are_corrupt(&case, |queue, task| queue.set_raw_record(task, &spoil)).await;
        scene.none_is_read(&case).await;
    }
}

/// The lines of a list, or what ` | ` parts in one.
fn spoils(list: &str) -> impl Iterator<Item = &str> {
    list.trim().split('\n').flat_map(|line| line.trim().split(" | "))
}

/// Lines of Lua, for [`Queue::edit_record`], that make any record one that cannot be read.
const SPOILS: &str = "
    r.st = 0 | r.st = 10 | r.st = 255 | r.lv = 0 | r.lv = 2 | r.lv = 6 | r.lv = 255 | r.magic = 0x81 | r.v = 0
    r.rare = 'x' | r.rare = string.char(0xc1) | r.rare = string.char(0x82, 0xa1, 0x61) | r.rare = cmsgpack.pack(7)
    r.rare = cmsgpack.pack('text') | r.rare = cmsgpack.pack({ 1, 2, 3 }) | r.rare = cmsgpack.pack(true)
    r.rare = string.char(0xc0) | x.ml = 'x' | x.pg = 'x' | x.sp = 'x' | x.sp = 5 | x.le = 'x' | x.le = 7
    x.sp = { c = 'abort' } | x.sp = { c = 'abort', at = 1, g = 1, he = 'x' }
    x.sp = { c = 'abort', at = 'x', g = 1, he = 1 }
    r.fixed = '' | r.fixed = 'x' | r.fixed = string.rep('x', 16) | r.fixed = string.rep('x', 16) .. string.char(255)
";

/// The same, but for a run that is completed, which needs no policy.
const SPOILS_POLICY: &str = "
    r.fixed = string.rep('x', 16) .. string.char(3) .. cmsgpack.pack({ 1, 2 }) .. 'body'
    r.fixed = string.rep('x', 16) .. string.char(10) .. cmsgpack.pack({ 1, 2, 3, 4, 5, 6, 7, 'x' }) .. 'body'
    r.fixed = string.rep('x', 16) .. string.char(4) .. 'text' .. 'body'
";

/// The same, but for Rust, which may read what the scripts leave alone.
const SPOILS_SCRIPTS: &str = "
    x.ml = 0/0 | x.pg = 0/0 | x.un = 'x' | x.us = 'x' | x.lo = 'x' | x.lb = {} | x.rr = 'x' | x.lh = 7 | x.ar = 'x'
    x.un = 0/0 | x.us = 0/0 | x.lo = 0/0 | x.lb = 0/0 | x.rr = 0/0 | x.sp = { c = 'abort', at = 0/0, g = 1, he = 1 }
    x.ln = 7 | x.ow = {} | x.dl = 'x' | x.dl = 0/0 | x.dr = 'x' | x.si = 'x' | x.sa = {} | x.la = 'x' | x.sn = 'x'
    x.up = 'x' | x.uc = {} | x.ck = 'x' | x.bu = 'x' | x.bu = { calls = 7 } | x.bu = { calls = { 1 } }
    x.bu = { calls = { 1, 0/0 } } | x.ub = 5 | x.ub = { 'x' } | x.ub = { 1, {}, '' } | x.ub = { 1, 'ok' } | x.ph = 'x'
    x.ph = { n = 1, at = 1, tm = 1 } | x.ph = { n = 'p', at = 1 } | x.ph = { n = 'p', at = 1, tm = 1, e = 'x' }
    x.uk = 'x' | x.uk = { 1 } | x.uk = { 1, {} } | x.uk = { 'x', 'x' } | x.rc = 'x'
    x.sp = { c = 1, at = 1, g = 1, he = 1 } | x.sp = { 1, 2, 3, 4 } | x.fk = 7
    r.rare = cmsgpack.pack({ [7] = 'x', ml = 1 })
";

#[tokio::test]
async fn codes_maps_and_policies_of_no_meaning_make_a_record_corrupt() {
    let mut scene = Scene::new().await;
    for spoil in spoils(SPOILS_SCRIPTS) {
        scene.all_are_corrupt(spoil, |queue, task| queue.edit_record(task, spoil)).await;
    }
    for spoil in spoils(SPOILS_POLICY) {
        scene.all_but_completed_are_corrupt(spoil, |queue, task| queue.edit_record(task, spoil)).await;
        scene.none_is_read(spoil).await;
    }
    for spoil in spoils(SPOILS) {
        scene.all_are_corrupt(spoil, |queue, task| queue.edit_record(task, spoil)).await;
        scene.none_is_read(spoil).await;
    }
}

/// Up to its output a record says how long it is, so that one cut short anywhere is told from a whole one.
#[tokio::test]
async fn a_record_cut_short_anywhere_is_corrupt_and_stays_as_it_is() {
    let mut scene = Scene::new().await;
    scene.again().await;
    let queue = &scene.queue;
    let by_item = ["heartbeat", "finish", "update", "abort", "retry", "delete"];
    let whole = TASKS.map(|task| queue.raw_record(task));
    let output = queue.of_record::<usize>("old", "return #o");
    let entry = queue.of_record::<String>("q", "return string.match(r.run, ':(.*)$')");
    let longest = whole.iter().map(Vec::len).max().unwrap();
    for cut in 0..longest {
        for (task, raw) in TASKS.iter().zip(&whole) {
            let most = raw.len() - if *task == "old" { output + 1 } else { 1 };
            queue.set_raw_record(task, &raw[..cut.min(most)]);
        }
        let before = queue.digest();
        for (script, words) in scene.calls() {
            if by_item.contains(&script.name) {
                let answer = scene.send(script, &words, &format!("a record of {cut} bytes"));
                assert_eq!(answer.items(), ["corrupt"], "{} with {cut} bytes", script.name);
            }
        }
        // A result could be taken for what is missing.
        let words = [V, "inc-w", "run", &scene.run, "completed", "the result"];
        assert_eq!(queue.script(&script::FINISH, &words).items(), ["corrupt"], "completed with {cut} bytes");
        assert_eq!(queue.digest(), before, "{cut} bytes");
        scene.none_is_read(&format!("{cut} bytes")).await;
        // Nobody is given it.
        let cut_short = queue.raw_record("q");
        queue.redis::<()>(&["DEL", &queue.key("ready:normal")]);
        queue.redis::<()>(&["XADD", &queue.key("ready:normal"), &entry, "i", "q"]);
        let number = (cut + 2).to_string();
        let words = [V, "inc-w", "w", &number, "3", "1048576", "open", "0"];
        assert_eq!(queue.script(&script::CLAIM, &words).parts.len(), 4, "{cut} bytes");
        assert_eq!(queue.raw_record("q"), cut_short, "{cut} bytes");
    }
    // Counts that promise more than there is.
    let at_run = 36;
    let at_inc = at_run + 1 + usize::from(whole[0][at_run]);
    let at_rare = at_inc + 1 + usize::from(whole[0][at_inc]);
    for at in [at_run, at_inc, at_rare, at_rare + 1, at_rare + 3] {
        let mut raw = whole[0].clone();
        raw[at] = 255;
        queue.set_raw_record("run", &raw);
        assert_eq!(queue.script(&script::HEARTBEAT, &[V, "inc-w", "run", &scene.run]).items(), ["corrupt"]);
    }
    for task in ["q", "due", "fail", "old"] {
        queue.set_raw_record(task, b"");
    }
    queue.redis::<()>(&["DEL", &queue.key("claim:inc-w")]);
    for at in 0..scene.calls().len() {
        let (script, words) = scene.calls().swap_remove(at);
        assert_eq!(scene.send(script, &words, "counts too large").tag(), "ok", "{}", script.name);
    }
}

/// Values that a field can hold and that no script ever gave it. Each may be read as it likes, but tear no call.
const ODD: &str = "
    x.ln = '' | x.ln = 'lane' | x.ln = string.rep('x', 70000) | x.ow = '' | x.ow = 'me' | x.dl = -1e300 | x.dl = 1e300
    x.dl, x.dr = 1, 1e300 | x.dl = 1 | x.si = 1 | x.si = -1e300 | x.sa = 1 | x.sa = 1e300 | x.la = 1e300 | x.sn = 1
    x.up = 1e300 | x.uc = 1/0 | x.ck = -1 | x.bu = { calls = { -1, 1e300 } } | x.bu = {} | x.bu = { { 1, 2 } }
    x.ub = { 1e300, 'odd', '' } | x.ph = { n = '', at = 1e300, tm = 1e300 } | x.ph = { n = 'p', at = 1, tm = 1 }
    x.ph = { n = 'p', at = 1, tm = -1, e = -1e300 } | x.uk = { 1e300, '' } | x.uk = { -1/0, 'x' } | x.rc = {}
    x.sp, x.uk = { c = 'drain', at = 1, g = 1, he = 1 }, { 1e300, 'x' } | r.st = 9 | r.st, x.ln = 9, 'lane'
    r.st = 3 | r.st = 4 | r.st = 8 | r.bg = 0 | r.run = '' | r.run = 'x' | r.inc = '' | r.n = 0 | r.run = 'again:1-1'
    r.run = 'normal:99999999999999999999-1' | r.rev = 4294967295 | r.n = 4294967295 | r.f = 4294967295
    r.c = 4294967295 | r.bg = 281474976710655 | r.at = 281474976710655 | r.at = 0 | r.en = 0 | r.t = 9e15 | r.t = 0
    r.inc, r.w, r.run = string.rep('i', 255), string.rep('w', 255), string.rep('r', 255) | x.le = {} | x.le = { 1, 2 }
    x.le = { {}, {}, {} } | x.ar = { 'request' } | x.ar = {} | x.rr = 1e300 | x.un = 1e300 | x.un = -1e300 | x.us = 1/0
    x.lo = -5 | x.lo = 1e300 | x.lb = 1e300 | x.lb = -1/0 | x.lh = 'x' | x.lb, x.lh = 1e300, 'x' | x.ml = 1e300
    x.ml = -1e300 | x.pg = 1/0 | x.fk = 'unheard of' | x.sp = { c = 'unheard of', at = 1, g = 1, he = 1 }
    x.sp = { c = 'abort', at = 1e300, g = 1e300, he = 1e300 } | x.sp = { c = 'abort', at = -1/0, g = -1/0, he = -1/0 }
    x.sp = { c = 'drain', at = 1/0, g = 1/0, he = 1/0 } | x.sp = { c = 'drain', at = 1, g = 1, he = 1e15, by = {} }
    r.fixed = r.fixed .. string.rep('x', 65000) | r.fixed = string.sub(r.fixed, 1, 17)
    r.fixed = string.sub(r.fixed, 1, 16) .. string.char(90) .. cmsgpack.pack({ 1, 2, 3, 4, 5, 6, 7, 8 })
    x.zz = { 1, { 2, { 3, {} } } } | x.sp = { c = 'abort', at = 1, g = 1, he = 1e15, rq = {}, by = 7, rs = true }
";

/// A field of a wrong type or value inside a record, and counters that hold no number.
#[tokio::test]
async fn wrong_fields_tear_no_call() {
    let mut scene = Scene::new().await;
    for spoil in [SPOILS, SPOILS_SCRIPTS, SPOILS_POLICY, ODD].iter().flat_map(|list| spoils(list)) {
        for at in 0..scene.calls().len() {
            scene.again().await;
            let (script, words) = scene.calls().swap_remove(at);
            for task in TASKS {
                scene.queue.edit_record(task, spoil);
            }
            let totals = scene.queue.key("totals");
            scene.queue.redis::<()>(&["HSET", &totals, "transitions", "x", "started", "x"]);
            scene.queue.redis::<()>(&["HSET", &scene.queue.key("pulse"), "watch", "nan", "last", "x"]);
            assert_eq!(scene.send(script, &words, spoil).tag(), "ok", "{} {spoil}", script.name);
        }
    }
}
