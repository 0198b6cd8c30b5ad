//! Every client through every scenario, against a real Kohort.
//!
//! The grid in `docs/compatibility.md` is made here with `KOHORT_WRITE_GRID=1`; without it, a cell that the document
//! shows as passed must pass. A client that cannot run on this machine is listed as not run, which is a failure where
//! `CI=true`. `KOHORT_E2E_BROKER=kafka` puts the clients through the scenarios on a real Kafka instead, which tests
//! the scenarios. An argument restricts the run to clients and scenarios whose names contain it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program of its own, which prints its table"
)]

mod grid;
mod rdkafka_client;

use std::collections::BTreeMap;
use std::env;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e2e::broker::Broker;
use e2e::clients::{self, SCENARIOS};
use e2e::process::{Finished, run_within};

use crate::grid::{Cell, Grid, Row};

/// The first argument that turns this program into the client program for the crate rdkafka.
const ACT_AS_CLIENT: &str = "act-as-rdkafka-client";

/// Every client in every scenario.
const GRID: Grid = Grid { mark: "grid", heading: "## Clients", columns: &SCENARIOS };

/// What one scenario may take: compaction waits up to a minute by itself.
const CELL_LIMIT: Duration = Duration::from_secs(100);

/// How much of what a failed client said is shown.
const LINES_OF_A_FAILURE: usize = 30;

/// Settling, cleaning and retention are looked after often, so that nobody waits for them.
const SETTINGS: [(&str, &str); 3] = [
    ("kohort.settle.interval.ms", "200"),
    ("log.cleaner.backoff.ms", "200"),
    ("log.retention.check.interval.ms", "1000"),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [first, bootstrap, scenario, prefix] = arguments.as_slice()
        && first == ACT_AS_CLIENT
    {
        return finish(rdkafka_client::run(bootstrap, scenario, prefix).map(|()| true));
    }
    // Flags are for the usual test program, which this is not.
    let filters: Vec<_> = arguments.into_iter().filter(|it| !it.starts_with('-')).collect();
    finish(run_grid(&filters))
}

fn finish(outcome: Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_grid(filters: &[String]) -> Result<bool> {
    let started = Instant::now();
    let broker = Broker::start(&SETTINGS)?;
    let bootstrap = broker.bootstrap();
    let mut programs: Vec<(&str, Result<Command, String>)> = Vec::new();
    let mut rdkafka = Command::new(env::current_exe().context("find this program")?);
    rdkafka.arg(ACT_AS_CLIENT);
    programs.push(("rdkafka", Ok(rdkafka)));
    programs.extend(clients::ALL.map(|client| (client.name(), client.command())));

    let mut rows = Vec::new();
    let mut problems = Vec::new();
    for (name, program) in &programs {
        let mut row = Row { client: (*name).to_owned(), version: String::new(), cells: BTreeMap::new() };
        if let Ok(program) = program {
            let finished = run(program, &bootstrap, "version", "")?;
            row.version = lines(&finished).find_map(|line| field(&line, "version")).unwrap_or_default();
        }
        for scenario in SCENARIOS {
            if !filters
                .iter()
                .all(|filter| name.contains(filter.as_str()) || scenario.contains(filter.as_str()))
            {
                continue;
            }
            let cell = match program {
                Err(reason) => {
                    println!("{name:16} {scenario:16}           not run: {reason}");
                    Cell::NotRun(reason.clone())
                }
                Ok(program) => try_cell(program, &bootstrap, name, scenario)?,
            };
            let missing = matches!(cell, Cell::NotRun(_)) && env::var("CI").is_ok_and(|it| it == "true");
            if missing || cell == Cell::Failed {
                problems.push(format!("{name}: {scenario}: {}", if missing { "not run" } else { "failed" }));
            }
            row.cells.insert(scenario, cell);
        }
        rows.push(row);
    }
    println!("clients: {:.1} s", started.elapsed().as_secs_f64());
    if let Broker::Kohort(kohort) = &broker {
        if filters.is_empty() {
            problems.extend(GRID.keep(&rows)?);
        }
        if !problems.is_empty() {
            println!("Kohort said:\n{}", kohort.output());
        }
    }
    let passed =
        rows.iter().flat_map(|row| row.cells.values()).filter(|it| matches!(it, Cell::Passed { .. })).count();
    println!("{passed} cells passed, {} problems", problems.len());
    for problem in &problems {
        println!("  {problem}");
    }
    Ok(problems.is_empty())
}

fn run(program: &Command, bootstrap: &str, scenario: &str, prefix: &str) -> Result<Finished> {
    let mut command = Command::new(program.get_program());
    command.args(program.get_args()).args([bootstrap, scenario, prefix]);
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    run_within(command, CELL_LIMIT)
}

fn try_cell(program: &Command, bootstrap: &str, name: &str, scenario: &str) -> Result<Cell> {
    // The topics of one client carry its name, so that a client that reads them all harms nobody else's.
    let prefix = name.to_lowercase().replace(' ', "-");
    let finished = run(program, bootstrap, scenario, &prefix)?;
    let seconds = finished.took.as_secs_f64();
    if !finished.success() {
        let why = if finished.status.is_none() { "took too long" } else { "failed" };
        let said = format!("{}{}", finished.stdout, finished.stderr);
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES_OF_A_FAILURE)..].join("\n");
        println!("{name:16} {scenario:16} {seconds:6.1} s  {why}\n{last}");
        return Ok(Cell::Failed);
    }
    if let Some(reason) = lines(&finished).find_map(|line| field(&line, "unsupported")) {
        println!("{name:16} {scenario:16} {seconds:6.1} s  n/a: {reason}");
        return Ok(Cell::Unsupported(reason));
    }
    let skipped = lines(&finished)
        .filter_map(|line| Some(format!("{} ({})", field(&line, "skipped")?, field(&line, "reason")?)))
        .collect::<Vec<_>>();
    if lines(&finished).find_map(|line| field(&line, "check")).is_none() {
        println!("{name:16} {scenario:16} {seconds:6.1} s  failed: it checked nothing");
        return Ok(Cell::Failed);
    }
    let without = skipped.iter().map(|what| format!(", without {what}")).collect::<String>();
    println!("{name:16} {scenario:16} {seconds:6.1} s  passed{without}");
    Ok(Cell::Passed { skipped })
}

fn lines(finished: &Finished) -> impl Iterator<Item = serde_json::Value> {
    finished.stdout.lines().filter_map(|line| serde_json::from_str(line).ok())
}

fn field(line: &serde_json::Value, name: &str) -> Option<String> {
    line.get(name)?.as_str().map(str::to_owned)
}
