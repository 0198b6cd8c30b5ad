//! What a figure is held against.

use bench::plot::{Spread, ratio, ratio_in_turns, ratio_of_medians};

use crate::page::median;

/// Values of something else.
#[derive(Clone, Debug)]
pub(crate) enum Beside {
    /// Measured in turn with the figure, repetition by repetition.
    InTurns(Vec<f64>),
    /// Measured before it or after it.
    Apart(Vec<f64>),
}

impl Beside {
    /// All of them.
    pub(crate) fn values(&self) -> &[f64] {
        match self {
            Self::InTurns(values) | Self::Apart(values) => values,
        }
    }

    /// The middle one.
    pub(crate) fn median(&self) -> f64 {
        median(self.values())
    }

    /// The figure over this, if there is a ratio; with its range, if it was taken more than once.
    pub(crate) fn under(&self, figure: &[f64]) -> Option<Spread> {
        match self {
            Self::InTurns(values) => ratio_in_turns(figure, values),
            Self::Apart(values) => {
                ratio_of_medians(figure, values).map(|it| Spread { median: it, low: it, high: it })
            }
        }
    }
}

/// A ratio for people, with its range if it has one.
pub(crate) fn shown(it: Option<Spread>) -> String {
    let Some(Spread { median, low, high }) = it else { return "–".to_owned() };
    if low < high { format!("{} ({}–{})", ratio(median), ratio(low), ratio(high)) } else { ratio(median) }
}
