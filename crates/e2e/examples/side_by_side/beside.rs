//! What a figure is held against.

use bench::plot::{Spread, ratio, ratio_in_turns, ratio_of_medians};

use crate::page::median;

/// Values of something else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    pub(crate) values: Vec<f64>,
    /// Whether they were measured in turn with the figure, repetition by repetition.
    pub(crate) in_turns: bool,
}

impl Beside {
    /// Measured in turn with the figure.
    pub(crate) fn in_turns(values: Vec<f64>) -> Self {
        Self { values, in_turns: true }
    }

    /// Measured before it or after it.
    pub(crate) fn apart(values: Vec<f64>) -> Self {
        Self { values, in_turns: false }
    }

    /// The middle one.
    pub(crate) fn median(&self) -> f64 {
        median(&self.values)
    }

    /// The figure over this, if there is a ratio.
    pub(crate) fn under(&self, figure: &[f64]) -> Option<Spread> {
        let ratio = if self.in_turns { ratio_in_turns } else { ratio_of_medians };
        ratio(figure, &self.values)
    }
}

/// A ratio for people, with its range if it has one.
pub(crate) fn shown(Spread { median, low, high }: Spread) -> String {
    if low < high { format!("{} ({}–{})", ratio(median), ratio(low), ratio(high)) } else { ratio(median) }
}
