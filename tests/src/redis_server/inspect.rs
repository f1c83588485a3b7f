//! Reading a server from outside: digest, memory, statistics, clients.

use std::collections::BTreeMap;

use redis::Value;

use super::RedisServer;

/// One row of `INFO commandstats`. Commands called by scripts are counted too.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CommandStat {
    /// How often it ran.
    pub calls: u64,
    /// Microseconds of CPU, all calls together.
    pub usec: u64,
    /// Refused before running (wrong arity, no memory, ...).
    pub rejected: u64,
    /// Ran and answered with an error.
    pub failed: u64,
}

/// One row of `CLIENT LIST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// The server's id of the connection.
    pub id: u64,
    /// `host:port` of the client: what [`Monitor`](crate::Monitor) counts by.
    pub addr: String,
    /// What the client called itself by `CLIENT SETNAME`.
    pub name: String,
    /// Its last command.
    pub last_command: String,
}

impl RedisServer {
    /// `DEBUG DIGEST` of the whole dataset: equal before and after means that nothing changed.
    ///
    /// It sees that a key has an expiry, not when; compare `PTTL` where that matters.
    pub fn digest(&self) -> String {
        self.command(&["DEBUG", "DIGEST"])
    }

    /// One section of `INFO` as name and value.
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        let text: String = self.command(&["INFO", section]);
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Memory in use, in bytes.
    pub fn used_memory(&self) -> u64 {
        number(&self.info("memory"), "used_memory")
    }

    /// All commands processed since the start, those that scripts called included.
    pub fn commands_processed(&self) -> u64 {
        number(&self.info("stats"), "total_commands_processed")
    }

    /// `INFO commandstats` by command name in lower case (`evalsha`, `client|setname`).
    pub fn command_stats(&self) -> BTreeMap<String, CommandStat> {
        let rows = self.info("commandstats").into_iter();
        rows.filter_map(|(name, row)| {
            Some((name.strip_prefix("cmdstat_")?.to_owned(), parse_command_stat(&row)))
        })
        .collect()
    }

    /// `CONFIG RESETSTAT`: statistics count from here.
    pub fn reset_stats(&self) {
        self.command::<()>(&["CONFIG", "RESETSTAT"]);
    }

    /// Everyone connected now.
    pub fn clients(&self) -> Vec<ClientInfo> {
        let text: String = self.command(&["CLIENT", "LIST"]);
        text.lines().map(parse_client).collect()
    }

    /// How many keys there are.
    pub fn key_count(&self) -> u64 {
        self.command(&["DBSIZE"])
    }
}

/// Renders an answer as `redis-cli` does when its output is no terminal.
pub(super) fn render(value: &Value) -> String {
    let lines = |values: &[Value]| values.iter().map(render).collect::<Vec<_>>().join("\n");
    match value {
        Value::Nil => String::new(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Array(values) | Value::Set(values) => lines(values),
        Value::Map(pairs) => {
            let rendered = pairs.iter().map(|(key, value)| format!("{}\n{}", render(key), render(value)));
            rendered.collect::<Vec<_>>().join("\n")
        }
        other => format!("{other:?}"),
    }
}

fn number(info: &BTreeMap<String, String>, name: &str) -> u64 {
    info.get(name).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
}

fn parse_command_stat(row: &str) -> CommandStat {
    let fields: BTreeMap<&str, &str> = row.split(',').filter_map(|field| field.split_once('=')).collect();
    let field = |name: &str| fields.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
    CommandStat {
        calls: field("calls"),
        usec: field("usec"),
        rejected: field("rejected_calls"),
        failed: field("failed_calls"),
    }
}

fn parse_client(row: &str) -> ClientInfo {
    let fields: BTreeMap<&str, &str> = row.split(' ').filter_map(|field| field.split_once('=')).collect();
    let field = |name: &str| (*fields.get(name).unwrap_or(&"")).to_owned();
    ClientInfo {
        id: field("id").parse().unwrap_or(0),
        addr: field("addr"),
        name: field("name"),
        last_command: field("cmd"),
    }
}
