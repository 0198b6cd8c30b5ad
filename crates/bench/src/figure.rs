//! What one run of a scenario on one server gives.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::closed_loop::{Pressure, Yield};

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Two spaces in front set a detail of the figure before it apart.
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) value: f64,
    /// Whether it is worth a plot. Details and what is no aim are not, unless somebody says so.
    pub(crate) plotted: bool,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
    /// The value explains others and is no aim of its own.
    Neither,
}

/// All values of one run, and what speaks against trusting them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) figures: Vec<Figure>,
    pub(crate) doubts: Vec<Doubt>,
}

/// What speaks against trusting figures. Of several about the same, the gravest is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Doubt {
    /// Which figures, by what tells them from others.
    pub(crate) about: String,
    pub(crate) kind: DoubtKind,
    /// The larger, the less the figures say.
    pub(crate) gravity: f64,
    pub(crate) reason: String,
}

/// Who disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoubtKind {
    /// The load itself takes more than its share.
    Load,
    /// Others use the machine.
    Others,
    /// The flags leave something out, or say what the figures do not bear out.
    Flags,
}

impl Doubt {
    /// Adds the doubt, unless a graver one about the same is there.
    pub(crate) fn join(self, doubts: &mut Vec<Self>) {
        match doubts.iter_mut().find(|known| known.about == self.about && known.kind == self.kind) {
            Some(known) if known.gravity >= self.gravity => {}
            Some(known) => *known = self,
            None => doubts.push(self),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.reason)
    }
}

impl Outcome {
    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        better: Better,
        value: f64,
    ) -> &mut Figure {
        let name = name.into();
        let plotted = better != Better::Neither && !name.starts_with(' ');
        self.figures.push(Figure { name, unit, better, value, plotted });
        self.figures.last_mut().expect("a figure was just added")
    }

    /// Adds a count that explains the others.
    pub(crate) fn count(&mut self, name: impl Into<String>, value: usize) {
        #[expect(clippy::cast_precision_loss, reason = "counts of members and generations are small")]
        self.add(name, "", Better::Neither, value as f64);
    }

    /// Adds a time that should be short.
    pub(crate) fn time(&mut self, name: impl Into<String>, value: Duration) -> &mut Figure {
        self.add(name, "ms", Better::Lower, value.as_secs_f64() * 1e3)
    }

    /// Adds memory that should be little.
    pub(crate) fn bytes(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        self.add(name, unit, Better::Lower, value);
    }

    /// Adds what a load gave: how many per second, how long each took, who used the processors.
    pub(crate) fn load<W>(&mut self, what: &str, pressure: Pressure, gained: &Yield<W>) {
        let (deep, threads) = (pressure.pipeline, pressure.threads.min(pressure.connections));
        self.add(format!("{what} per second, {deep} in flight"), "/s", Better::Higher, gained.per_second);
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            let latency = gained.latencies.percentile(share);
            self.time(format!("  latency {name}, {deep} in flight"), latency).plotted = name == "p99";
        }
        self.add(format!("  cores for the load, {deep} in flight"), "", Better::Neither, gained.cores.load);
        if let Some(cores) = gained.cores.server {
            self.add(format!("  cores for the server, {deep} in flight"), "", Better::Neither, cores);
            // Says what the server does whatever else the machine does.
            let each = cores / gained.per_second * 1e6;
            self.add(format!("  server's time for each, {deep} in flight"), "µs", Better::Lower, each);
        }
        self.doubts.extend(gained.cores.doubts(&format!("{deep} in flight"), threads));
    }
}
