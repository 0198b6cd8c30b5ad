//! Repetitions of one figure, summed up.

use std::time::Duration;

/// The middle and the ends of what repetitions gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Spread {
    /// Sums up; nothing can be said of no values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&low, &high) = (sorted.first()?, sorted.last()?);
        let upper = sorted[sorted.len() / 2];
        let lower = sorted[(sorted.len() - 1) / 2];
        Some(Self { median: f64::midpoint(lower, upper), low, high })
    }
}

/// How many times `theirs` is `ours`. What was measured in the same turn is compared, and the middle of that counts: a
/// machine that is slower for a while is so for both. Without a turn for each of both it is the ratio of their middles.
/// There is none to nothing, nor to less.
#[must_use]
pub fn ratio_in_turns(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    if ours.iter().chain(theirs).any(|&value| value <= 0.0) {
        return None;
    }
    if ours.len() == theirs.len() {
        let turns: Vec<f64> = ours.iter().zip(theirs).map(|(own, other)| own / other).collect();
        return Spread::of(&turns).map(|spread| spread.median);
    }
    Some(Spread::of(ours)?.median / Spread::of(theirs)?.median)
}

/// Times that are few enough to keep each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Keeps one more.
    pub(crate) fn record(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// Keeps all that another has.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The time that this many hundredths of all did not exceed; zero when there is none.
    pub(crate) fn percentile(&self, hundredths: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * hundredths).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_seen() {
        let mut times = Times::default();
        assert_eq!(times.percentile(99), Duration::ZERO);
        for millis in (1..=200).rev() {
            times.record(Duration::from_millis(millis));
        }
        assert_eq!([0, 50, 99, 100].map(|it| times.percentile(it).as_millis()), [1, 100, 198, 200]);
    }

    #[test]
    fn a_machine_that_is_slower_for_a_while_does_not_change_a_ratio() {
        let (ours, theirs) = ([90.0, 180.0, 90.0], [100.0, 200.0, 200.0]);
        assert_eq!(ratio_in_turns(&ours, &theirs), Some(0.9), "the middles are 90 and 200");
        assert_eq!(ratio_in_turns(&ours, &[100.0]), Some(0.9), "there are no turns");
        assert_eq!(ratio_in_turns(&[], &[]), None);
    }

    #[test]
    fn there_is_no_ratio_to_less_than_nothing() {
        for (ours, theirs, expected) in
            [(2.0, 4.0, Some(0.5)), (2.0, -4.0, None), (-2.0, 4.0, None), (2.0, 0.0, None)]
        {
            assert_eq!(ratio_in_turns(&[ours], &[theirs]), expected);
        }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, low: 1.0, high: 4.0 }));
        assert_eq!(Spread::of(&[7.0]), Some(Spread { median: 7.0, low: 7.0, high: 7.0 }));
        assert_eq!(Spread::of(&[]), None);
    }
}
