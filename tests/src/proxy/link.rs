//! The connections of a proxy: two pumps each, one for requests and one for replies.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::fault::{Fault, Request, Rule};
use super::{Shared, Switches};
use crate::eventually::sleep_async;
use crate::resp::{is_push, message_length, request_words};

const CHUNK: usize = 64 * 1024;

/// What is to happen to replies that are still to come, in order; or that replies can no longer be told apart.
#[derive(Debug, Default)]
struct Expected {
    fates: VecDeque<Option<Arc<Rule>>>,
    untracked: bool,
}

type SharedExpected = Arc<Mutex<Expected>>;

/// Accepts and serves connections until the proxy is over.
pub(super) fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let listener = TcpListener::from_std(listener).expect("a listener for tokio");
        let mut switches = shared.switches.subscribe();
        loop {
            // cancel-safe: neither branch loses anything; a connection not accepted stays in the backlog.
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((client, _)) = accepted else { continue };
                    shared.counters().connections += 1;
                    if !shared.switches.borrow().refuse {
                        tokio::spawn(serve_connection(client, Arc::clone(&shared)));
                    }
                }
                _ = switches.wait_for(|switches| switches.over) => return,
            }
        }
    });
}

/// Serves one connection until either side, a fault or a cut ends it; both sockets close with its end.
async fn serve_connection(client: TcpStream, shared: Arc<Shared>) {
    let mut switches = shared.switches.subscribe();
    let generation = switches.borrow().generation;
    let _live = Live::new(&shared, generation);
    let Ok(server) = TcpStream::connect(shared.upstream).await else { return };
    // Fails only on a socket that is closed already, which the first read will tell.
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let expected = SharedExpected::default();
    let requests = Pump::new(&shared, client_read, server_write, |s| s.frozen_to_server);
    let replies = Pump::new(&shared, server_read, client_write, |s| s.frozen_to_client);
    // cancel-safe: whichever branch ends first, the connection as a whole is over.
    tokio::select! {
        biased;
        _ = switches.wait_for(|switches| switches.generation != generation) => {}
        _ = pump_requests(requests, Arc::clone(&expected)) => {}
        _ = pump_replies(replies, expected) => {}
    }
}

/// Counts a connection among the live ones of its generation until dropped.
struct Live {
    shared: Arc<Shared>,
    generation: u64,
}

impl Live {
    fn new(shared: &Arc<Shared>, generation: u64) -> Self {
        *shared.live().entry(generation).or_default() += 1;
        Self { shared: Arc::clone(shared), generation }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        *self.shared.live().entry(self.generation).or_default() -= 1;
    }
}

/// One direction of a connection.
struct Pump {
    shared: Arc<Shared>,
    switches: watch::Receiver<Switches>,
    frozen: fn(&Switches) -> bool,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    /// Read, and not yet a whole message.
    buffer: Vec<u8>,
}

impl Pump {
    fn new(
        shared: &Arc<Shared>,
        from: OwnedReadHalf,
        to: OwnedWriteHalf,
        frozen: fn(&Switches) -> bool,
    ) -> Self {
        let switches = shared.switches.subscribe();
        Self { shared: Arc::clone(shared), switches, frozen, from, to, buffer: Vec::new() }
    }

    /// Reads more, and returns once it may be forwarded. While frozen nothing is read, so that a sender in the
    /// end meets full socket buffers, as on a dead link.
    async fn read(&mut self) -> io::Result<()> {
        self.thaw().await;
        let mut chunk = vec![0; CHUNK];
        let size = self.from.read(&mut chunk).await?;
        if size == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.buffer.extend_from_slice(&chunk[..size]);
        let delay = self.switches.borrow().delay;
        if !delay.is_zero() {
            sleep_async(delay).await;
        }
        self.thaw().await;
        Ok(())
    }

    async fn thaw(&mut self) {
        let frozen = self.frozen;
        // Fails only when the proxy is gone, and this connection with it.
        self.switches.wait_for(|switches| !frozen(switches)).await.ok();
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.shared.counters().bytes += bytes.len() as u64;
        self.to.write_all(bytes).await
    }

    /// Takes the next whole message out of the buffer.
    fn next_message(&mut self) -> Option<Vec<u8>> {
        let length = message_length(&self.buffer)?;
        let rest = self.buffer.split_off(length);
        Some(std::mem::replace(&mut self.buffer, rest))
    }
}

async fn pump_requests(mut pump: Pump, expected: SharedExpected) -> io::Result<()> {
    let mut pushes_apart = false;
    loop {
        pump.read().await?;
        let mut forward = Vec::new();
        while let Some(message) = pump.next_message() {
            let request = Request::new(request_words(&message));
            let rule = pump.shared.judge(&request);
            if let Some(rule) = rule.as_ref().filter(|rule| rule.fault() == Fault::DropRequest) {
                pump.write(&forward).await?;
                rule.note_happened();
                return Ok(());
            }
            pushes_apart |= request.name() == "HELLO" && request.text(1) == "3";
            note_expected(&expected, &request, rule, pushes_apart);
            forward.extend(message);
        }
        pump.write(&forward).await?;
    }
}

/// Subscriptions answer by pushes: apart from replies in RESP3, not to be told from them in RESP2.
fn note_expected(expected: &SharedExpected, request: &Request, rule: Option<Arc<Rule>>, pushes_apart: bool) {
    let mut expected = expected.lock().unwrap_or_else(PoisonError::into_inner);
    let name = request.name();
    let subscription = name.ends_with("SUBSCRIBE");
    expected.untracked |= name == "MONITOR" || (subscription && !pushes_apart);
    if !subscription {
        expected.fates.push_back(rule);
    }
}

async fn pump_replies(mut pump: Pump, expected: SharedExpected) -> io::Result<()> {
    loop {
        pump.read().await?;
        let mut forward = Vec::new();
        if expected.lock().unwrap_or_else(PoisonError::into_inner).untracked {
            forward.append(&mut pump.buffer);
        }
        while let Some(message) = pump.next_message() {
            if is_push(&message) {
                forward.extend(message);
                continue;
            }
            let fate = expected.lock().unwrap_or_else(PoisonError::into_inner).fates.pop_front().flatten();
            if let Some(rule) = fate {
                pump.write(&forward).await?;
                forward.clear();
                rule.note_happened();
                match rule.fault() {
                    Fault::DropReply | Fault::DropRequest => return Ok(()),
                    Fault::HoldReply(time) => sleep_async(time).await,
                }
            }
            pump.shared.counters().replies += 1;
            forward.extend(message);
        }
        pump.write(&forward).await?;
    }
}
