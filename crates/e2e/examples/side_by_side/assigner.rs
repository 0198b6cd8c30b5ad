//! The assigner: how long it plans, and how fast a partition changes hands.
//!
//! It stands on an etcd of one node that waits for the disk, as etcd does by default, and all have their defaults.

use anyhow::Result;
use bench::plot::Aim;
use e2e::assigner::Assigner;
use e2e::etcd::{self, Etcd};
use e2e::kohort::{Kohort, Options};

use crate::Scale;
use crate::generator::{Generator, On};
use crate::owed::Owed;
use crate::page::{Page, Part, What};

/// A figure of the generator's, as the page has it.
struct Row {
    what: What,
    /// What the generator calls it.
    figure: &'static str,
    owed: Option<Owed>,
}

/// A plan takes at most so many milliseconds.
const PLAN: Owed = Owed::AtMost(20.0);

const ROWS: [Row; 13] = [
    row(
        "a plan for 10,000 partitions and 200 consumers, first assignment, p50",
        "plan, first assignment, p50",
        None,
    ),
    row(
        "a plan for 10,000 partitions and 200 consumers, first assignment, longest",
        "plan, first assignment, longest",
        Some(PLAN),
    ),
    row("a plan for as many, one joins, p50", "plan, one joins, p50", None),
    row("a plan for as many, one joins, longest", "plan, one joins, longest", Some(PLAN)),
    row("a plan for as many, one leaves, p50", "plan, one leaves, p50", None),
    row("a plan for as many, one leaves, longest", "plan, one leaves, longest", Some(PLAN)),
    row("a plan for as many, nothing to do, p50", "plan, nothing to do, p50", None),
    row("a plan for as many, nothing to do, longest", "plan, nothing to do, longest", Some(PLAN)),
    row(
        "a consumer registers: to its first Warm, beyond the debounce of 1 s, longest",
        "registered to first Warm, beyond the debounce, longest",
        Some(Owed::AtMost(50.0)),
    ),
    row("a handoff, one at a time: ready to assigned, p50", "ready to assigned, 1 at once, p50", None),
    row(
        "a handoff, one at a time: ready to assigned, p99",
        "ready to assigned, 1 at once, p99",
        Some(Owed::AtMost(20.0)),
    ),
    row("a handoff, 16 at once: ready to assigned, p99", "ready to assigned, 16 at once, p99", None),
    row(
        "a consumer has stopped: until another has its 50 partitions, debounce and all, p50",
        "stopped to replaced by the other, all in all, p50",
        None,
    ),
];

const fn row(name: &'static str, figure: &'static str, owed: Option<Owed>) -> Row {
    Row { what: What { part: Part::Assigner, name, unit: "ms", aim: Aim::Less }, figure, owed }
}

/// Measures all that concerns the assigner.
pub(crate) fn measure(scale: Scale, generator: &mut Generator, page: &mut Page) -> Result<()> {
    let etcd = Etcd::start(&etcd::Options::default())?;
    let kohort = Kohort::start(Options::default())?;
    let assigner = Assigner::start(&etcd.url(), &kohort.bootstrap(), &[])?;
    let (url, rounds) = (assigner.url(), scale.rounds.to_string());
    let scenario = ["handoff", "--assigner", &url, "--rounds", &rounds, "--concurrent", "1,16"];
    let on = On::One { name: "kohort", address: kohort.bootstrap() };
    let figures = generator.run_naming(&scenario, &[(url.clone(), "ASSIGNER")], &on)?;
    page.note("handoff", &figures);
    for Row { what, figure, owed } in ROWS {
        page.add(what, true, figures.values("assigner", figure)?);
        if let Some(owed) = owed {
            page.owe(what, owed);
        }
    }
    Ok(())
}
