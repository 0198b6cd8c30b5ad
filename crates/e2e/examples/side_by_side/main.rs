//! Measures Kohort beside Apache Kafka on this machine, in one run, and writes docs/benchmarks.md with its plots,
//! docs/assigner-benchmarks.md and docs/gateway-benchmarks.md.
//!
//! `cargo xtask bench` runs it. Both brokers get the same load: from `kohort bench`, which turns from one to the other,
//! and for records also from librdkafka's and Kafka's own performance programs. What only Kohort owes (a reader that
//! never reads, very large groups) is measured on Kohort alone, and so is the assigner, on an etcd of its own, for a page
//! of its own; gateways apart from the broker, and TLS, beside Kohort without them, for a third. `--groups`, `--records`,
//! `--assigner` and `--gateways` measure one of the parts; `--quick` measures little of everything. A page that is not measured whole leaves the one in docs/ as it is.
#![expect(clippy::print_stdout, reason = "this program talks to a person at a terminal")]

mod assigner;
mod beside;
#[expect(clippy::unwrap_used, reason = "certificates of our own making are sound")]
#[path = "../../tests/support/certificates.rs"]
mod certificates;
mod facts;
mod gateways;
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
use crate::page::{Page, Subject};
use crate::tools::Tools;

/// How much load one repetition brings.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) repetitions: usize,
    /// Load that is counted, and load before it, in each run of the generator.
    pub(crate) duration: &'static str,
    pub(crate) warmup: &'static str,
    /// The same in many short turns.
    pub(crate) turns: usize,
    pub(crate) turn: &'static str,
    pub(crate) turn_warmup: &'static str,
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
    /// How often a consumer of the assigner comes and goes, for each number of handoffs at once.
    pub(crate) rounds: usize,
}

const FULL: Scale = Scale {
    repetitions: 3,
    duration: "5s",
    warmup: "2s",
    turns: 9,
    turn: "2s",
    turn_warmup: "500ms",
    point: "2s",
    point_warmup: "1s",
    rdkafka_records: 2_000_000,
    java_records: 1_000_000,
    recovery_mebibytes: 1024,
    largest_group: 10_000,
    large_group: 1000,
    idle_groups: 100_000,
    connections: 5000,
    rounds: 10,
};

const QUICK: Scale = Scale {
    repetitions: 1,
    duration: "500ms",
    warmup: "200ms",
    turns: 1,
    turn: "500ms",
    turn_warmup: "200ms",
    point: "200ms",
    point_warmup: "100ms",
    rdkafka_records: 200_000,
    java_records: 100_000,
    recovery_mebibytes: 64,
    largest_group: 1000,
    large_group: 100,
    idle_groups: 10_000,
    connections: 500,
    rounds: 2,
};

const QUICK_MEASURES_LESS: &str = "A quick run: it measures less than its rows say, with fewer members, groups, \
                                   records and connections, so whether promises are met means nothing.";

fn main() -> Result<()> {
    let given = |flag: &str| std::env::args().any(|argument| argument == flag);
    const PARTS: [&str; 4] = ["--groups", "--records", "--assigner", "--gateways"];
    let is_known = |flag: &str| flag == "--quick" || PARTS.contains(&flag);
    if let Some(unknown) = std::env::args().skip(1).find(|flag| !is_known(flag)) {
        bail!("no option {unknown}; there are --quick, --groups, --records, --assigner and --gateways");
    }
    let is_everything = !PARTS.iter().any(|part| given(part));
    let wanted = |part: &str| is_everything || given(part);
    let is_quick = given("--quick");
    let scale = if is_quick { QUICK } else { FULL };
    let tools = Tools::prepare()?;
    let mut generator = Generator::find(scale, checkout::target().join("benchmarks").join(DRAWINGS))?;
    if wanted("--records") || wanted("--groups") {
        let mut page = Page::new(Subject::Brokers, scale, facts::of_brokers(&tools));
        let mut outcome = Ok(());
        if wanted("--records") {
            outcome = records::measure(&tools, scale, &mut generator, &mut page);
        }
        if outcome.is_ok() && wanted("--groups") {
            outcome = groups::measure(scale, &mut generator, &mut page);
        }
        page.commands = generator.take_commands();
        let is_whole = wanted("--records") && wanted("--groups") && !is_quick;
        present(page, is_whole, is_quick, outcome)?;
    }
    if wanted("--assigner") {
        let mut page = Page::new(Subject::Assigner, scale, facts::of_the_assigner());
        let outcome = assigner::measure(scale, &mut generator, &mut page);
        page.commands = generator.take_commands();
        present(page, !is_quick, is_quick, outcome)?;
    }
    if wanted("--gateways") {
        let mut page = Page::new(Subject::Gateways, scale, facts::of_gateways());
        let outcome = gateways::measure(&tools, scale, &mut generator, &mut page);
        page.commands = generator.take_commands();
        present(page, !is_quick, is_quick, outcome)?;
    }
    Ok(())
}

/// Shows a page, and puts it into docs/ if it is whole and a result.
fn present(mut page: Page, is_whole: bool, is_quick: bool, outcome: Result<()>) -> Result<()> {
    if is_quick {
        page.warn(QUICK_MEASURES_LESS.to_owned());
    }
    if let Err(error) = &outcome {
        page.warn(format!("This run has failed, so what follows is no result: {error:#}"));
    }
    println!("\n{}", page.tables());
    let name = page.subject().file();
    let (directory, docs) = (checkout::target().join("benchmarks"), checkout::root().join("docs"));
    page.write(&directory, &docs)?;
    println!("written to {}", directory.join(name).display());
    if is_quick {
        println!("{QUICK_MEASURES_LESS}");
    }
    // A run with errors is no result, and less than everything is for looking.
    outcome?;
    if !is_whole {
        println!("this is less than everything, so docs/{name} is left as it is");
        return Ok(());
    }
    if page.subject() == Subject::Brokers {
        publish_drawings(&directory, &docs)?;
    }
    fs::copy(directory.join(name), docs.join(name)).context("copy the page")?;
    println!("published in {}", docs.join(name).display());
    Ok(())
}

/// The directory of the drawings, beside the pages.
const DRAWINGS: &str = "benchmarks";

/// Puts the drawings of a whole run where people look for them.
fn publish_drawings(from: &Path, to: &Path) -> Result<()> {
    let drawings = to.join(DRAWINGS);
    // What an earlier run drew and this one does not would pass for this one's.
    let _ = fs::remove_dir_all(&drawings);
    fs::create_dir_all(&drawings).with_context(|| format!("create {}", drawings.display()))?;
    for entry in fs::read_dir(from.join(DRAWINGS)).context("list the drawings")? {
        let entry = entry.context("list the drawings")?;
        fs::copy(entry.path(), drawings.join(entry.file_name())).context("copy a drawing")?;
    }
    Ok(())
}
