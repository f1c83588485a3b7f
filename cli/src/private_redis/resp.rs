//! The two commands this module says to a server: `PING` and `INFO server`.
//!
//! Only `leasehold-common` may use a Redis client; whether a server is there needs none.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{Doing as _, Error};
use super::version::Version;

/// How long one answer may take. A server that loads its data or rewrites its log answers in microseconds; one that
/// is stopped never does.
const ANSWER_DEADLINE: Duration = Duration::from_secs(1);

/// The longest answer that is read; `INFO server` takes about 1 KB.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// Where a private server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A socket file, reachable only for its owner.
    Unix(PathBuf),
    /// A port of 127.0.0.1.
    Tcp(u16),
}

impl Address {
    /// The address as a URL that the redis crate reads.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Unix(path) => format!("redis+unix://{}", percent_encoded(path.as_os_str())),
            Self::Tcp(port) => format!("redis://127.0.0.1:{port}"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url())
    }
}

/// The path of a URL: everything but letters, digits and `/-._~` is escaped byte by byte.
fn percent_encoded(path: &OsStr) -> String {
    path.as_bytes().iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
        }
        text
    })
}

/// The hexadecimal digit of a number below 16.
fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or('0').to_ascii_uppercase()
}

/// What a server answers to `PING`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Greeting {
    /// It is ready.
    Pong,
    /// It lives but still reads its data.
    Loading,
    /// Something else, such as a demand for a password.
    Unexpected(String),
}

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// `Redis` or `Valkey`.
    pub(crate) product: &'static str,
    /// Its own version.
    pub(crate) version: Version,
    /// The Redis version it is compatible with; the same for Redis itself.
    pub(crate) redis_version: Version,
    /// Its process id, as it sees itself.
    pub(crate) process_id: u32,
}

impl ServerInfo {
    /// Reads the answer to `INFO server`.
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')))
        };
        let redis_version = Version::parse(field("redis_version")?)?;
        let valkey = field("valkey_version").and_then(Version::parse);
        Some(Self {
            product: if valkey.is_some() { "Valkey" } else { "Redis" },
            version: valkey.unwrap_or(redis_version),
            redis_version,
            process_id: field("process_id")?.trim().parse().ok()?,
        })
    }
}

/// Asks the server at `address` for its version and refuses one below the floor.
pub(crate) fn check_server(address: &Address) -> Result<ServerInfo, Error> {
    let info = info(address).doing(|| format!("could not ask the server at {address} for its version"))?;
    if info.redis_version.meets_floor() {
        Ok(info)
    } else {
        Err(Error::BelowFloor { place: address.url(), version: info.redis_version })
    }
}

/// Says `PING`.
pub(super) fn ping(address: &Address) -> io::Result<Greeting> {
    let answer = ask(address, "PING")?;
    Ok(match answer.as_str() {
        "+PONG" => Greeting::Pong,
        loading if loading.starts_with("-LOADING") => Greeting::Loading,
        other => Greeting::Unexpected(other.to_owned()),
    })
}

/// Says `INFO server`.
pub(super) fn info(address: &Address) -> io::Result<ServerInfo> {
    let answer = ask(address, "INFO server")?;
    ServerInfo::parse(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, answer))
}

/// Connects, sends one command and reads its answer: the status or error line, or the text of a bulk string.
pub(super) fn ask(address: &Address, command: &str) -> io::Result<String> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
            stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
            exchange(stream, command)
        }
        Address::Tcp(port) => {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            let stream = TcpStream::connect_timeout(&address, ANSWER_DEADLINE)?;
            stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
            stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
            exchange(stream, command)
        }
    }
}

/// The exchange of [`ask`] on an open connection.
fn exchange(mut stream: impl Read + Write, command: &str) -> io::Result<String> {
    stream.write_all(command.as_bytes())?;
    stream.write_all(b"\r\n")?;
    let mut reader = BufReader::new(stream.take(LONGEST_ANSWER));
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    let Some(length) = line.strip_prefix('$') else { return Ok(line.to_owned()) };
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, line.to_owned());
    let length: usize = length.parse().map_err(|_| invalid())?;
    if length as u64 > LONGEST_ANSWER {
        return Err(invalid());
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Redis names itself once, Valkey twice.
    #[test]
    fn parses_info() {
        let redis = ServerInfo::parse("# Server\r\nredis_version:7.0.15\r\nprocess_id:42\r\n");
        assert_eq!(
            redis.map(|i| format!("{} {} {}", i.product, i.version, i.process_id)).as_deref(),
            Some("Redis 7.0.15 42")
        );
        let valkey = ServerInfo::parse(
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nprocess_id:7\r\n",
        );
        assert_eq!(
            valkey.map(|i| format!("{} {} {}", i.product, i.version, i.redis_version)).as_deref(),
            Some("Valkey 9.1.2 7.2.4")
        );
        assert_eq!(ServerInfo::parse("-NOAUTH Authentication required."), None);
    }

    /// A socket path becomes a URL that survives parsing.
    #[test]
    fn urls_are_escaped() {
        let unix = |path: &str| Address::Unix(PathBuf::from(path)).url();
        assert_eq!(unix("/a/b-c/.leasehold/r.sock"), "redis+unix:///a/b-c/.leasehold/r.sock");
        assert_eq!(unix("/a b/c%20?#ü"), "redis+unix:///a%20b/c%2520%3F%23%C3%BC");
        assert_eq!(Address::Tcp(6400).url(), "redis://127.0.0.1:6400");
    }
}
