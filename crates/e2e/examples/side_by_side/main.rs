//! Measures Kohort beside Apache Kafka on this machine, in one run, alternating, and writes docs/benchmarks.md.
//!
//! `cargo xtask bench` runs it. Both brokers get the same load from the same tools: librdkafka's and Kafka's own
//! performance programs, and a small one-in-flight loop of ours for latency. What only Kohort owes (many
//! partitions, recovery, a reader that never reads) is measured on Kohort alone.
#![expect(clippy::print_stdout, reason = "this program talks to a person at a terminal")]

mod alone;
mod load;
mod process;
mod report;
mod side;
mod tools;

use anyhow::Result;

use crate::report::Report;
use crate::side::Side;
use crate::tools::Tools;

/// How much load one repetition brings.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) repetitions: usize,
    pub(crate) rdkafka_records: u64,
    pub(crate) java_records: u64,
    pub(crate) latency_requests: usize,
    pub(crate) partition_batches: usize,
    pub(crate) recovery_bytes: u64,
}

const FULL: Scale = Scale {
    repetitions: 3,
    rdkafka_records: 2_000_000,
    java_records: 1_000_000,
    latency_requests: 5_000,
    partition_batches: 20_000,
    recovery_bytes: 1 << 30,
};

const QUICK: Scale = Scale {
    repetitions: 1,
    rdkafka_records: 500_000,
    java_records: 200_000,
    latency_requests: 1_000,
    partition_batches: 4_000,
    recovery_bytes: 256 << 20,
};

fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let scale = if quick { QUICK } else { FULL };
    let tools = Tools::prepare()?;
    let mut report = Report::new(scale);
    for repetition in 1..=scale.repetitions {
        for side in [Side::Kohort, Side::Kafka] {
            println!("-- {side}, repetition {repetition} of {}", scale.repetitions);
            side.measure(&tools, scale, &mut report)?;
        }
    }
    alone::measure(scale, &mut report)?;
    println!("\n{}", report.markdown());
    if quick {
        println!("a quick run is for looking; docs/benchmarks.md is left as it is");
        return Ok(());
    }
    report.write()
}
