//! Durations as people write them.

use std::time::Duration;

/// Reads `5s`, `500ms`, `2m` or a plain number of seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text} is not a duration; write 5s, 500ms or 2m");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let seconds = match &text[digits.len()..] {
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" => number * 60.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(parse("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2"), Ok(Duration::from_secs(2)));
        for wrong in ["", "s", "-1s", "5 s", "5h", "1e400"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
