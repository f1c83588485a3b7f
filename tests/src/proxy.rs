//! A TCP proxy between a client and its Redis that breaks things on demand.
//!
//! It follows the protocol closely enough to pair each reply with its request, so that it can forward a request
//! and cut the connection before exactly that reply. It runs in a thread with a runtime of its own: a test that
//! blocks, sync or async, does not hold it up.
//!
//! - [`Proxy::cut`], [`Proxy::kick`]: connections end; new ones are refused, or welcome
//! - [`Proxy::freeze`]: half-open; nothing is forwarded (in one direction, or both) and nothing is closed
//! - [`Proxy::delay`]: everything arrives later
//! - [`Proxy::drop_reply_of`], [`Proxy::fault`]: a fault for the n-th matching request from now on
//! - [`Proxy::heal`]: all of the above is over; what a freeze held back is delivered

mod fault;
mod link;

pub use fault::{Armed, Fault, Matcher, Request};

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use crate::eventually::eventually;
use crate::redis_server::{RedisServer, RedisUrl};
use fault::Rule;

/// Which way a freeze works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Requests do not reach the server.
    ToServer,
    /// Replies do not reach the client, while its requests take effect.
    ToClient,
    /// Neither.
    Both,
}

/// What passed through a proxy since it started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted, refused ones included.
    pub connections: u64,
    /// Requests forwarded to the server: client commands, whatever scripts call.
    pub requests: u64,
    /// Replies forwarded to clients.
    pub replies: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Requests by command name in upper case; `EVALSHA` with the script's SHA after a blank.
    pub by_command: BTreeMap<String, u64>,
}

/// A running proxy; everything through it ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    listen: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy before this server.
    pub fn before(server: &RedisServer) -> Self {
        Self::start(server.addr())
    }

    /// A proxy before any address.
    pub fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port for the proxy");
        listener.set_nonblocking(true).expect("a listener for tokio");
        let listen = listener.local_addr().expect("a bound listener");
        let shared = Arc::new(Shared {
            upstream,
            switches: watch::Sender::new(Switches::default()),
            rules: Mutex::default(),
            counters: Mutex::default(),
            live: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || link::serve(listener, served));
        Self { listen, shared, thread: Some(thread) }
    }

    /// `redis://127.0.0.1:<port of the proxy>/`
    pub fn url(&self) -> String {
        format!("redis://{}/", self.listen)
    }

    /// Ends every connection, and each new one at once, until [`heal`](Self::heal).
    pub fn cut(&self) {
        self.end_connections(true);
    }

    /// Ends every connection of now; new ones are welcome.
    pub fn kick(&self) {
        self.end_connections(false);
    }

    /// Forwards nothing more in this direction, without closing: what is sent waits until [`heal`](Self::heal),
    /// or is lost with [`cut`](Self::cut) or [`kick`](Self::kick).
    pub fn freeze(&self, direction: Direction) {
        self.switch(|switches| {
            switches.frozen_to_server |= direction != Direction::ToClient;
            switches.frozen_to_client |= direction != Direction::ToServer;
        });
    }

    /// Everything read from now on, each way, is forwarded this much later.
    pub fn delay(&self, by: Duration) {
        self.switch(|switches| switches.delay = by);
    }

    /// Ends cut, freeze and delay, and forgets the faults that have not struck.
    pub fn heal(&self) {
        self.shared.rules().clear();
        self.switch(|switches| {
            *switches = Switches { generation: switches.generation, ..Switches::default() };
        });
    }

    /// Forwards the `nth` matching request from now on (the first is 1) and ends the connection before its reply.
    pub fn drop_reply_of(&self, matcher: Matcher, nth: u64) -> Armed {
        self.fault(matcher, nth, Fault::DropReply)
    }

    /// Lets `fault` happen to the `nth` matching request from now on (the first is 1), once.
    pub fn fault(&self, matcher: Matcher, nth: u64, fault: Fault) -> Armed {
        self.arm(Rule::new(matcher, nth, fault, false))
    }

    /// Lets `fault` happen to every `nth` matching request, until [`heal`](Self::heal).
    pub fn fault_every(&self, matcher: Matcher, nth: u64, fault: Fault) -> Armed {
        self.arm(Rule::new(matcher, nth, fault, true))
    }

    /// What passed so far.
    pub fn counters(&self) -> Counters {
        self.shared.counters().clone()
    }

    fn arm(&self, rule: Rule) -> Armed {
        let rule = Arc::new(rule);
        self.shared.rules().push(Arc::clone(&rule));
        Armed::new(rule)
    }

    /// Returns once the connections are closed, so that nothing sent after it gets through on them.
    fn end_connections(&self, refuse: bool) {
        let mut generation = 0;
        self.switch(|switches| {
            switches.generation += 1;
            switches.refuse |= refuse;
            generation = switches.generation;
        });
        eventually("the proxy has closed its connections", Duration::from_secs(10), || {
            let open: usize = self.shared.live().range(..generation).map(|(_, count)| count).sum();
            if open == 0 { Ok(()) } else { Err(format!("{open} open")) }
        });
    }

    fn switch(&self, change: impl FnOnce(&mut Switches)) {
        self.shared.switches.send_modify(change);
    }
}

impl RedisUrl for Proxy {
    fn redis_url(&self) -> String {
        self.url()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.switch(|switches| switches.over = true);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// What the connections of a proxy look at before each step.
#[derive(Debug, Clone, Default)]
struct Switches {
    /// Raised to end all connections of an earlier generation.
    generation: u64,
    refuse: bool,
    frozen_to_server: bool,
    frozen_to_client: bool,
    delay: Duration,
    over: bool,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    switches: watch::Sender<Switches>,
    rules: Mutex<Vec<Arc<Rule>>>,
    counters: Mutex<Counters>,
    /// Open connections by generation.
    live: Mutex<BTreeMap<u64, usize>>,
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Vec<Arc<Rule>>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request and decides what happens to it.
    fn judge(&self, request: &Request) -> Option<Arc<Rule>> {
        {
            let mut counters = self.counters();
            counters.requests += 1;
            *counters.by_command.entry(request.label()).or_default() += 1;
        }
        let mut struck = None;
        self.rules().retain(|rule| {
            let strikes = rule.strikes(request);
            if strikes && struck.is_none() {
                struck = Some(Arc::clone(rule));
            }
            !strikes || rule.is_lasting()
        });
        struck
    }
}
