//! What Kohort owes, and whether a figure pays it.

use crate::beside::{self, Beside};
use crate::page::{median, shown};

/// A promise about one figure.
#[derive(Clone, Debug)]
pub(crate) enum Owed {
    /// At least so many times Kafka's figure.
    TimesKafka(f64),
    /// At most this share of Kafka's figure.
    ShareOfKafka(f64),
    /// At least this, in the figure's unit.
    AtLeast(f64),
    /// At most this, in the figure's unit.
    AtMost(f64),
    /// At most this, in every repetition: what must never happen is not excused by a median.
    NeverMore(f64),
    /// At least this share of something else that Kohort or this machine does.
    ShareOf { share: f64, of: &'static str, which_is: Beside },
    /// Nothing: only how it compares with something else is shown.
    Nothing { of: &'static str, which_is: Beside },
    /// That it comes to an end at all.
    Ends,
}

/// Whether it was paid.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) owed: String,
    pub(crate) measured: String,
    pub(crate) met: bool,
}

impl Owed {
    /// Holds medians, or ratios, against the promise; the worst where it is about every repetition. What was not measured
    /// does not pay.
    pub(crate) fn judge(&self, kohort: &[f64], kafka: &Beside, unit: &str) -> Verdict {
        let ours = median(kohort);
        let middle = |beside: &Beside| beside.under(kohort).map_or(f64::NAN, |ratio| ratio.median);
        let share_of = |beside: &Beside| beside.under(kohort).map_or("–".to_owned(), beside::shown);
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        match self {
            Self::TimesKafka(times) => Verdict {
                owed: format!("≥ {times} × Kafka"),
                measured: format!("{} ×", share_of(kafka)),
                met: middle(kafka) >= *times,
            },
            Self::ShareOfKafka(share) => Verdict {
                owed: format!("≤ {share} of Kafka"),
                measured: share_of(kafka),
                met: middle(kafka) <= *share,
            },
            Self::AtLeast(least) => Verdict {
                owed: format!("≥ {}{unit}", shown(*least)),
                measured: shown(ours),
                met: ours >= *least,
            },
            Self::AtMost(most) => Verdict {
                owed: format!("≤ {}{unit}", shown(*most)),
                measured: shown(ours),
                met: ours <= *most,
            },
            Self::NeverMore(most) => {
                let worst = kohort.iter().copied().fold(f64::NAN, f64::max);
                Verdict {
                    owed: format!("≤ {}{unit}, every time", shown(*most)),
                    measured: shown(worst),
                    met: worst <= *most,
                }
            }
            Self::ShareOf { share, of, which_is } => Verdict {
                owed: format!("≥ {share} of {of}"),
                measured: format!("{} of {}", share_of(which_is), shown(which_is.median())),
                met: middle(which_is) >= *share,
            },
            Self::Nothing { of, which_is } => Verdict {
                owed: String::new(),
                measured: format!("{} of {of}, {}", share_of(which_is), shown(which_is.median())),
                met: true,
            },
            Self::Ends => Verdict {
                owed: "it settles".to_owned(),
                measured: if kohort.is_empty() { "no".to_owned() } else { "yes".to_owned() },
                met: !kohort.is_empty(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_in_one_turn_is_compared() {
        let (ours, echo) = ([92.0, 184.0, 90.0], vec![100.0, 200.0, 200.0]);
        let judge = |which_is| {
            let verdict = Owed::ShareOf { share: 0.9, of: "the echo", which_is };
            let verdict = verdict.judge(&ours, &Beside::default(), "/s");
            (verdict.measured, verdict.met)
        };
        assert_eq!(judge(Beside::in_turns(echo.clone())), ("0.92 (0.45–0.92) of 200".to_owned(), true));
        assert_eq!(judge(Beside::apart(echo)), ("0.46 of 200".to_owned(), false));
    }

    #[test]
    fn one_bad_repetition_breaks_a_promise_about_all_of_them() {
        let met = |owed: Owed, values: &[f64]| owed.judge(values, &Beside::default(), "").met;
        assert!(met(Owed::NeverMore(1.0), &[1.0, 1.0, 1.0]));
        assert!(!met(Owed::NeverMore(1.0), &[1.0, 1.0, 2.0]));
        assert!(met(Owed::AtMost(1.0), &[1.0, 1.0, 2.0]), "a median forgives it");
        assert!(!met(Owed::NeverMore(1.0), &[]), "nothing was measured");
    }
}
