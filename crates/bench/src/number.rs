//! Numbers with as many digits as one reads.

/// For tables: thousands apart, at most three digits behind the point.
#[must_use]
pub fn grouped(value: f64) -> String {
    if value.abs() >= 1000.0 {
        let digits = format!("{:.0}", value.abs());
        let mut text = String::new();
        for (position, digit) in digits.chars().enumerate() {
            if position > 0 && (digits.len() - position).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        return if value < 0.0 { format!("-{text}") } else { text };
    }
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let decimals = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else if value.abs() >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.decimals$}")
}

/// For a ratio: two digits that say something.
#[must_use]
pub fn ratio(value: f64) -> String {
    if value < 0.1 { format!("{value:.3}") } else { format!("{value:.2}") }
}

/// For axes: 10k, 1.5M, 0.05.
pub(crate) fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = format!("{scaled:.3}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    // Ticks of a very small scale would all be nothing.
    if digits.is_empty() || digits == "0" && value != 0.0 {
        return format!("{value:.0e}");
    }
    format!("{digits}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_one_reads() {
        let shown: Vec<_> = [0.0, 0.1234, 1.5, 12.34, 123.4, 999.0, 1000.0, 1_234_567.8, -4321.0]
            .into_iter()
            .map(grouped)
            .collect();
        assert_eq!(shown, ["0", "0.123", "1.50", "12.3", "123", "999", "1,000", "1,234,568", "-4,321"]);
    }

    #[test]
    fn small_ratios_are_not_nothing() {
        assert_eq!([0.0042, 0.05, 0.5, 12.345].map(ratio), ["0.004", "0.050", "0.50", "12.35"]);
    }

    #[test]
    fn axes_have_short_numbers() {
        let shown: Vec<_> = [0.0, 0.00002, 0.05, 0.6000000000000001, 1.0, 20.0, 1500.0, 64_000.0, 2e6]
            .into_iter()
            .map(short)
            .collect();
        assert_eq!(shown, ["0", "2e-5", "0.05", "0.6", "1", "20", "1.5k", "64k", "2M"]);
    }
}
