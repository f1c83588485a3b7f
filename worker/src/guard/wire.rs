//! What worker and guard tell each other: one line per message over a unix socket.

use super::clock::BootInstant;
use super::procs::Target;

/// From the worker to the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Watch over this run; answered with [`Answer::Noted`].
    Watch {
        /// The worker's number for the run.
        run: u64,
        /// How its processes are recognised.
        target: Target,
        /// When its lease ends.
        until: BootInstant,
        /// A guard before may have stopped it.
        again: bool,
    },
    /// The lease of the run lasts until then.
    Renew {
        /// The run.
        run: u64,
        /// When its lease ends now.
        until: BootInstant,
    },
    /// The run is over and nothing of it is left.
    Forget {
        /// The run.
        run: u64,
    },
    /// Answer [`Answer::Alive`].
    Ping,
}

/// From the guard to the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The guard is there: sent once at its start, and after each ping.
    Alive,
    /// The run is being watched over.
    Noted(u64),
}

impl Order {
    /// The line that says this, newline included.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Watch { run, target: Target { leader, leader_start, token }, until, again } => {
                let verb = if *again { "rewatch" } else { "watch" };
                format!("{verb} {run} {leader} {leader_start} {} {token}\n", until.as_nanos())
            }
            Self::Renew { run, until } => format!("renew {run} {}\n", until.as_nanos()),
            Self::Forget { run } => format!("forget {run}\n"),
            Self::Ping => "ping\n".to_owned(),
        }
    }

    /// Reads a line; `None` for what makes no sense.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let verb = words.next()?;
        let number = |words: &mut std::str::SplitAsciiWhitespace<'_>| words.next()?.parse::<u64>().ok();
        Some(match verb {
            "watch" | "rewatch" => {
                let run = number(&mut words)?;
                let leader = words.next()?.parse().ok()?;
                let leader_start = number(&mut words)?;
                let until = BootInstant::from_nanos(number(&mut words)?);
                let token = words.next()?.to_owned();
                Self::Watch {
                    run,
                    target: Target { leader, leader_start, token },
                    until,
                    again: verb == "rewatch",
                }
            }
            "renew" => {
                let run = number(&mut words)?;
                Self::Renew { run, until: BootInstant::from_nanos(number(&mut words)?) }
            }
            "forget" => Self::Forget { run: number(&mut words)? },
            "ping" => Self::Ping,
            _ => return None,
        })
    }
}

impl Answer {
    /// The line that says this, newline included.
    pub(crate) fn line(self) -> String {
        match self {
            Self::Alive => "alive\n".to_owned(),
            Self::Noted(run) => format!("noted {run}\n"),
        }
    }

    /// Reads a line; `None` for what makes no sense.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        match line.trim_end().split_once(' ') {
            None => (line.trim_end() == "alive").then_some(Self::Alive),
            Some(("noted", run)) => run.parse().ok().map(Self::Noted),
            Some(_) => None,
        }
    }
}

/// Gathers bytes as they arrive and gives out whole lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Adds what was read and takes the lines that are whole now.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        self.pending.extend_from_slice(bytes);
        let Some(last) = self.pending.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.pending.split_off(last + 1);
        let whole = std::mem::replace(&mut self.pending, rest);
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_wire() {
        let target = Target { leader: 12, leader_start: 34, token: "ab.cd".into() };
        let until = BootInstant::from_nanos(56);
        for order in [
            Order::Watch { run: 1, target: target.clone(), until, again: false },
            Order::Watch { run: 1, target, until, again: true },
            Order::Renew { run: 2, until },
            Order::Forget { run: 3 },
            Order::Ping,
        ] {
            assert_eq!(Order::parse(&order.line()), Some(order));
        }
        for wrong in ["", "watch 1", "renew x 1", "forget", "hello"] {
            assert_eq!(Order::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn answers_survive_the_wire() {
        for answer in [Answer::Alive, Answer::Noted(7)] {
            assert_eq!(Answer::parse(&answer.line()), Some(answer));
        }
        assert_eq!(Answer::parse("noted"), None);
    }

    #[test]
    fn lines_are_put_together() {
        let mut lines = Lines::default();
        assert!(lines.feed(b"pi").is_empty());
        assert_eq!(lines.feed(b"ng\nforget 1\nren"), ["ping", "forget 1"]);
        assert_eq!(lines.feed(b"ew\n"), ["renew"]);
    }
}
