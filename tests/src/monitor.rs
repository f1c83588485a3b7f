//! Which client sent which command: `MONITOR` read by a thread.
//!
//! `INFO commandstats` also counts what scripts call; here each command carries its sender, and scripts are apart.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::eventually::eventually;
use crate::redis_server::RedisServer;

/// Words of a command that are kept, and bytes of each: enough to tell commands and keys apart.
const KEPT_WORDS: usize = 8;
const KEPT_BYTES: usize = 200;

/// One command as the server executed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `host:port` of the client; `None` for what a script called.
    pub client: Option<String>,
    /// The command's name and first arguments, as the client wrote them.
    pub words: Vec<String>,
}

/// Watches a server until dropped.
#[derive(Debug)]
pub struct Monitor {
    seen: Arc<Mutex<Vec<Seen>>>,
    stream: TcpStream,
    reader: Option<JoinHandle<()>>,
    marker: Mutex<TcpStream>,
    marker_addr: String,
}

impl Monitor {
    /// Begins to watch; everything sent after this returns is seen.
    pub fn start(server: &RedisServer) -> Self {
        let connect = || TcpStream::connect(server.addr()).expect("connect to our own redis");
        let (mut stream, marker) = (connect(), connect());
        stream.write_all(b"MONITOR\r\n").expect("ask for MONITOR");
        let mut lines = BufReader::new(stream.try_clone().expect("clone a socket"));
        let mut answer = String::new();
        lines.read_line(&mut answer).expect("an answer to MONITOR");
        assert_eq!(answer.trim_end(), "+OK", "answer to MONITOR");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            for line in lines.split(b'\n').map_while(Result::ok) {
                if let Some(command) = parse(&String::from_utf8_lossy(&line)) {
                    sink.lock().unwrap_or_else(PoisonError::into_inner).push(command);
                }
            }
        });
        let marker_addr = marker.local_addr().expect("a connected socket").to_string();
        Self { seen, stream, reader: Some(reader), marker: Mutex::new(marker), marker_addr }
    }

    /// Everything that was executed before this call, oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        self.settle();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let others = seen.iter().filter(|command| command.client.as_ref() != Some(&self.marker_addr));
        others.cloned().collect()
    }

    /// How many commands each client sent, by `host:port`.
    pub fn count_by_client(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for client in self.seen().into_iter().filter_map(|command| command.client) {
            *counts.entry(client).or_default() += 1;
        }
        counts
    }

    /// Forgets what was seen so far.
    pub fn clear(&self) {
        self.settle();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits until a marker sent now has come by, and with it all that was executed before.
    fn settle(&self) {
        let mark = uuid::Uuid::new_v4().simple().to_string();
        let marker = self.marker.lock().unwrap_or_else(PoisonError::into_inner);
        (&*marker).write_all(format!("ECHO {mark}\r\n").as_bytes()).expect("send a marker");
        eventually("the monitor catches up", Duration::from_secs(30), || {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let found = seen.iter().rev().any(|command| command.words.contains(&mark));
            if found { Ok(()) } else { Err(format!("{} commands", seen.len())) }
        });
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Fails only when the server is gone, and then the reader has ended by itself.
        self.stream.shutdown(Shutdown::Both).ok();
        if let Some(reader) = self.reader.take() {
            reader.join().ok();
        }
    }
}

/// `+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`
fn parse(line: &str) -> Option<Seen> {
    let (_time, rest) = line.split_once(" [")?;
    let (source, words) = rest.split_once("] ")?;
    let (_database, sender) = source.split_once(' ')?;
    let client = (sender != "lua").then(|| sender.to_owned());
    Some(Seen { client, words: quoted_words(words) })
}

fn quoted_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = text.chars();
    while words.len() < KEPT_WORDS && letters.any(|letter| letter == '"') {
        let mut word = String::new();
        while let Some(letter) = letters.next() {
            match letter {
                '"' => break,
                '\\' => word.extend(letters.next()),
                _ if word.len() < KEPT_BYTES => word.push(letter),
                _ => {}
            }
        }
        words.push(word);
    }
    words
}
