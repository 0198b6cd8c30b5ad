//! Measures Kohort beside Apache Kafka on this machine, in one run, alternating, and writes docs/benchmarks.md.
//!
//! `cargo xtask bench` runs it. Both brokers get the same load from the same tools: librdkafka's and Kafka's own
//! performance programs, a small one-in-flight loop of ours for latency, and for groups the load generator of the
//! crate `bench`. What only Kohort owes (many partitions, recovery, a reader that never reads, very large groups) is
//! measured on Kohort alone. `--groups` measures groups alone and `--records` all the rest.
#![expect(clippy::print_stdout, reason = "this program talks to a person at a terminal")]

mod alone;
mod coordination;
mod load;
mod lone_consumer;
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

/// What was measured, on what.
fn facts(tools: &Tools) -> Vec<(&'static str, String)> {
    let first = |path: &str, name: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown");
        line.trim_start_matches([':', ' ', '\t']).to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    vec![
        ("Cores, shared with the load", cores.to_string()),
        ("Processor", first("/proc/cpuinfo", "model name")),
        ("Memory", first("/proc/meminfo", "MemTotal")),
        ("Kernel", first("/proc/sys/kernel/osrelease", "")),
        ("Apache Kafka", tools.kafka_version()),
        ("Load", "librdkafka's rdkafka_performance -s 1024 -a -1, Kafka's ProducerPerformance --record-size 1024 acks=all, one partition each".to_owned()),
    ]
}

fn main() -> Result<()> {
    let given = |flag: &str| std::env::args().any(|argument| argument == flag);
    let quick = given("--quick");
    let scale = if quick { QUICK } else { FULL };
    let tools = Tools::prepare()?;
    let mut report = Report::new(scale, facts(&tools));
    if !given("--groups") {
        for repetition in 1..=scale.repetitions {
            for side in [Side::Kohort, Side::Kafka] {
                println!("-- {side}, repetition {repetition} of {}", scale.repetitions);
                side.measure(&tools, scale, &mut report)?;
            }
        }
        alone::measure(scale, &mut report)?;
    }
    if !given("--records") {
        coordination::measure(scale, &mut report)?;
    }
    println!("\n{}", report.markdown());
    if quick || given("--groups") || given("--records") {
        println!("a run of less than everything is for looking; docs/benchmarks.md is left as it is");
        return Ok(());
    }
    report.write()
}
