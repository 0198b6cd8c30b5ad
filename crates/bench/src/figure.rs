//! What one run of a scenario on one server gives.

use std::time::Duration;

use serde::Serialize;

use crate::closed_loop::{Pressure, Yield};

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) value: f64,
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
    pub(crate) doubts: Vec<String>,
}

impl Outcome {
    pub(crate) fn add(&mut self, name: impl Into<String>, unit: &'static str, better: Better, value: f64) {
        self.figures.push(Figure { name: name.into(), unit, better, value });
    }

    /// Adds a count that explains the others.
    pub(crate) fn count(&mut self, name: impl Into<String>, value: usize) {
        #[expect(clippy::cast_precision_loss, reason = "counts of members and generations are small")]
        self.add(name, "", Better::Neither, value as f64);
    }

    /// Adds a time that should be short.
    pub(crate) fn time(&mut self, name: impl Into<String>, value: Duration) {
        self.add(name, "ms", Better::Lower, value.as_secs_f64() * 1e3);
    }

    /// Adds memory that should be little.
    pub(crate) fn bytes(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        self.add(name, unit, Better::Lower, value);
    }

    /// Adds what a load gave: how many per second, how long each took, who used the processors.
    pub(crate) fn load<W>(&mut self, what: &str, pressure: Pressure, gained: &Yield<W>) {
        let deep = pressure.pipeline;
        self.add(format!("{what} per second, {deep} in flight"), "/s", Better::Higher, gained.per_second);
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            let latency = gained.latencies.percentile(share);
            self.time(format!("  latency {name}, {deep} in flight"), latency);
        }
        self.add(format!("  cores for the load, {deep} in flight"), "", Better::Neither, gained.load_cores);
        if let Some(cores) = gained.server_cores {
            self.add(format!("  cores for the server, {deep} in flight"), "", Better::Neither, cores);
            // Says what the server does whatever else the machine does.
            let each = cores / gained.per_second * 1e6;
            self.add(format!("  server's time for each, {deep} in flight"), "µs", Better::Lower, each);
        }
        self.doubts.extend(gained.doubts(pressure));
    }
}
