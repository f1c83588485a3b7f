//! Counts what clients send, by standing between them and Redis: `INFO commandstats` counts what scripts call, too.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use redis::{ConnectionAddr, IntoConnectionInfo as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::error::{Error, Result};

/// Bytes that are passed on at once.
const BUFFER: usize = 64 * 1024;

/// Calls by the name of the command.
type Counts = Arc<Mutex<BTreeMap<String, u64>>>;

/// A way to Redis that counts. It ends with the value.
#[derive(Debug)]
pub(crate) struct Relay {
    /// What to connect to in the place of Redis.
    pub(crate) url: String,
    counts: Counts,
    _stop: DropGuard,
}

/// Where Redis is.
#[derive(Debug, Clone)]
enum Upstream {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Upstream {
    /// What `url` leads to; none for what is encrypted, for that cannot be read on the way.
    fn of(url: &str) -> Result<Option<Self>> {
        let info = url.into_connection_info()?;
        Ok(match info.addr() {
            ConnectionAddr::Tcp(host, port) => Some(Self::Tcp(host.clone(), *port)),
            ConnectionAddr::Unix(path) => Some(Self::Unix(path.clone())),
            _ => None,
        })
    }
}

impl Relay {
    /// Stands before the Redis of `url`; none where it cannot.
    pub(crate) async fn before(url: &str, tracker: &TaskTracker) -> Result<Option<Self>> {
        let Some(upstream) = Upstream::of(url)? else { return Ok(None) };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (counts, stop) = (Counts::default(), CancellationToken::new());
        let (counting, stopped) = (Arc::clone(&counts), stop.clone());
        tracker.spawn(async move {
            // cancel-safe: a connection that is not accepted is refused with the listener.
            tokio::select! {
                () = stopped.cancelled() => {}
                () = serve(listener, upstream, counting, &stopped) => {}
            }
        });
        Ok(Some(Self { url: with_port(url, port)?, counts, _stop: stop.drop_guard() }))
    }

    /// Calls so far, by command in lower case.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The same URL with this port of 127.0.0.1 in the place of host and port: user, password and database stay.
fn with_port(url: &str, port: u16) -> Result<String> {
    let odd = || Error::odd("the relay", "the Redis URL has no form that it knows");
    let (scheme, rest) = url.split_once("://").ok_or_else(odd)?;
    if scheme.contains("unix") || scheme == "unix" {
        let query = rest.split_once('?').map_or("", |(_, query)| query);
        let value = |name: &str| query.split('&').filter_map(|p| p.split_once('=')).find(|(n, _)| *n == name);
        let user = value("user").map_or("", |(_, user)| user);
        let secret = value("pass").map(|(_, pass)| format!("{user}:{pass}@")).unwrap_or_default();
        let db = value("db").map_or("0", |(_, db)| db);
        return Ok(format!("redis://{secret}127.0.0.1:{port}/{db}"));
    }
    let (secret, host) = rest.rsplit_once('@').map_or(("", rest), |(secret, host)| (secret, host));
    let path = host.find(['/', '?']).map_or("", |at| &host[at..]);
    let at = if secret.is_empty() { "" } else { "@" };
    Ok(format!("{scheme}://{secret}{at}127.0.0.1:{port}{path}"))
}

async fn serve(listener: TcpListener, upstream: Upstream, counts: Counts, stop: &CancellationToken) {
    while let Ok((client, _)) = listener.accept().await {
        let (upstream, counts, stop) = (upstream.clone(), Arc::clone(&counts), stop.clone());
        tokio::spawn(async move {
            // cancel-safe: the connection ends with the relay. What breaks is closed, and each side sees that.
            tokio::select! {
                () = stop.cancelled() => {}
                _ = connect(client, upstream, counts) => {}
            }
        });
    }
}

async fn connect(client: TcpStream, upstream: Upstream, counts: Counts) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    match upstream {
        Upstream::Tcp(host, port) => {
            let server = TcpStream::connect((host.as_str(), port)).await?;
            server.set_nodelay(true)?;
            let (from_server, to_server) = server.into_split();
            both(from_client, to_server, from_server, to_client, counts).await
        }
        Upstream::Unix(path) => {
            let (from_server, to_server) = UnixStream::connect(path).await?.into_split();
            both(from_client, to_server, from_server, to_client, counts).await
        }
    }
}

/// Passes both directions on until one ends, and counts in one of them.
async fn both(
    mut from_client: impl AsyncRead + Unpin,
    mut to_server: impl AsyncWrite + Unpin,
    mut from_server: impl AsyncRead + Unpin,
    mut to_client: impl AsyncWrite + Unpin,
    counts: Counts,
) -> std::io::Result<()> {
    let asking = async {
        let (mut buffer, mut reader) = (vec![0; BUFFER], Requests::default());
        loop {
            let read = from_client.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            let names = reader.read(&buffer[..read]);
            {
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                for name in names {
                    *counts.entry(name).or_default() += 1;
                }
            }
            to_server.write_all(&buffer[..read]).await?;
        }
    };
    let answering = tokio::io::copy(&mut from_server, &mut to_client);
    // cancel-safe: when one direction ends, so does the connection.
    tokio::select! {
        asked = asking => asked,
        answered = answering => answered.map(drop),
    }
}

/// Reads the names of commands out of a stream of requests, however it is cut into pieces.
#[derive(Debug, Default)]
struct Requests {
    /// A line that is not whole yet.
    line: Vec<u8>,
    /// Words of the command that are still to come.
    words: usize,
    /// Bytes of a word, with its line end, that are still to come.
    skip: usize,
    /// The next word is the command's name.
    first: bool,
    name: Vec<u8>,
}

impl Requests {
    /// The names of the commands that are known after these bytes.
    fn read(&mut self, mut bytes: &[u8]) -> Vec<String> {
        let mut names = Vec::new();
        while !bytes.is_empty() {
            if self.skip > 0 {
                let (word, rest) = bytes.split_at(self.skip.min(bytes.len()));
                if self.first {
                    self.name.extend_from_slice(word);
                }
                self.skip -= word.len();
                bytes = rest;
                if self.skip == 0 {
                    self.words -= 1;
                    if std::mem::take(&mut self.first) {
                        let name = std::mem::take(&mut self.name);
                        names.push(String::from_utf8_lossy(&name).trim_end().to_lowercase());
                    }
                }
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.line.extend_from_slice(line);
            bytes = rest;
            if end.is_some() {
                self.head();
            }
        }
        names
    }

    /// A whole line: how many words follow, or how long the next one is.
    fn head(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let number = text.get(1..).and_then(|n| n.trim_end().parse::<usize>().ok()).unwrap_or_default();
        if text.starts_with('*') {
            (self.words, self.first) = (number, true);
        } else if text.starts_with('$') && self.words > 0 {
            self.skip = number + 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Relay, Requests, with_port};
    use redis::AsyncConnectionConfig;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_util::task::TaskTracker;

    #[test]
    fn names_are_read_however_the_stream_is_cut() {
        let stream = b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$2\r\n\r\n\r\n$4\r\n*1\r\n\r\n*2\r\n$3\r\nget\r\n$0\r\n\r\n";
        for cut in 1..=stream.len() {
            let mut requests = Requests::default();
            let names: Vec<String> = stream.chunks(cut).flat_map(|piece| requests.read(piece)).collect();
            assert_eq!(names, ["ping", "set", "get"], "in pieces of {cut}");
        }
    }

    #[test]
    fn only_the_address_of_a_url_changes() {
        for (url, told) in [
            ("redis://h:1", "redis://127.0.0.1:7"),
            ("redis://u:p@h:1/3", "redis://u:p@127.0.0.1:7/3"),
            ("redis://h/", "redis://127.0.0.1:7/"),
            ("redis+unix:///a.sock?db=2&pass=x", "redis://:x@127.0.0.1:7/2"),
            ("unix:///a.sock", "redis://127.0.0.1:7/0"),
        ] {
            assert_eq!(with_port(url, 7).unwrap(), told);
        }
    }

    /// A server that answers `+OK` to every request that is in one of these pipelines.
    async fn answering() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut requests, mut buffer) = (Requests::default(), vec![0; 1024]);
                    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                        let answers = "+OK\r\n".repeat(requests.read(&buffer[..read]).len());
                        stream.write_all(answers.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        port
    }

    #[tokio::test]
    async fn every_command_of_every_connection_is_counted_by_its_name() {
        let url = format!("redis://127.0.0.1:{}", answering().await);
        let relay = Relay::before(&url, &TaskTracker::new()).await.unwrap().unwrap();
        for _ in 0..2 {
            let client = redis::Client::open(relay.url.as_str()).unwrap();
            let config = AsyncConnectionConfig::new();
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
            let mut pipeline = redis::pipe();
            for n in 0..5 {
                pipeline.cmd("SET").arg("a").arg(n).ignore();
            }
            pipeline.cmd("EVALSHA").arg("x").arg(0).ignore();
            pipeline.query_async::<()>(&mut connection).await.unwrap();
            redis::cmd("PING").query_async::<String>(&mut connection).await.unwrap();
        }
        let counts = relay.counts();
        assert_eq!([counts["set"], counts["evalsha"], counts["ping"]], [10, 2, 2], "{counts:?}");
    }
}
