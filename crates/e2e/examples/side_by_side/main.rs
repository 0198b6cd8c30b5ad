//! Measures Kohort beside Apache Kafka on this machine, in one run, and writes docs/benchmarks.md with its plots.
//!
//! `cargo xtask bench` runs it. Both brokers get the same load: from `kohort bench`, which turns from one to the other,
//! and for records also from librdkafka's and Kafka's own performance programs. What only Kohort owes (a reader that
//! never reads, very large groups) is measured on Kohort alone. `--groups` measures groups alone and `--records` all
//! the rest; `--quick` measures little of everything. These three leave docs/ as it is.
#![expect(clippy::print_stdout, reason = "this program talks to a person at a terminal")]

mod facts;
mod generator;
mod groups;
mod growth;
mod load;
mod lone_consumer;
mod owed;
mod page;
mod process;
mod records;
mod recovery;
mod tools;
mod unread;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use e2e::checkout;

use crate::generator::Generator;
use crate::page::Page;
use crate::tools::Tools;

/// How much load one repetition brings.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) repetitions: usize,
    /// Load that is counted, and load before it, in each run of the generator.
    pub(crate) duration: &'static str,
    pub(crate) warmup: &'static str,
    /// The same at each point of a plot.
    pub(crate) point: &'static str,
    pub(crate) point_warmup: &'static str,
    pub(crate) rdkafka_records: u64,
    pub(crate) java_records: u64,
    pub(crate) recovery_mebibytes: usize,
    /// Members of a large group, and of one that Kafka takes too.
    pub(crate) largest_group: usize,
    pub(crate) large_group: usize,
    pub(crate) idle_groups: usize,
    pub(crate) connections: usize,
}

const FULL: Scale = Scale {
    repetitions: 3,
    duration: "5s",
    warmup: "2s",
    point: "2s",
    point_warmup: "1s",
    rdkafka_records: 2_000_000,
    java_records: 1_000_000,
    recovery_mebibytes: 1024,
    largest_group: 10_000,
    large_group: 1000,
    idle_groups: 100_000,
    connections: 5000,
};

const QUICK: Scale = Scale {
    repetitions: 1,
    duration: "500ms",
    warmup: "200ms",
    point: "200ms",
    point_warmup: "100ms",
    rdkafka_records: 200_000,
    java_records: 100_000,
    recovery_mebibytes: 64,
    largest_group: 1000,
    large_group: 100,
    idle_groups: 10_000,
    connections: 500,
};

const QUICK_MEASURES_LESS: &str = "A quick run: it measures less than its rows say, with fewer members, groups, \
                                   records and connections, so whether promises are met means nothing.";

fn main() -> Result<()> {
    let given = |flag: &str| std::env::args().any(|argument| argument == flag);
    if let Some(unknown) =
        std::env::args().skip(1).find(|it| !["--quick", "--groups", "--records"].contains(&it.as_str()))
    {
        bail!("no option {unknown}; there are --quick, --groups and --records");
    }
    let whole = !given("--quick") && !given("--groups") && !given("--records");
    let scale = if given("--quick") { QUICK } else { FULL };
    let directory = checkout::target().join("benchmarks");
    let tools = Tools::prepare()?;
    let mut page = Page::new(scale.repetitions, facts::gather(&tools));
    let mut generator = Generator::find(scale, directory.join(DRAWINGS))?;
    let mut outcome = Ok(());
    if !given("--groups") {
        outcome = records::measure(&tools, scale, &mut generator, &mut page);
    }
    if outcome.is_ok() && !given("--records") {
        outcome = groups::measure(scale, &mut generator, &mut page);
    }
    page.commands = generator.commands();
    if given("--quick") {
        page.warn(QUICK_MEASURES_LESS.to_owned());
    }
    if let Err(error) = &outcome {
        page.warn(format!("This run has failed, so what follows is no result: {error:#}"));
    }
    println!("\n{}", page.tables());
    let docs = checkout::root().join("docs");
    page.write(&directory.join(PAGE), &docs.join(PAGE))?;
    println!("written to {}", directory.join(PAGE).display());
    if given("--quick") {
        println!("{QUICK_MEASURES_LESS}");
    }
    // A run with errors is no result, and less than everything is for looking.
    outcome?;
    if !whole {
        println!("this is less than everything, so docs/{PAGE} is left as it is");
        return Ok(());
    }
    publish(&directory, &docs)
}

/// The page, and the directory of its drawings beside it.
const PAGE: &str = "benchmarks.md";
const DRAWINGS: &str = "benchmarks";

/// Puts a whole run where people look for it.
fn publish(from: &Path, to: &Path) -> Result<()> {
    let drawings = to.join(DRAWINGS);
    // What an earlier run drew and this one does not would pass for this one's.
    let _ = fs::remove_dir_all(&drawings);
    fs::create_dir_all(&drawings).with_context(|| format!("create {}", drawings.display()))?;
    for entry in fs::read_dir(from.join(DRAWINGS)).context("list the drawings")? {
        let entry = entry.context("list the drawings")?;
        fs::copy(entry.path(), drawings.join(entry.file_name())).context("copy a drawing")?;
    }
    fs::copy(from.join(PAGE), to.join(PAGE)).context("copy the page")?;
    println!("published in {}", to.join(PAGE).display());
    Ok(())
}
