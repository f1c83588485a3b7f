//! What Redis this is, and whether work may be trusted to it.

use std::collections::BTreeMap;

use redis::Pipeline;

use super::Store;
use super::read::{first, get};
use crate::error::{Error, Result};

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckLevel {
    /// As it should be.
    Ok,
    /// Work may be lost in a way that the message names.
    Warning,
    /// Leasehold does not work on it.
    Refused,
}

/// One finding about the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// How grave.
    pub level: CheckLevel,
    /// What was found, and what to do.
    pub message: String,
}

/// What `INFO` says, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerInfo {
    fields: BTreeMap<String, String>,
}

/// The oldest Redis that Leasehold works with.
pub(crate) const FLOOR: (u32, u32) = (7, 0);

impl ServerInfo {
    fn parse(info: &str) -> Self {
        let pair = |line: &str| line.split_once(':').map(|(k, v)| (k.to_owned(), v.trim().to_owned()));
        Self { fields: info.lines().filter_map(pair).collect() }
    }

    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.field(name).parse().unwrap_or_default()
    }

    /// The version; for Valkey, of the Redis that it is compatible with.
    #[must_use]
    pub fn version(&self) -> &str {
        self.field("redis_version")
    }

    /// Bytes in use.
    #[must_use]
    pub fn used_memory(&self) -> u64 {
        self.number("used_memory")
    }

    /// Bytes at most; 0 = no limit.
    #[must_use]
    pub fn max_memory(&self) -> u64 {
        self.number("maxmemory")
    }

    fn old(&self) -> bool {
        let mut parts = self.version().split('.').map(|p| p.parse::<u32>().unwrap_or_default());
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) < FLOOR
    }

    /// Everything worth telling, gravest first.
    #[must_use]
    pub fn checks(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        let mut say = |level, message: String| checks.push(Check { level, message });
        if self.old() {
            say(
                CheckLevel::Refused,
                format!(
                    "Redis {} is too old: Leasehold needs Redis 7.0 or Valkey 8 and later",
                    self.version()
                ),
            );
        }
        if self.field("role") != "master" {
            say(CheckLevel::Refused, "this Redis is a replica: point Leasehold at the master".into());
        }
        let policy = self.field("maxmemory_policy");
        if !policy.is_empty() && policy != "noeviction" {
            say(
                CheckLevel::Refused,
                format!(
                    "maxmemory-policy is {policy}: Redis may evict tasks and leases; set it to noeviction \
                     (redis-cli CONFIG SET maxmemory-policy noeviction)"
                ),
            );
        }
        if self.field("aof_enabled") != "1" {
            say(
                CheckLevel::Warning,
                "appendonly is off: a crash of Redis loses everything since its last snapshot; \
                 set appendonly yes (then at most about 2 s are lost on power loss, nothing on a crash of Redis)"
                    .into(),
            );
        }
        checks.sort_by_key(|c| std::cmp::Reverse(c.level));
        checks
    }
}

impl Store {
    /// What Redis this is.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn server_info(&self) -> Result<ServerInfo> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("INFO");
        let info: String = get(first(self.commands(&pipeline).await?)?)?;
        Ok(ServerInfo::parse(&info))
    }

    /// Checks the server at start: the warnings to show.
    ///
    /// # Errors
    /// [`Error::Rejected`] when Leasehold does not work on it; any error of Redis.
    pub async fn check_server(&self) -> Result<Vec<Check>> {
        let checks = self.server_info().await?.checks();
        match checks.first() {
            Some(worst) if worst.level == CheckLevel::Refused => Err(Error::Rejected(worst.message.clone())),
            _ => Ok(checks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckLevel, ServerInfo};

    const GOOD: &str =
        "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n";

    #[test]
    fn a_sound_server_has_no_findings() {
        assert!(ServerInfo::parse(GOOD).checks().is_empty());
    }

    #[test]
    fn case_16_any_policy_but_noeviction_is_refused() {
        for policy in ["volatile-ttl", "allkeys-lru", "volatile-lru"] {
            let checks = ServerInfo::parse(&GOOD.replace("noeviction", policy)).checks();
            assert_eq!(checks[0].level, CheckLevel::Refused);
            assert!(checks[0].message.contains(policy));
        }
    }

    #[test]
    fn old_servers_and_replicas_are_refused_no_aof_is_warned_of() {
        assert_eq!(
            ServerInfo::parse(&GOOD.replace("7.0.15", "6.2.14")).checks()[0].level,
            CheckLevel::Refused
        );
        assert_eq!(
            ServerInfo::parse(&GOOD.replace("master", "slave")).checks()[0].level,
            CheckLevel::Refused
        );
        assert_eq!(
            ServerInfo::parse(&GOOD.replace("aof_enabled:1", "x:1")).checks()[0].level,
            CheckLevel::Warning
        );
    }
}
