//! Which request a fault is meant for, and what it does.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::eventually::eventually;

/// A request as it passes: its words, the command's name first.
#[derive(Debug, Clone)]
pub struct Request {
    words: Vec<Vec<u8>>,
}

impl Request {
    pub(super) fn new(words: Vec<Vec<u8>>) -> Self {
        Self { words }
    }

    /// The command's name in upper case.
    pub fn name(&self) -> String {
        self.text(0).to_uppercase()
    }

    /// A word as text; empty when there is none.
    pub fn text(&self, index: usize) -> String {
        self.words.get(index).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default()
    }

    /// All words, the name included.
    pub fn words(&self) -> &[Vec<u8>] {
        &self.words
    }

    pub(super) fn label(&self) -> String {
        let name = self.name();
        if name.starts_with("EVALSHA") { format!("{name} {}", self.text(1)) } else { name }
    }
}

/// Tells the requests that a fault is meant for.
#[derive(Clone)]
pub struct Matcher {
    what: String,
    test: Arc<dyn Fn(&Request) -> bool + Send + Sync>,
}

impl Matcher {
    /// Every request.
    pub fn any() -> Self {
        Self::custom("any request", |_| true)
    }

    /// Requests with this command name, in whatever case.
    pub fn command(name: &str) -> Self {
        let wanted = name.to_uppercase();
        Self::custom(&format!("command {wanted}"), move |request| request.name() == wanted)
    }

    /// `EVALSHA` of this script.
    pub fn script(sha: &str) -> Self {
        let wanted = sha.to_lowercase();
        Self::custom(&format!("script {wanted}"), move |request| {
            request.name().starts_with("EVALSHA") && request.text(1).to_lowercase() == wanted
        })
    }

    /// Requests in which any word contains this text (an id, a key, a piece of a script sent by `EVAL`).
    pub fn keyword(text: &str) -> Self {
        let wanted = text.as_bytes().to_vec();
        Self::custom(&format!("keyword {text:?}"), move |request| {
            let contains = |word: &Vec<u8>| word.windows(wanted.len().max(1)).any(|part| part == wanted);
            request.words.iter().any(contains)
        })
    }

    /// Any other test; `what` names it in messages.
    pub fn custom(what: &str, test: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        Self { what: what.to_owned(), test: Arc::new(test) }
    }

    /// Requests that both match.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let what = format!("{} and {}", self.what, other.what);
        Self::custom(&what, move |request| (self.test)(request) && (other.test)(request))
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before the server has seen the request: no effect.
    DropRequest,
    /// The request takes effect and the connection ends before its reply: outcome unknown.
    DropReply,
    /// The request takes effect and its reply (with all that follow it) comes this much later.
    HoldReply(Duration),
}

/// A fault that waits for its request.
#[derive(Debug)]
pub(super) struct Rule {
    matcher: Matcher,
    nth: u64,
    fault: Fault,
    lasting: bool,
    seen: AtomicU64,
    happened: AtomicU64,
}

impl Rule {
    pub(super) fn new(matcher: Matcher, nth: u64, fault: Fault, lasting: bool) -> Self {
        assert!(nth > 0, "requests are counted from 1");
        Self { matcher, nth, fault, lasting, seen: AtomicU64::new(0), happened: AtomicU64::new(0) }
    }

    /// Counts the request if it matches; says whether the fault is for this one.
    pub(super) fn strikes(&self, request: &Request) -> bool {
        if !(self.matcher.test)(request) {
            return false;
        }
        let count = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        count.is_multiple_of(self.nth)
    }

    pub(super) fn fault(&self) -> Fault {
        self.fault
    }

    pub(super) fn is_lasting(&self) -> bool {
        self.lasting
    }

    pub(super) fn note_happened(&self) {
        self.happened.fetch_add(1, Ordering::SeqCst);
    }
}

/// Tells whether a fault has struck. Dropping it leaves the fault armed.
#[derive(Debug, Clone)]
pub struct Armed {
    rule: Arc<Rule>,
}

impl Armed {
    pub(super) fn new(rule: Arc<Rule>) -> Self {
        Self { rule }
    }

    /// How often it has struck; for replies this counts when the server has answered, so the effect is there.
    pub fn times(&self) -> u64 {
        self.rule.happened.load(Ordering::SeqCst)
    }

    /// Blocks until it has struck.
    #[track_caller]
    pub fn wait(&self, within: Duration) {
        eventually(&format!("{:?} strikes: {:?}", self.rule.fault, self.rule.matcher), within, || {
            let seen = self.rule.seen.load(Ordering::SeqCst);
            if self.times() > 0 { Ok(()) } else { Err(format!("{seen} matching requests")) }
        });
    }
}
