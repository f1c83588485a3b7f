//! Keys left behind: what a test's end must not find.

use std::collections::BTreeMap;

use crate::redis_server::RedisServer;

/// How long a key will stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// Until someone deletes it.
    Forever,
    /// It expires in so many milliseconds.
    Millis(u64),
}

/// Every key of the namespace `lh`, with how long it will stay.
pub fn keys(server: &RedisServer) -> BTreeMap<String, Stay> {
    keys_of(server, "lh")
}

/// Every key of another namespace.
pub fn keys_of(server: &RedisServer, namespace: &str) -> BTreeMap<String, Stay> {
    let mut connection = server.connection();
    let pattern = format!("{namespace}:*");
    let found: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut connection).expect("list the keys");
    let mut keys = BTreeMap::new();
    for key in found {
        let ttl: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).expect("ask for the TTL");
        // -2 says that the key has gone meanwhile, -1 that it never will.
        match ttl {
            -2 => None,
            -1 => keys.insert(key, Stay::Forever),
            millis => keys.insert(key, Stay::Millis(u64::try_from(millis).unwrap_or(0))),
        };
    }
    keys
}

/// Keys that never expire and match none of `permanent`, in which each `*` stands for any text.
pub fn leaked_keys(server: &RedisServer, permanent: &[&str]) -> Vec<String> {
    let lasting = keys(server).into_iter().filter(|(_, stay)| *stay == Stay::Forever).map(|(key, _)| key);
    lasting.filter(|key| !permanent.iter().any(|pattern| matches(pattern, key))).collect()
}

/// Panics when [`leaked_keys`] finds something.
#[track_caller]
pub fn assert_no_leaked_keys(server: &RedisServer, permanent: &[&str]) {
    let leaked = leaked_keys(server, permanent);
    assert!(leaked.is_empty(), "keys without a TTL that no one will delete:\n  {}", leaked.join("\n  "));
}

/// Whether `text` matches a pattern whose only special sign is `*`.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    let mut ends = (0..=rest.len()).filter(|end| rest.is_char_boundary(*end));
    ends.any(|end| matches(tail, &rest[end..]))
}
