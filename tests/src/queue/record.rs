//! Records byte by byte, and the parts of calls that become one: the layout of `docs/redis-data-model.md`, said here
//! once more, so that tests do not ask the scripts what the scripts should have written.

use super::Queue;

/// What a raw `enqueue` says of a task that never changes: its length, a digest made of `content`, the default policy,
/// and `content` as the body.
///
/// # Panics
/// If the low byte of the length is none that text can hold.
pub fn fixed(content: &str) -> String {
    String::from_utf8(fixed_with(&[], content.as_bytes())).expect("text all through")
}

/// The same with a packed policy, and any bytes.
pub fn fixed_with(policy: &[u8], content: &[u8]) -> Vec<u8> {
    let mut bytes = content.to_vec();
    bytes.resize(8, b'.');
    bytes.push(u8::try_from(policy.len()).expect("a policy of up to 255 bytes"));
    bytes.extend_from_slice(policy);
    bytes.extend_from_slice(content);
    let length = u16::try_from(bytes.len()).expect("up to 64 KiB").to_be_bytes();
    [&length[..], &bytes].concat()
}

/// `r`: the parts of a record by their names, `x`: the map of rare fields, `o`: the output. `r.rare` set to text stands
/// for `x`.
const OPEN: &str = "
    local FORM = '>BBBI4I6BI4I2I2I6I8Bc0Bc0I3c0Bc0I6Hc0'
    local NAMES = { 'magic', 'v', 'st', 'rev', 'at', 'lv', 'n', 'f', 'c', 'bg', 't', 'run', 'inc', 'rare', 'w', 'en',
      'fixed' }
    local raw = redis.call('GET', KEYS[1])
    local parts, r = { struct.unpack(FORM, raw) }, {}
    for i, name in ipairs(NAMES) do r[name] = parts[i] end
    local o = string.sub(raw, parts[#parts])
    local x = r.rare ~= '' and cmsgpack.unpack(r.rare) or {}
    r.rare = nil
";
const CLOSE: &str = "
    r.rare = r.rare or (next(x) and cmsgpack.pack(x)) or ''
    redis.call('SET', KEYS[1], struct.pack(FORM, r.magic, r.v, r.st, r.rev, r.at, r.lv, r.n, r.f, r.c, r.bg, r.t,
      #r.run, r.run, #r.inc, r.inc, #r.rare, r.rare, #r.w, r.w, r.en, #r.fixed, r.fixed) .. o)
";

impl Queue {
    /// The bytes of a record.
    pub fn raw_record(&self, task: &str) -> Vec<u8> {
        self.redis(&["GET", &self.key(&format!("task:{task}"))])
    }

    /// Puts bytes in the place of a record.
    pub fn set_raw_record(&self, task: &str, raw: &[u8]) {
        let mut command = redis::cmd("SET");
        command.arg(self.key(&format!("task:{task}"))).arg(raw);
        command.exec(&mut *self.connection.borrow_mut()).expect("a record is written");
    }

    /// Changes a sound record by a line of Lua: `r` is its head by names, `x` the map of rare fields, `o` the output.
    #[track_caller]
    pub fn edit_record(&self, task: &str, lua: &str) {
        let script = format!("{OPEN}{lua}{CLOSE}");
        self.redis::<()>(&["EVAL", &script, "1", &self.key(&format!("task:{task}"))]);
    }

    /// What a line of Lua makes of a sound record, as for [`edit_record`](Self::edit_record).
    #[track_caller]
    pub fn of_record<V: redis::FromRedisValue>(&self, task: &str, lua: &str) -> V {
        let script = format!("{OPEN}{lua}");
        self.redis(&["EVAL", &script, "1", &self.key(&format!("task:{task}"))])
    }
}
