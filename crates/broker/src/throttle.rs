//! How long whoever takes too many bytes has to be quiet. Pure: time is handed in.

use std::time::Duration;

/// What may be taken at once by who has been quiet, in time at the allowed rate. Clients send in bursts; Kafka's quotas
/// look at whole seconds too.
const BURST: Duration = Duration::from_secs(1);

/// The most that one request costs, as in Kafka about the window that quotas look at: what is more is forgotten, since one
/// request that is too large must not cost a minute of silence.
pub(crate) const HIGHEST_PRICE: Duration = Duration::from_secs(10);

/// The longest pause for what many clients took together. Clients that hear nothing for 30 seconds take the connection for
/// dead.
const LONGEST_PAUSE: Duration = Duration::from_secs(25);

/// Takes `bytes` at `now`, where all that was taken before is paid for at `paid_until`; says when this is paid for too,
/// at so many bytes each second. Until then whoever takes them has to be quiet.
pub(crate) fn take(paid_until: Duration, now: Duration, bytes: usize, bytes_per_second: u64) -> Duration {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let rate = bytes_per_second.max(1);
    let whole = Duration::from_secs(bytes / rate);
    let rest = u128::from(bytes % rate) * 1_000_000_000 / u128::from(rate);
    let price = whole.saturating_add(Duration::from_nanos(u64::try_from(rest).unwrap_or(u64::MAX)));
    // The time before the first second of all is a credit too; durations have no other side of zero, so that is given up.
    let from = paid_until.max(now.saturating_sub(BURST));
    from.saturating_add(price.min(HIGHEST_PRICE)).min(now.saturating_add(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_second_worth_of_bytes_may_come_at_once() {
        let now = 100 * SECOND;
        let paid = take(Duration::ZERO, now, 1_000, 1_000);
        assert_eq!(paid, now);
        assert_eq!(take(paid, now, 500, 1_000), now + SECOND / 2);
    }

    #[test]
    fn whoever_waits_as_told_gets_exactly_the_rate() {
        let (mut now, mut paid, mut taken) = (100 * SECOND, Duration::ZERO, 0_u64);
        let began = now;
        for round in 0..1_000_u64 {
            let bytes = 100 + round % 37;
            paid = take(paid, now, usize::try_from(bytes).expect("it is small"), 1_000);
            taken += bytes;
            now = now.max(paid);
        }
        // The first second was free.
        let allowed = Duration::from_millis(taken) - SECOND;
        let off = (now - began).abs_diff(allowed);
        assert!(off < Duration::from_millis(1), "{off:?} off");
    }

    #[test]
    fn quiet_is_not_saved_up_beyond_a_second() {
        let paid = take(5 * SECOND, 1_000 * SECOND, 3_000, 1_000);
        assert_eq!(paid, 1_002 * SECOND);
    }

    #[test]
    fn no_pause_is_longer_than_the_longest() {
        for (bytes, rate) in [(usize::MAX, 1), (usize::MAX, 0), (1 << 30, 1_000)] {
            assert_eq!(take(Duration::MAX, SECOND, bytes, rate), SECOND + LONGEST_PAUSE);
            assert_eq!(take(Duration::ZERO, 9 * SECOND, bytes, rate), 8 * SECOND + HIGHEST_PRICE);
        }
    }

    #[test]
    fn many_who_take_at_once_wait_for_each_other() {
        let now = 100 * SECOND;
        let paid = (0..20).fold(now, |paid, _| take(paid, now, 1_000, 1_000));
        assert_eq!(paid, now + 20 * SECOND);
    }
}
