//! Durations and times as people type and read them. Within the protocol a duration is a whole number of ms.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, ZonedDateTime};

use crate::error::{Error, Result};

/// Longest duration anywhere: ten years.
pub const MAX_DURATION: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Reads `5m`, `1h30m`, `250ms`, `2d`, `1w`. A bare number is refused: it does not say of what.
///
/// # Errors
/// [`Error::Invalid`] naming `field` and the accepted range.
pub fn parse_duration(field: &'static str, text: &str, least: Duration, most: Duration) -> Result<Duration> {
    let range = || format!("{} to {}", display_duration(least), display_duration(most));
    let bad = |why: &str| {
        let shown = crate::text::printable(text);
        Error::invalid(field, format!("{shown:?} {why}; give a duration such as 5m or 1h30m, {}", range()))
    };
    if text.trim().parse::<f64>().is_ok() {
        return Err(bad("has no unit"));
    }
    let parsed = parse_signed(text).ok_or_else(|| bad("is not a duration"))?;
    let duration = Duration::try_from(parsed).map_err(|_| bad("is negative"))?;
    if duration < least || duration > most {
        return Err(bad("is out of range"));
    }
    Ok(duration)
}

/// `jiff` leaves days and weeks to calendars; here a day is 24 hours.
fn parse_signed(text: &str) -> Option<SignedDuration> {
    let span: jiff::Span = text.trim().parse().ok()?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return None;
    }
    span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()
}

/// Reads a time with its offset or zone: `2026-12-01T09:00+01:00`, `2026-12-01T09:00[Europe/Berlin]`, `..Z`.
///
/// # Errors
/// [`Error::Invalid`] naming `field`; a time without offset or zone is refused, for it names no moment.
pub fn parse_time(field: &'static str, text: &str) -> Result<u64> {
    let moment =
        text.parse::<ZonedDateTime>().map(|z| z.timestamp()).or_else(|_| text.parse::<Timestamp>()).map_err(
            |_| {
                let shown = crate::text::printable(text);
                Error::invalid(field, format!("{shown:?} is not a time such as 2026-12-01T09:00+01:00"))
            },
        )?;
    u64::try_from(moment.as_millisecond()).map_err(|_| Error::invalid(field, "is before 1970"))
}

/// A duration in at most two units: `1h30m`, `12.3s`, `250ms`.
#[must_use]
pub fn display_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    let (s, m, h, d) = (ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    let two = |a: u128, unit_a: &str, b: u128, unit_b: &str| {
        if b == 0 { format!("{a}{unit_a}") } else { format!("{a}{unit_a}{b}{unit_b}") }
    };
    match ms {
        0..1000 => format!("{ms}ms"),
        1000..60_000 if ms.is_multiple_of(1000) => format!("{s}s"),
        1000..60_000 => format!("{}.{}s", s, ms % 1000 / 100),
        60_000..3_600_000 => two(m, "m", s % 60, "s"),
        3_600_000..86_400_000 => two(h, "h", m % 60, "m"),
        _ => two(d, "d", h % 24, "h"),
    }
}

/// A moment in ms since 1970 as RFC 3339 in UTC, to the millisecond.
#[must_use]
pub fn display_time(ms: u64) -> String {
    i64::try_from(ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| "-".to_owned(), |t| format!("{t:.3}"))
}

/// How far a moment lies back, or ahead, of `now`, both in ms: `12s ago`, `in 5m`.
#[must_use]
pub fn ago(ms: u64, now: u64) -> String {
    // Whole seconds from ten of them on: nobody reads the tenths.
    let rounded = |ms: u64| if ms >= 10_000 { ms / 1000 * 1000 } else { ms };
    let apart = |from: u64, to: u64| display_duration(Duration::from_millis(rounded(to - from)));
    match ms {
        ms if ms <= now => format!("{} ago", apart(ms, now)),
        ms => format!("in {}", apart(now, ms)),
    }
}

/// A duration in ms as a number of seconds, with tenths below ten of them: `60 s`, `0.3 s`.
#[must_use]
pub fn display_seconds(ms: u64) -> String {
    if ms >= 10_000 || ms.is_multiple_of(1000) {
        format!("{} s", ms / 1000)
    } else {
        format!("{}.{} s", ms / 1000, ms % 1000 / 100)
    }
}

/// Whole milliseconds, at most [`MAX_DURATION`].
#[must_use]
pub fn as_ms(duration: Duration) -> u64 {
    u64::try_from(duration.min(MAX_DURATION).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Duration> {
        parse_duration("delay", text, Duration::ZERO, MAX_DURATION)
    }

    #[test]
    fn durations_as_people_type_them() {
        for (text, ms) in [
            ("250ms", 250),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1.5s", 1500),
            ("0s", 0),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
    }

    #[test]
    fn case_25_bad_durations_are_refused_naming_the_field() {
        for text in
            ["", "5", "-1", "-5m", "1e3", "nan", "inf", "10000000000000000000", "5 fortnights", "1y", "20y"]
        {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("invalid delay"), "{text}: {error}");
        }
    }

    #[test]
    fn durations_read_back() {
        for text in ["250ms", "5m", "1h30m", "2d", "1.5s", "21s"] {
            assert_eq!(display_duration(parse(text).unwrap()), text);
        }
    }

    #[test]
    fn times_are_told_from_now() {
        assert_eq!(ago(1_000, 13_300), "12s ago");
        assert_eq!(ago(1_000, 1_250), "250ms ago");
        assert_eq!(ago(61_000, 1_000), "in 1m");
        assert_eq!([60_000, 12_345, 1_250, 0].map(display_seconds), ["60 s", "12 s", "1.2 s", "0 s"]);
    }

    #[test]
    fn times_need_an_offset() {
        assert_eq!(parse_time("at", "2026-12-01T09:00+01:00").unwrap(), 1_796_112_000_000);
        assert_eq!(display_time(1_796_112_000_000), "2026-12-01T08:00:00.000Z");
        assert!(parse_time("at", "2026-12-01T09:00").is_err());
        assert!(parse_time("at", "tomorrow").is_err());
    }
}
