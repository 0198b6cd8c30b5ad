//! How often each latency was seen, in a space that does not grow.

use std::time::Duration;

/// Steps between one power of two and the next: a value is kept to about one part in 64.
const STEPS: u64 = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Counts of durations, precise to 1.6 %.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

impl Histogram {
    /// Nothing seen yet.
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; bucket(u64::MAX) + 1], total: 0, longest: 0 }
    }

    /// Counts one duration of this many nanoseconds.
    pub(crate) fn record(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
        self.longest = self.longest.max(nanoseconds);
    }

    /// Adds all that another has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// The duration that this share of all did not exceed; zero when nothing was seen.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank among counted events"
        )]
        let rank = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(highest_in(index).min(self.longest));
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a value: below `STEPS` each has its own, above it a value shares one with its neighbours.
fn bucket(value: u64) -> usize {
    let exponent = value.max(1).ilog2().saturating_sub(STEP_BITS);
    let index = if exponent == 0 && value < 2 * STEPS {
        value
    } else {
        u64::from(exponent) * STEPS + (value >> exponent)
    };
    usize::try_from(index).expect("there are fewer than 4,096 buckets")
}

/// The largest value of a bucket.
fn highest_in(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * STEPS {
        return index;
    }
    let exponent = index / STEPS - 1;
    let mantissa = index - exponent * STEPS;
    ((u128::from(mantissa) + 1) << exponent).try_into().unwrap_or(u64::MAX).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_their_highest_value() {
        let mut last = 0;
        for value in (0..100_000).chain((17..63).map(|bits| (1 << bits) - 1)).chain([u64::MAX / 2]) {
            let index = bucket(value);
            assert!(index >= last, "{value}");
            last = index;
            let highest = highest_in(index);
            assert!(highest >= value, "{value} is in the bucket up to {highest}");
            assert!(highest - value <= value / 32, "{value} is far below {highest}");
            assert_eq!(bucket(highest), index);
        }
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        for value in 1..=1000 {
            histogram.record(value * 1000);
        }
        let close = |share: f64, micros: f64| {
            let found = histogram.percentile(share).as_secs_f64() * 1e6;
            assert!((found - micros).abs() <= micros * 0.02, "{share}: {found}");
        };
        close(0.5, 500.0);
        close(0.99, 990.0);
        assert_eq!(histogram.percentile(1.0), Duration::from_millis(1));
    }

    #[test]
    fn merging_is_as_if_one_had_seen_all() {
        let (mut one, mut other, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in 0..1000 {
            if value % 3 == 0 { &mut one } else { &mut other }.record(value);
            both.record(value);
        }
        one.merge(&other);
        for share in [0.1, 0.5, 0.9, 1.0] {
            assert_eq!(one.percentile(share), both.percentile(share));
        }
    }

    #[test]
    fn nothing_seen_takes_no_time() {
        assert_eq!(Histogram::new().percentile(0.99), Duration::ZERO);
    }
}
