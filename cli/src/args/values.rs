//! Values as people type them, each checked when it is read, with an error that names field and range.

use std::str::FromStr;
use std::time::Duration;

use leasehold_common::body::TaskKind;
use leasehold_common::bounds::{Deadline, MOST_BUDGET};
use leasehold_common::clock::wall_ms;
use leasehold_common::name::{BudgetName, QueueName, TaskName};
use leasehold_common::policy::OnLeaseExpired;
use leasehold_common::store::MOST_AT_A_TIME;
use leasehold_common::text::printable;
use leasehold_common::time::{MAX_DURATION, parse_duration};
use leasehold_common::{Error, Result};
use leasehold_worker::ExecPolicy;

/// Most slots of a worker, in a queue and in total.
pub(crate) const MOST_SLOTS: usize = 10_000;

/// A run timeout: a duration, or `none` for one that never ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunTimeout(pub(crate) Option<Duration>);

impl FromStr for RunTimeout {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if text == "none" {
            return Ok(Self(None));
        }
        match parse_duration("run_timeout", text, Duration::from_millis(1), MAX_DURATION) {
            Ok(timeout) => Ok(Self(Some(timeout))),
            Err(Error::Invalid { field, reason }) => Err(Error::invalid(field, format!("{reason}, or none"))),
            Err(other) => Err(other),
        }
    }
}

/// What happens to a task whose worker died under it.
pub(crate) fn on_lease_expired(text: &str) -> Result<OnLeaseExpired> {
    match text {
        "requeue" => Ok(OnLeaseExpired::Requeue),
        "fail" => Ok(OnLeaseExpired::Fail),
        _ => Err(Error::invalid("on_lease_expired", format!("{:?} is not requeue or fail", printable(text)))),
    }
}

/// A whole number of `least` to `most`; digits only.
pub(crate) fn count(field: &'static str, text: &str, least: u64, most: u64) -> Result<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse::<u64>().ok().filter(|n| digits && (least..=most).contains(n));
    number.ok_or_else(|| {
        Error::invalid(field, format!("{:?} is not a whole number of {least} to {most}", printable(text)))
    })
}

pub(crate) fn max_attempts(text: &str) -> Result<u32> {
    count("max_attempts", text, 1, 10_000).map(|n| n as u32)
}

pub(crate) fn max_reclaims(text: &str) -> Result<u32> {
    count("max_reclaims", text, 0, 10_000).map(|n| n as u32)
}

pub(crate) fn slots(text: &str) -> Result<usize> {
    count("slots", text, 1, MOST_SLOTS as u64).map(|n| n as usize)
}

pub(crate) fn limit(text: &str) -> Result<usize> {
    count("limit", text, 1, 1000).map(|n| n as usize)
}

fn duration(field: &'static str, text: &str) -> Result<Duration> {
    parse_duration(field, text, Duration::ZERO, MAX_DURATION)
}

pub(crate) fn delay(text: &str) -> Result<Duration> {
    duration("delay", text)
}

pub(crate) fn at(text: &str) -> Result<u64> {
    leasehold_common::time::parse_time("at", text)
}

pub(crate) fn stop_grace(text: &str) -> Result<Duration> {
    duration("stop_grace", text)
}

pub(crate) fn abort_grace(text: &str) -> Result<Duration> {
    duration("abort_grace", text)
}

pub(crate) fn grace(text: &str) -> Result<Duration> {
    duration("grace", text)
}

pub(crate) fn cleanup_timeout(text: &str) -> Result<Duration> {
    parse_duration("cleanup_timeout", text, Duration::ZERO, Duration::from_secs(600))
}

pub(crate) fn drain_grace(text: &str) -> Result<Duration> {
    parse_duration("drain_grace", text, Duration::ZERO, Duration::from_secs(24 * 3600))
}

pub(crate) fn yield_after(text: &str) -> Result<Duration> {
    duration("yield", text)
}

pub(crate) fn timeout(text: &str) -> Result<Duration> {
    duration("timeout", text)
}

pub(crate) fn lease(text: &str) -> Result<Duration> {
    let (least, most) = leasehold_common::store::LEASE_RANGE;
    parse_duration("lease", text, least, most)
}

/// A duration from now, or a time.
pub(crate) fn deadline(text: &str) -> Result<Deadline> {
    if text.contains('-') || text.contains(':') {
        let deadline = leasehold_common::time::parse_time("deadline", text).map(Deadline::At)?;
        // Told before Redis is asked; the producer refuses it too.
        return deadline.refuse_past(wall_ms()).map(|()| deadline);
    }
    parse_duration("deadline", text, Duration::from_millis(1), MAX_DURATION).map(Deadline::After)
}

/// A duration, or none.
fn duration_or_none(field: &'static str, text: &str) -> Result<OrNone> {
    if text == "none" {
        return Ok(OrNone(None));
    }
    parse_duration(field, text, Duration::from_millis(1), MAX_DURATION).map(|duration| OrNone(Some(duration)))
}

/// A duration that may be none on purpose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrNone(pub(crate) Option<Duration>);

pub(crate) fn silence_notice(text: &str) -> Result<OrNone> {
    duration_or_none("silence_notice", text)
}

pub(crate) fn stall_timeout(text: &str) -> Result<OrNone> {
    duration_or_none("stall_timeout", text)
}

/// `NAME=MAXIMUM`.
pub(crate) fn budget(text: &str) -> Result<(BudgetName, u64)> {
    let (name, most) = pair("budget", text)?;
    let count = most.parse().ok().filter(|n| *n <= MOST_BUDGET);
    let reason = || format!("{:?} is not a whole number of 0 to {MOST_BUDGET}", printable(&most));
    Ok((BudgetName::new(name)?, count.ok_or_else(|| Error::invalid("budget", reason()))?))
}

/// A kind of work.
pub(crate) fn kind(text: &str) -> Result<TaskKind> {
    match text {
        "handler" => Ok(TaskKind::Handler),
        "exec" => Ok(TaskKind::Exec),
        _ => Err(Error::invalid("kind", format!("{:?} is not handler or exec", printable(text)))),
    }
}

pub(crate) fn lane_limit(text: &str) -> Result<u32> {
    count("limit", text, 1, u64::from(MOST_AT_A_TIME)).map(|n| n as u32)
}

/// The name of a task's handler; `exec` is that of commands.
pub(crate) fn handler_name(text: &str) -> Result<TaskName> {
    if text == leasehold_common::body::EXEC_NAME {
        return Err(Error::invalid("task name", "exec is the name of commands: use `leasehold exec`"));
    }
    TaskName::new(text)
}

/// `KEY=VALUE` with a key that is not empty.
fn pair(field: &'static str, text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Error::invalid(field, format!("{:?} is not KEY=VALUE", printable(text)))),
    }
}

pub(crate) fn header(text: &str) -> Result<(String, String)> {
    pair("header", text)
}

pub(crate) fn env(text: &str) -> Result<(String, String)> {
    pair("env", text)
}

/// A pattern of programs; empty for any.
pub(crate) fn exec_pattern(text: &str) -> Result<String> {
    ExecPolicy::from_options(&[text])
        .map(|_| text.to_owned())
        .map_err(|error| Error::invalid("allow_exec", crate::error::chain(&error)))
}

/// `QUEUE=SLOTS`.
pub(crate) fn queue_slots(text: &str) -> Result<(QueueName, usize)> {
    let Some((queue, number)) = text.rsplit_once('=') else {
        return Err(Error::invalid(
            "queue",
            format!("{:?} is not NAME=SLOTS, slots of 1 to {MOST_SLOTS}", printable(text)),
        ));
    };
    Ok((QueueName::new(queue)?, slots(number)?))
}

#[cfg(test)]
mod tests {
    use super::{RunTimeout, count, queue_slots};

    #[test]
    fn case_04_no_timeout_has_to_be_said() {
        assert_eq!("none".parse::<RunTimeout>().unwrap(), RunTimeout(None));
        for bad in ["0", "-1", "null", "", "0s", "NaN"] {
            let error = bad.parse::<RunTimeout>().unwrap_err().to_string();
            assert!(error.contains("run_timeout") && error.contains("none"), "{bad}: {error}");
        }
    }

    #[test]
    fn case_25_numbers_are_digits_in_a_range() {
        assert_eq!(count("n", "10", 1, 10).unwrap(), 10);
        for bad in ["", "-1", "+1", "1e3", "NaN", "0", "11", "10000000000000000000000", " 1"] {
            let error = count("n", bad, 1, 10).unwrap_err().to_string();
            assert!(error.contains("1 to 10"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_queue_with_its_slots() {
        assert_eq!(queue_slots("a=3").unwrap().1, 3);
        for bad in ["a", "a=", "a=0", "=3", "a b=3", "a=3=4", "a=10001"] {
            assert!(queue_slots(bad).is_err(), "{bad}");
        }
    }
}
