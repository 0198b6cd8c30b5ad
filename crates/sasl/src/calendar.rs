//! Days, by the calendar that the world uses.

/// How many days a date lies behind the first of January 1970. A month counts from 1, and so does a day.
///
/// Years are counted from March, so that a leap day is the last day of one.
pub const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let month_from_march = (month + 9) % 12;
    let days_before_month = (153 * month_from_march + 2) / 5;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + days_before_month + day - 719_469
}
