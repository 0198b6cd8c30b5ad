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

/// `ours` over `theirs`, which were measured in turn. The ratio is taken in each turn, and the middle of these counts: a
/// machine that is slower for a while is mostly so for both. Where a turn has none it is the ratio of the medians.
#[must_use]
pub fn ratio_in_turns(ours: &[f64], theirs: &[f64]) -> Option<Spread> {
    // Between two middle ones lies their geometric mean, whichever of both is ours.
    let log = |(&own, &other)| ratio(own, other).map(f64::ln);
    let logs: Option<Vec<f64>> = ours.iter().zip(theirs).map(log).collect();
    let Some(logs) = logs.filter(|_| ours.len() == theirs.len()) else {
        return ratio_of_medians(ours, theirs);
    };
    let Spread { median, low, high } = Spread::of(&logs)?;
    Some(Spread { median: median.exp(), low: low.exp(), high: high.exp() })
}

/// `ours` over `theirs`, which were measured at different times: one ratio, without a range.
#[must_use]
pub fn ratio_of_medians(ours: &[f64], theirs: &[f64]) -> Option<Spread> {
    Spread::of(&[ratio(Spread::of(ours)?.median, Spread::of(theirs)?.median)?])
}

/// There is none to nothing, nor to less.
fn ratio(own: f64, other: f64) -> Option<f64> {
    (own > 0.0 && other > 0.0).then(|| own / other)
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
        let ratio = ratio_in_turns(&ours, &theirs).expect("a ratio");
        assert!((ratio.median - 0.9).abs() < 1e-9 && (ratio.low - 0.45).abs() < 1e-9, "{ratio:?}");
        assert_eq!(ratio_of_medians(&ours, &theirs).map(|ratio| ratio.median), Some(0.45));
        assert_eq!(ratio_in_turns(&[], &[]), None);
    }

    #[test]
    fn a_ratio_is_the_same_whoever_comes_first() {
        let (ours, theirs) = ([120.0, 10.0], [6.0, 5.0]);
        let both = ratio_in_turns(&ours, &theirs).zip(ratio_in_turns(&theirs, &ours));
        let (there, back) = both.expect("ratios");
        assert!((there.median * back.median - 1.0).abs() < 1e-9, "{there:?} and {back:?}");
    }

    #[test]
    fn there_is_no_ratio_to_less_than_nothing() {
        let median = |ours: &[f64], theirs: &[f64]| ratio_in_turns(ours, theirs).map(|ratio| ratio.median);
        for (ours, theirs) in [(2.0, -4.0), (-2.0, 4.0), (2.0, 0.0), (2.0, f64::NAN)] {
            assert_eq!(median(&[ours], &[theirs]), None);
        }
        assert_eq!(
            median(&[2.0, 0.0, 2.0], &[4.0; 3]),
            Some(0.5),
            "one turn without a value does not take all"
        );
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, low: 1.0, high: 4.0 }));
        assert_eq!(Spread::of(&[7.0]), Some(Spread { median: 7.0, low: 7.0, high: 7.0 }));
        assert_eq!(Spread::of(&[]), None);
    }
}
