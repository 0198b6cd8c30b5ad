//! Moments and durations as people type them.

use std::time::Duration;

use sasl::calendar::days_since_1970;

const DAY_MS: i64 = 86_400_000;

const MOMENT: &str =
    "expected YYYY-MM-DDThh:mm:ss.sss, with Z or an offset like +02:00 at the end if it is not UTC";

/// Reads a moment in ISO 8601 as milliseconds since 1970. Seconds and what is finer may be left out; without an
/// offset it is UTC, as in Kafka's tools.
pub(crate) fn parse_moment(text: &str) -> Result<i64, String> {
    moment(text).ok_or_else(|| MOMENT.to_owned())
}

fn moment(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-');
    let (year, month, day) = (digits(date.next()?, 4)?, digits(date.next()?, 2)?, digits(date.next()?, 2)?);
    let zone = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (time, zone) = time.split_at(zone);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut time = time.splitn(3, ':');
    let (hour, minute) = (digits(time.next()?, 2)?, digits(time.next()?, 2)?);
    let second = time.next().map_or(Some(0), |second| digits(second, 2))?;
    let valid = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !valid {
        return None;
    }
    let seconds = (hour * 60 + minute) * 60 + second - offset_seconds(zone)?;
    Some(days_since_1970(year, month, day) * DAY_MS + seconds * 1000 + milliseconds(fraction)?)
}

/// A number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn offset_seconds(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.split_at_checked(1) {
        None | Some(("Z", "")) => return Some(0),
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        Some(_) => return None,
    };
    let (hours, minutes) = match rest.len() {
        2 => (rest, "00"),
        4 => rest.split_at_checked(2)?,
        _ => rest.split_once(':')?,
    };
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

/// The first three digits after the point.
fn milliseconds(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{fraction}00").get(..3)?.parse().ok()
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Writes a moment as [`parse_moment`] reads it, in UTC.
pub(crate) fn show_moment(ms: i64) -> String {
    let (days, rest) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let mut year = 1970 + days.div_euclid(366);
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut day = days - days_since_1970(year, 1, 1);
    let mut month = 1;
    while day >= days_in(year, month) {
        day -= days_in(year, month);
        month += 1;
    }
    let (seconds, ms) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z", day + 1)
}

/// Reads a duration in ISO 8601: `PnDTnHnMnS`, any part of which may be left out, seconds with a fraction.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| "expected PnDTnHnMnS, for example P7D, PT12H or P1DT2H30M".to_owned())
}

fn duration(text: &str) -> Option<Duration> {
    let (date, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (text.strip_prefix('P')?, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let days = match date {
        "" => 0,
        days => whole(days.strip_suffix('D')?)?,
    };
    let mut rest = time;
    let mut part = |unit: char| match rest.split_once(unit) {
        None => Some("0"),
        Some((number, after)) => {
            rest = after;
            Some(number)
        }
    };
    let (hours, minutes, seconds) = (part('H')?, part('M')?, part('S')?);
    if !rest.is_empty() {
        return None;
    }
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let fraction = u64::try_from(milliseconds(fraction)?).ok()?;
    let hours = days.checked_mul(24)?.checked_add(whole(hours)?)?;
    let minutes = hours.checked_mul(60)?.checked_add(whole(minutes)?)?;
    let seconds = minutes.checked_mul(60)?.checked_add(whole(seconds)?)?;
    Some(Duration::from_millis(seconds.checked_mul(1000)?.checked_add(fraction)?))
}

fn whole(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_utc_unless_they_say_otherwise() {
        for (text, ms) in [
            ("1970-01-01T00:00:00.000", 0),
            ("1969-12-31T23:59:59.999", -1),
            ("2023-11-14T22:13:20.000", 1_700_000_000_000),
            ("2023-11-14T22:13:20Z", 1_700_000_000_000),
            ("2023-11-14T22:13", 1_699_999_980_000),
            ("2023-11-15T00:13:20.5+02:00", 1_700_000_000_500),
            ("2023-11-14T17:43:20.123456-0430", 1_700_000_000_123),
            ("2023-11-14T23:13:20+01", 1_700_000_000_000),
            ("2024-02-29T12:00:00", 1_709_208_000_000),
            ("9999-12-31T23:59:59.999", 253_402_300_799_999),
        ] {
            assert_eq!(parse_moment(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "now",
            "2023-11-14",
            "2023-11-14 22:13:20",
            "2023-13-14T22:13:20",
            "2023-02-29T00:00:00",
            "2023-11-00T00:00:00",
            "2023-11-14T24:00:00",
            "2023-11-14T22:60:00",
            "2023-11-14T22:13:60",
            "2023-11-14T22:13:20.",
            "2023-11-14T22:13:20+2",
            "2023-11-14T22:13:20+aé",
            "2023-11-14T22:13:20Zulu",
            "+023-11-14T22:13:20",
        ] {
            assert!(parse_moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_moment_that_is_shown_reads_back() {
        for ms in [0, -1, 951_782_399_999, 1_700_000_000_123, 4_107_542_399_000, 253_402_300_799_999] {
            assert_eq!(parse_moment(&show_moment(ms)), Ok(ms), "{}", show_moment(ms));
        }
        assert_eq!(show_moment(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
    }

    #[test]
    fn durations_have_days_hours_minutes_and_seconds() {
        for (text, ms) in [
            ("P1D", 86_400_000),
            ("PT0S", 0),
            ("PT12H", 43_200_000),
            ("P1DT2H3M4S", 93_784_000),
            ("PT1.5S", 1500),
            ("PT90M", 5_400_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "P",
            "PT",
            "P1",
            "P1DT",
            "1D",
            "PT1",
            "PT1H2",
            "P1Y",
            "PT1S1H",
            "PT-1H",
            "P99999999999999999999D",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
